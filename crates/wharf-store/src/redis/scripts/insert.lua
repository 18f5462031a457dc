local id, owner, created, fence, due, expires, body, most = unpack(ARGV)
if live(id) then return 0 end
local before = redis.call('HGET', OWNERS, id)
if before then forget(id, before) end
local count = redis.call('ZCARD', owned(owner)) - redis.call('ZCOUNT', fleeting(owner), '-inf', now)
if count >= tonumber(most) then return 0 end
put(id, '1', owner, created, fence, due, expires, body)
return 1
