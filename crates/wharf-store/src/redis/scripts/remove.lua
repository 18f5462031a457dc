local id = ARGV[1]
local found = live(id)
local owner = found and found.owner or redis.call('HGET', OWNERS, id)
if owner then forget(id, owner) end
return found and 1 or 0
