-- A state is five variables: kind, a, b, c and wide. Kind 0 is unused. wide is a
-- table, never changed once it is made: of 3 its parts, of 4 the log.
--
-- The bucket of a take alone is read, decided and written on the spot. One with
-- several takes, or with one in a group, is read once, kept in known, and
-- written in the end.
local known -- by bucket: {kind, a, b, c, wide, exists, as_log, changed, reset}
local undo  -- by bucket: what known held before the group
local group_at, group_filled, held, peek
local sub_windows, sliding_log, load_log, save_log -- made when needed

local reply, filled, last = {4 * number, now, 0, 0, 0}, 2, #data
while at <= last do
  local op, group, shadow, shared, BYTES(s, 3), algorithm, denied, BYTES(hits, 7), BYTES(quota, 7), BYTES(period, 7) = byte(data, at, at + TAKE_BYTES - 1)
  local s, hits, quota, period = WHOLE(s, 3), WHOLE(hits, 7), WHOLE(quota, 7), WHOLE(period, 7)
  local kind, a, b, c, wide, exists, changed = 0, 0, 0, 0, false, false, false
  local refund, extra, verdict, remaining, reset = 0, 0, 0, 0, 0

  if algorithm == 3 and not sub_windows then
    sub_windows = (function()
SUB_WINDOWS
    end)()
  elseif algorithm == 4 and not sliding_log then
    sliding_log, load_log, save_log = (function()
SLIDING_LOG
    end)()
  end

  local entry = known and known[s]
  if entry and entry[1] == 0 and entry[6] and entry[7] ~= (algorithm == 4) then
    -- What the command by which it was read cannot tell, a log read as text or
    -- text as a log, is unused, but only to its like.
    entry = nil
  end
  if entry then
    kind, a, b, c, wide, exists = entry[1], entry[2], entry[3], entry[4], entry[5], entry[6]
  elseif algorithm == 4 then
    wide, exists = load_log(s)
    if wide then
      kind = 4
    end
  else
    local text = redis.call('GET', KEYS[s])
    if text then
      exists = true
      local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
      if head then
        kind, a, b = head + 0, first + 0, second + 0
        if third ~= '' then
          c = third + 0
        end
      else
        local rest
        first, second, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
        if first then
          kind, a, b, wide = 3, first + 0, second + 0, {}
          for count in string.gmatch(rest, '%d+') do
            wide[#wide + 1] = count + 0
          end
        end
      end
    end
  end
  if shared == 1 then
    known = known or {}
    if not entry then
      entry = {kind, a, b, c, wide, exists, algorithm == 4}
      known[s] = entry
    end
    if group > 0 and not peek then
      if not undo then
        undo, group_at, group_filled, held = {}, at, filled, false
      end
      undo[s] = undo[s] or entry
    end
  end

  if op == 1 then
    if exists and not peek then
      refund = hits
    end
    hits = 0
  elseif op == 2 then
    if not peek then
      kind, changed, exists = 0, exists, false
    end
    hits = 0
  elseif peek then
    hits = 0
  end

  repeat
    local again = false
    if algorithm == 1 then
SLIDING_WINDOW
    elseif algorithm == 2 or algorithm == 9 then
FIXED_WINDOW
    elseif algorithm == 3 then
      local parts, strict = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 1)
      extra = 2
      local before = kind == 3 and {a, b, wide}
      local after
      after, verdict, remaining, reset = sub_windows(quota, denied == 1, period, parts, strict == 1, before, hits, refund)
      if refund > 0 or after ~= before then
        kind, changed = 0, true
        if after then
          kind, a, b, wide = 3, after[1], after[2], after[3]
        end
      end
    elseif algorithm == 4 then
      local before = kind == 4 and wide
      local after
      after, verdict, remaining, reset = sliding_log(s, quota, period, before, hits, refund)
      if refund > 0 or after ~= before then
        kind, wide, changed = 0, after, true
        if after then
          kind = 4
        end
      end
    else
TAT
    end
    refund = again and 0 or refund
  until not again
  if remaining < 0 then
    remaining = 0
  end
  if reset < 0 then
    reset = 0
  end

  if not (peek and op == 0 and reply[filled + 1] < 0) then
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = verdict, remaining, reset
  end
  filled = filled + 3
  at = at + TAKE_BYTES + extra
  if changed then
    if shared == 1 then
      known[s] = {kind, a, b, c, wide, kind ~= 0, algorithm == 4, true, reset}
    else
SAVE
    end
  end

  -- A group: each take is charged as if it stood alone; when one that is no
  -- shadow is denied, all of that is forgotten, and the group is gone through
  -- once more, where those that would have passed answer as a peek does.
  if group > 0 then
    if op == 0 and verdict < 0 and shadow == 0 then
      held = true
    end
    if group == 2 then
      if held and not peek then
        for bucket, before in pairs(undo) do
          known[bucket] = before
        end
        at, filled, peek = group_at, group_filled, true
      else
        peek = false
      end
      undo = nil
    end
  end
end

if known then
  for s, entry in pairs(known) do
    if entry[8] then
      local kind, a, b, c, wide, reset = entry[1], entry[2], entry[3], entry[4], entry[5], entry[9]
SAVE
    end
  end
end

return reply
