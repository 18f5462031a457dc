local id, fence, name, value = unpack(ARGV)
local found = live(id)
if not found or found.fence ~= fence then return { 'lost' } end
if redis.call('HSETNX', kept(id), name, value) == 0 then
  return { 'known', redis.call('HGET', kept(id), name) }
end
local expires = redis.call('HGET', row(id), 'e')
if expires ~= '' then redis.call('PEXPIREAT', kept(id), expires) end
return { 'kept' }
