local id, owner, created, fence, due, expires, body, version, next = unpack(ARGV)
local before = live(id)
if not before or before.version ~= version then return 0 end
if before.owner ~= owner then
  redis.call('ZREM', owned(before.owner), id)
  redis.call('ZREM', fleeting(before.owner), id)
end
put(id, next, owner, created, fence, due, expires, body)
return 1
