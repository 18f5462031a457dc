local stream, events = KEYS[1], KEYS[2]
local after, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = tonumber(redis.call('HGET', stream, 'n'))
if not newest then return { 0, 0, {} } end
local first = newest - redis.call('LLEN', events) + 1
local skipped = math.max(0, after + 1 - first)
return { newest, first + skipped, redis.call('LRANGE', events, skipped, skipped + limit - 1) }
