-- share.lua adds to what nodes share, and tells all of it.
--
-- KEYS[1]  a string: a salt of 16 bytes, and for each thing its name of 16 bytes, the
--          instant in us at which it ends in 16 digits, the length of its text in 3
--          digits, and its text. It lives for SHARED_MS after it was last written
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- ARGV[4]  16 bytes drawn at random: the salt, if there is none
-- ARGV[5]  and on: a name, an end in 16 digits and a text, for each thing that is told
--
-- Returns {status + 4 * number of the call, now, ...}. Status 0: done. 1: the deadline
-- has passed; nothing was written. What follows is the salt, and of each thing that
-- lasts its name, and its end with its text. Of what is told, that is left out which
-- ends before, or later than SHARED_MS from now (a clock has been set), and that for
-- which there is no room beside MAX_SHARED others.

local number, now, deadline = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end
local text, written = redis.call('GET', KEYS[1]), false
if not text or #text < 16 or #text > MAX_LENGTH then -- somebody else has written it
  text, written = ARGV[4], true
end
local most = now + SHARED_MS * 1000
local answer, ends_of, place = {4 * number, now, string.sub(text, 1, 16)}, {}, {}

local function add(name, value)
  local ends, at = string.sub(value, 1, 16) + 0, place[name]
  if ends <= now or ends > most or at and ends <= ends_of[name] or not at and #answer >= 3 + 2 * MAX_SHARED then
    return false
  end
  if not at then
    at = #answer + 2
    answer[at - 1], place[name] = name, at
  end
  answer[at], ends_of[name] = value, ends
  return true
end

local from = 17
while from <= #text do
  local length = tonumber(string.sub(text, from + 32, from + 34))
  if not length or not tonumber(string.sub(text, from + 16, from + 31)) then
    written = true -- it has not this form, and is written anew
    break
  end
  add(string.sub(text, from, from + 15), string.sub(text, from + 16, from + 31) .. string.sub(text, from + 35, from + 34 + length))
  from = from + 35 + length
end
for i = 5, #ARGV, 3 do
  written = add(ARGV[i], ARGV[i + 1] .. ARGV[i + 2]) or written
end
if written then
  local parts = {answer[3]}
  for i = 4, #answer, 2 do
    local value = answer[i + 1]
    parts[#parts + 1] = answer[i] .. string.sub(value, 1, 16) .. string.format('%03d', #value - 16) .. string.sub(value, 17)
  end
  redis.call('SET', KEYS[1], table.concat(parts), 'PX', SHARED_MS)
end
return answer
