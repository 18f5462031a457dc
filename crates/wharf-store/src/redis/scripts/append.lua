-- A stream is a hash (n: the newest number, b: the bytes of all events) and a list of events.
local stream, events = KEYS[1], KEYS[2]
local event, most, most_bytes, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local newest = redis.call('HINCRBY', stream, 'n', 1)
local bytes = (tonumber(redis.call('HGET', stream, 'b')) or 0) + #event
local count = redis.call('RPUSH', events, event)
while count > 1 and (count > most or bytes > most_bytes) do
  bytes = bytes - #redis.call('LPOP', events)
  count = count - 1
end
redis.call('HSET', stream, 'b', bytes)
redis.call('PEXPIRE', stream, ttl)
redis.call('PEXPIRE', events, ttl)
return newest
