-- roster.lua notes that a node is alive, or has gone, and counts those that are.
--
-- KEYS[1]  the roster: a sorted set of the nodes by the instant until which they
--          are alive, in us. It lives as long as the last of them
-- KEYS[2]  the same of the nodes that count in integers where a window counter is one
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- ARGV[4]  the node
-- ARGV[5]  for how long it is alive from now on, in us; 0 takes it out
--
-- Returns {status + 4 * number of the call, now, nodes, of those that count in integers}.
-- Status 0: done. 1: the deadline has passed, and nothing was written. nodes is -1 when
-- there are 4096 others, and the node was not noted.

local number, now, deadline, ttl = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[5] + 0
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now, 0, 0}
end
-- Who may not add to an integer does not read them either: it could not go on counting.
local reads = not redis.acl_check_cmd or redis.acl_check_cmd('INCRBY', KEYS[1], '1')
for s = 1, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[s], '-inf', string.format('%d', now))
  if ttl == 0 or s == 2 and not reads then
    redis.call('ZREM', KEYS[s], ARGV[4])
  elseif redis.call('ZCARD', KEYS[s]) >= 4096 and not redis.call('ZSCORE', KEYS[s], ARGV[4]) then
    return {4 * number, now, -1, 0}
  else
    redis.call('ZADD', KEYS[s], string.format('%d', now + ttl), ARGV[4])
  end
  local last = redis.call('ZREVRANGE', KEYS[s], 0, 0, 'WITHSCORES')[2]
  if last then
    redis.call('PEXPIRE', KEYS[s], string.format('%d', math.floor((last - now + 999) / 1000) + 1000))
  end
end
return {4 * number, now, redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])}
