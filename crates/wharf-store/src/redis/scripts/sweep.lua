local ids = redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(ids) do
  forget(id, redis.call('HGET', OWNERS, id))
end
return #ids
