-- register.lua reads a text on which all agree, or replaces it.
--
-- KEYS[1]  the register: a hash of its version and its text. It lives until somebody
--          deletes it: what operators have said is not forgotten by time
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- ARGV[4]  the version, in decimal, that is known of a register that is read, or that one
--          has to be in to be replaced; 0 is none. Versions are compared as texts
-- ARGV[5]  the version that replaces it; '' reads
-- ARGV[6]  the text that replaces it
--
-- Returns {status + 4 * number of the call, now, ...}. Status 0: done. 1: the deadline
-- has passed; nothing was written. What follows is
--   read     the version, and the text, false where the version is the known one. Of what
--            is longer than it can be, its length in bytes
--   replace  1, or 0 where it is in another version, and was left as it is

local number, now, deadline = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end
local version = redis.call('HGET', KEYS[1], 'version') or '0'

if ARGV[5] == '' then
  if version == ARGV[4] then
    return {4 * number, now, version, false}
  end
  local text = redis.call('HGET', KEYS[1], 'text')
  if #version > 16 then
    version = #version
  end
  if text and #text > 262144 then
    text = #text
  end
  return {4 * number, now, version, text}
end

if version ~= ARGV[4] then
  return {4 * number, now, 0}
end
redis.call('HSET', KEYS[1], 'version', ARGV[5], 'text', ARGV[6])
return {4 * number, now, 1}
