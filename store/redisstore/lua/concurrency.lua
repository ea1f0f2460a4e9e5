-- concurrency.lua (concurrency.go). The value is '9' and SLOT_BYTES for each slot: when
-- it ends and its hold, seven bytes each, the high one first. The slot that ends
-- first stands first. A state is the value, or false.
--
-- To make a text costs up to a nanosecond and a half for each byte, so that little
-- is cut and joined. Numbers are read to be compared: < would compare text in the
-- way of the server's language.
local find, sub, char = string.find, string.sub, string.char

-- Returns the end of the slot at place i.
local function ends(slots, i)
  local BYTES(t, 7) = byte(slots, i, i + 6)
  return WHOLE(t, 7)
end

-- Returns how many slots end at t or before; the others follow them.
local function ended(slots, t)
  local low, high = 0, floor(#slots / SLOT_BYTES)
  if high > 0 and ends(slots, 2) > t then
    return 0
  end
  while low < high do
    local middle = floor((low + high) / 2)
    if ends(slots, 2 + middle * SLOT_BYTES) > t then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- Returns the place of the slot of a hold, or nil. The bytes may by chance be there
-- across two numbers.
local function place_of(slots, hold)
  local p = find(slots, hold, 9, true)
  while p and p % SLOT_BYTES ~= 9 do
    p = find(slots, hold, p + 1, true)
  end
  return p and p - 7
end

-- Returns the slots without one that ends later than last.
local function settle(slots, last)
  local kept = 1 + ended(slots, last) * SLOT_BYTES
  local finish = string.gsub(char(CHARS(last, 7)), '%%', '%%%%')
  return sub(slots, 1, kept) .. string.gsub(sub(slots, kept + 1), '.......(.......)', finish .. '%1')
end

-- hits is the hold that asks for a slot, or with charged keeps its own, and refund
-- the one that releases it. Holds above MAX_STORED are nobody.
return function(quota, period, state, hits, refund, charged)
  local slots, last = state or '9', now + period
  local gone = ended(slots, now)
  if gone > 0 then
    slots = '9' .. sub(slots, 2 + gone * SLOT_BYTES)
  end
  local who, hold, at = max(hits, refund), nil, nil
  if who > 0 and who <= MAX_STORED then
    hold = char(CHARS(who, 7))
    at = place_of(slots, hold)
  end
  local used = floor(#slots / SLOT_BYTES)
  local newest = #slots - SLOT_BYTES + 1
  local write, verdict = at, 0
  if refund > 0 then
    hold = nil
  elseif hold and not at then
    write = used < (charged and MAX_SLOTS or quota)
  end
  if hits > 0 and not charged and not write and used >= quota then
    verdict, hold = NEVER, nil
    if quota > 0 then
      verdict = -1 - max(min(ends(slots, 2 + (used - quota) * SLOT_BYTES), last) - now, 1)
    end
    write = used > 0 and ends(slots, newest) > last
  end

  if write then
    local added = hold and char(CHARS(last, 7)) .. hold or ''
    if used > 0 and ends(slots, newest) > last then
      slots = settle(slots, last)
    end
    if at then
      slots = sub(slots, 1, at - 1) .. sub(slots, at + SLOT_BYTES) .. added
    elseif hold then
      slots = slots .. added
    end
    state = slots ~= '9' and slots
    used = floor(#slots / SLOT_BYTES)
  end
  local reset = 0
  if used > 0 then
    reset = max(min(ends(slots, #slots - SLOT_BYTES + 1), last) - now, 1)
  end
  return state, verdict, quota - used, reset
end
