-- Token bucket: a hash of the tokens (t) and of the microsecond they were counted at (a).
-- Returns the milliseconds until there is a token; 0 if one was taken.
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.call('HMGET', KEYS[1], 't', 'a')
local tokens, at = tonumber(found[1]) or burst, tonumber(found[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) / 1000000 * rate)
local wait = 0
if tokens >= 1 then
  tokens = tokens - 1
else
  wait = math.max(1, math.ceil(math.min(1e12, (1 - tokens) / rate * 1000)))
end
redis.call('HSET', KEYS[1], 't', string.format('%.17g', tokens), 'a', string.format('%.0f', now))
-- A full bucket equals a missing one, so it expires.
local full = math.ceil(math.min(1e12, (burst - tokens) / rate * 1000)) + 1000
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', full))
return wait
