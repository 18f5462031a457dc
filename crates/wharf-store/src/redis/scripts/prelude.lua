-- Before every script about records. KEYS[1] is where all keys of the store begin.
local base = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local DUE = base .. ':due'           -- ids by when somebody must look after them
local EXPIRING = base .. ':expiring' -- ids by when they expire
local OWNERS = base .. ':owners'     -- whose they are, of those that expire: their hash goes by itself

local function row(id) return base .. ':r:' .. id end
local function kept(id) return base .. ':k:' .. id end
local function owned(owner) return base .. ':o:' .. owner end
local function fleeting(owner) return base .. ':x:' .. owner end

-- The version, fence and owner of a record that has not expired.
local function live(id)
  local found = redis.call('HMGET', row(id), 'v', 'f', 'o', 'e')
  if not found[1] or (found[4] ~= '' and tonumber(found[4]) <= now) then return nil end
  return { version = found[1], fence = found[2], owner = found[3] }
end

local function forget(id, owner)
  redis.call('DEL', row(id), kept(id))
  -- Nobody knows whose it was if somebody deleted the hash of owners: the others must still be swept.
  if owner then
    redis.call('ZREM', owned(owner), id)
    redis.call('ZREM', fleeting(owner), id)
  end
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', EXPIRING, id)
  redis.call('HDEL', OWNERS, id)
end

-- Writes a record and all that finds it.
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
