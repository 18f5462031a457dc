local limit = tonumber(ARGV[1])
local found, offset = {}, 0
while #found < limit do
  local ids = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', offset, limit)
  if #ids == 0 then break end
  for _, id in ipairs(ids) do
    if not live(id) then
      -- It expired, so it is not due any more.
      redis.call('ZREM', DUE, id)
    else
      offset = offset + 1
      if #found < limit then found[#found + 1] = id end
    end
  end
end
return found
