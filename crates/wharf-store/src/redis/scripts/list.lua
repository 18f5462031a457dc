local owner, limit, after = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local start = 0
if after then
  local rank = redis.call('ZRANK', owned(owner), after)
  if not rank then return {} end
  start = rank + 1
end
local found = {}
while #found < limit do
  local ids = redis.call('ZRANGE', owned(owner), start, start + limit - 1)
  if #ids == 0 then break end
  start = start + #ids
  for _, id in ipairs(ids) do
    local record = redis.call('HMGET', row(id), 'v', 'o', 'c', 'f', 'd', 'e', 'b')
    -- An id that expired may belong to another owner now.
    local lives = record[1] and record[2] == owner
      and (record[6] == '' or tonumber(record[6]) > now)
    if lives and #found < limit then
      found[#found + 1] = { id, record }
    end
  end
end
return found
