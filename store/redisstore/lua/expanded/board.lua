-- board.lua puts up the notice of a node, takes it down, or reads all.
--
-- KEYS[1]  the board: a sorted set of the nodes by the instant until which their
--          notices are up, in us. It lives as long as the last of them
-- KEYS[2]  and on: the notices of nodes, each a string that lives as long as it is up
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- ARGV[4]  what is asked for
--            post   puts up the notice ARGV[7] of the node ARGV[5], whose key is
--                   KEYS[2], for ARGV[6] us from now on; 0 takes it down
--            nodes  tells which nodes have a notice
--            read   reads those of the nodes ARGV[5] and on, whose keys are KEYS[2]
--                   and on
--
-- Returns {status + 4 * number of the call, now, ...}. Status 0: done. 1: the deadline
-- has passed; nothing was written. What follows is
--   post   1, or -1 when there are 256 others, and it was not put up
--   nodes  the nodes, 256 of them at most
--   read   the notices in the order of the nodes, false where there is none; as many
--          of them as have 131072 together, and at least one
--
-- What others have put there is not read: names longer than 256 are passed over, and
-- what is no string of at most 65536 bytes is an empty notice.

local number, now, deadline, op = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now))
local answer = {4 * number, now}

if op == 'nodes' then
  for _, node in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, 256 - 1)) do
    if #node <= 256 then
      answer[#answer + 1] = node
    end
  end
  return answer
end

if op == 'read' then
  local left = 131072
  for i = 2, #KEYS do
    local notice = false
    if redis.call('ZSCORE', KEYS[1], ARGV[3 + i]) then
      local length = redis.pcall('STRLEN', KEYS[i])
      if type(length) == 'number' and length <= 65536 then
        left = left - length
        if left < 0 and i > 2 then
          return answer
        end
        notice = redis.call('GET', KEYS[i])
      else
        notice = ''
      end
    end
    answer[1 + i] = notice
  end
  return answer
end

local node, ttl = ARGV[5], ARGV[6] + 0
if ttl == 0 then
  redis.call('ZREM', KEYS[1], node)
  redis.call('DEL', KEYS[2])
elseif redis.call('ZCARD', KEYS[1]) >= 256 and not redis.call('ZSCORE', KEYS[1], node) then
  return {4 * number, now, -1}
else
  redis.call('ZADD', KEYS[1], string.format('%d', now + ttl), node)
  redis.call('SET', KEYS[2], ARGV[7], 'PX', string.format('%d', math.floor((ttl + 999) / 1000) + 1000))
end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if last then
  redis.call('PEXPIRE', KEYS[1], string.format('%d', math.floor((last - now + 999) / 1000) + 1000))
end
answer[3] = 1
return answer
