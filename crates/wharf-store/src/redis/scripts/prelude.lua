-- Prelude of every record script. KEYS[1] is the prefix of all keys of the store.
local base = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local DUE = base .. ':due'           -- ids by due time
local EXPIRING = base .. ':expiring' -- ids by expiry
local OWNERS = base .. ':owners'     -- owners of the ids that expire: Redis deletes their hash by itself

local function row(id) return base .. ':r:' .. id end
local function kept(id) return base .. ':k:' .. id end
local function owned(owner) return base .. ':o:' .. owner end
local function fleeting(owner) return base .. ':x:' .. owner end

-- Version, fence and owner of a record that has not expired.
local function live(id)
  local found = redis.call('HMGET', row(id), 'v', 'f', 'o', 'e')
  if not found[1] or (found[4] ~= '' and tonumber(found[4]) <= now) then return nil end
  return { version = found[1], fence = found[2], owner = found[3] }
end

local function forget(id, owner)
  redis.call('DEL', row(id), kept(id))
  -- The owner is unknown if Redis evicted the hash of owners; the other indexes must be cleaned all
  -- the same.
  if owner then
    redis.call('ZREM', owned(owner), id)
    redis.call('ZREM', fleeting(owner), id)
  end
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', EXPIRING, id)
  redis.call('HDEL', OWNERS, id)
end

-- Writes a record and its index entries.
local function put(id, version, owner, created, fence, due, expires, body)
  redis.call('HSET', row(id), 'v', version, 'o', owner, 'c', created, 'f', fence,
    'd', due, 'e', expires, 'b', body)
  redis.call('ZADD', owned(owner), created, id)
  if due == '' then
    redis.call('ZREM', DUE, id)
  else
    redis.call('ZADD', DUE, due, id)
  end
  if expires == '' then
    redis.call('ZREM', fleeting(owner), id)
    redis.call('ZREM', EXPIRING, id)
    redis.call('HDEL', OWNERS, id)
    redis.call('PERSIST', row(id))
    redis.call('PERSIST', kept(id))
  else
    redis.call('ZADD', fleeting(owner), expires, id)
    redis.call('ZADD', EXPIRING, expires, id)
    redis.call('HSET', OWNERS, id, owner)
    redis.call('PEXPIREAT', row(id), expires)
    redis.call('PEXPIREAT', kept(id), expires)
  end
end
