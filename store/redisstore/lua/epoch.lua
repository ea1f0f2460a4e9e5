-- epoch.lua tells in which epoch this server is, and begins one if it has to.
--
-- KEYS[1]  the mark, a string: the epoch in 16 hexadecimal digits, the instant in us at which
--          it began in 16 digits, the run id of the server on which that was, and how many keys
--          that server had evicted, unless it was none. It lives for ever: without it all that
--          is here counts as forgotten
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- ARGV[4]  16 hexadecimal digits drawn at random: the epoch, if one begins
-- ARGV[5]  1 makes the epoch as old as it can be, 0 leaves it
--
-- Returns {status + 4 * number of the call, now, epoch, age in us}. Status 0: done. 1: the
-- deadline has passed; nothing was written. An epoch begins where there is no mark, or one of
-- another server: this one was started anew, with what it had saved, or has taken the place
-- of another. A server has one run id from its start to its end. Another epoch begins when the
-- server has evicted keys, because what was lent may have been counted in one of them.

local number, now, deadline = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local evicted = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')
if evicted and evicted ~= '0' then
  server = server .. evicted -- a run id has 40 digits
end
local mark = redis.call('GET', KEYS[1])
local epoch, since, of
if mark then
  epoch, since, of = string.match(mark, '^(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(%x+)$')
end
if not epoch or of ~= server then
  epoch, since, of = ARGV[4], now, nil
end
if ARGV[5] == '1' then
  since, of = 0, nil
end
if not of then
  redis.call('SET', KEYS[1], epoch .. string.format('%016d', since) .. server)
end
return {4 * number, now, epoch, math.max(now - since, 0)}
