-- take.lua decides a batch of takes in one atomic step. This stands after head.lua, which
-- reads the head of ARGV[1]; here follow records. The first byte says what a
-- record is:
--   0 .. 3   a take: 0 hit, 1 refund, 2 reset, 3 charge (hits that have passed
--            already). Then
--     group  one byte: 0 alone, 1 in a group, 2 the last of a group; 3 and 4
--            likewise of a group that comes several times
--     shadow one byte, 0 or 1
--     shared one byte: 0 if the bucket has no other take, 1 if it has, 2 if it has
--            none but this is one of a group
--     s      three bytes: the bucket
--     hits   0 .. 2^50, in seven bytes; of concurrency 0, or the hold that asks for
--            a slot, gives it back (a refund) or keeps it (a charge), or 2^53 if
--            nobody asks for one
--     times  three bytes: so many takes (groups) that all say the same, one after
--            the other; more than 1 only for hits > 0 alone, and for groups of
--            hits that are no shadows, each on another bucket; and never for
--            sub_windows, sliding_log and concurrency
--   4        a limit, as head.lua describes it: all takes up to the next one are
--            decided by it
--   5, 6     a hit in a group, on the bucket after that of the last take, which has
--            no other; 6 is the last of the group. Then the hits, one byte
--   7        hits that are likely to pass, or a limit once more; see likely.lua
--   8 ..     a hit alone, on the bucket after that of the last take, which has no
--            other: as many hits as the byte is above 8
--
-- Returns what head.lua says, and for each take
--   verdict    the delay of an allowed one, >= 0; -1 - retry_after of a denied
--              one; NEVER for what never passes
--   remaining, reset_after
--   previous   the count of the previous window; of sliding_window only, and if
--              the flags say so
-- or one number, which can be no verdict, where quick.lua has decided it (packed.go,
-- drained.go), or LATER, for a take of which the answer stands behind all others; or for one that comes several times, kind, a, b and c of the state before: from
-- that the caller tells the answers apart, since it knows the arithmetic too.
--
-- A state is five variables: kind, a, b, c and wide. Kind 0 is unused. wide is a
-- table, never changed once it is made: of 3 its parts, of 4 the log. Of 9 it is the
-- value.
--
-- Beside it, a state has a mark, the period of a window counter, or '', and terms, a
-- table or false. Where these and the kind are not those that the limit writes, the
-- state is read by carry.lua.
--
-- To set a time to live anew costs a fifth of a take. A counter of the present window
-- does not need it if it had hits in this window before, under the same period: then it
-- was set until the same instant.
--
-- The bucket of a take alone is read, decided and written on the spot; that of one
-- in a group is written when the group has passed. A bucket with several takes is
-- read once, kept in known, and written in the end. A dry run writes none of them.
local known -- by bucket: {kind, a, b, c, wide, exists, mark, changed, reset, terms}
local undo  -- by bucket: what known held before the group
local pending, pended = {}, 0 -- what the group writes: ten values for each
local group_at, group_limit_at, group_s, group_filled, held, peek
local fits  -- how often a group passes that comes several times
local dealt -- it is being charged
local limit_mark, own_form -- of window counters: the mark, and the form of a state
local rare -- of a limit that has such: {limit_terms, resets, max_debt}
local sub_windows, sliding_log, concurrency, carry, note -- made when needed
local load_log, save_log, log_of, log_stamp, log_after, log_before, log_text
-- Of a limit that counts in integers: that of the present window without hits, its form,
-- and how much is left of the window.
local packs_base, packs_form, packs_left
-- Of one that is a bucket which drains: den and the tolerance, in whole us and in steps of
-- 1/den us, and the forms of its states, to read and to write.
local drain_den, drain_reach, drain_most, drain_form, drain_text
-- The limits so far, in their order: what likely.lua needs of one that counts in integers, and
-- of others false and the place of the record; how many, and the place of the last.
local limits, limits_said, limits_until = {}, 0, 0
-- What quick.lua is at: where its take or group began, with its limit, bucket and answer,
-- whether that is held, what it is to write in queue, and the place of what it left undone.
local unit, unit_limit_at, unit_s, unit_filled, unit_held, queue, queued, tried

local algorithm, counts_denied, quota, period = 0, 0, 0, 0
-- at is so that what only some algorithms have begins TAKE_BYTES after it, as where
-- each take has its own limit.
local s, place, limit_at, extra, jump = 0, at, 0, 0, nil

local reply, filled, last = {4 * number, now, 0, 0, 0}, 2, #data -- with room for one answer
while place <= last do
  local op
  repeat
    op = byte(data, place)
    local done = op == 4
    if done then
LIMIT
    elseif op == 7 then
      done = true
LIKELY
    elseif op and (unit or op > 4 and (packs_base or drain_form) and not group_at and place ~= tried) then
      done = true
QUICK
    end
  until not done
  if not op then
    break
  end
  local group, shadow, shared, hits, times = 0, 0, 0, 0, 1
  local here, s_before = place, s
  if op >= 8 then
    s, op, hits = s + 1, 0, op - 8
    place = place + 1
  elseif op >= 5 then
    s, group, shared, op, hits = s + 1, op - 4, 2, 0, byte(data, place + 1)
    place = place + 2
  else
    local BYTES(s_, 3), BYTES(hits_, 7), BYTES(times_, 3)
    group, shadow, shared, BYTES(s_, 3), BYTES(hits_, 7), BYTES(times_, 3) = byte(data, place + 1, place + 16)
    s, hits, times = WHOLE(s_, 3), WHOLE(hits_, 7), WHOLE(times_, 3)
    place = place + 17
  end
  local kind, a, b, c, wide, exists, changed = 0, 0, 0, 0, false, false, false
  local stored_mark, terms, foreign, touched = '', false, false, false
  local refund, verdict, remaining, reset = 0, 0, 0, 0
  local denied, debt = counts_denied, false
  local own = algorithm == CALENDAR and 2 or algorithm
  local limit_terms, resets, max_debt, list
  if rare then
    limit_terms, resets, max_debt = rare[1], rare[2], rare[3]
  end

  local entry = known and known[s]
  if entry then
    kind, a, b, c, wide, exists = entry[1], entry[2], entry[3], entry[4], entry[5], entry[6]
    stored_mark, terms = entry[7], entry[10]
  else
    local text
    if algorithm == 4 then
      wide, exists = load_log(s)
    end
    if wide then
      kind = 4
    elseif algorithm ~= 4 or exists then
      text = redis.call('GET', KEYS[s])
    end
    if text then
      exists = true
      local first, second, third, fourth
      if own_form then
        first, second, third, fourth = match(text, own_form)
      end
      if fourth then
        kind, a, b, stored_mark, c = algorithm, first + 0, second + 0, third, fourth + 0
      elseif third then
        kind, a, stored_mark, b = 2, first + 0, second, third + 0
      elseif first then
        kind, a, b = algorithm, first + 0, second + 0
      end
      if kind == 0 then
LOAD
      end
    end
  end
  if shared == 1 then
    known = known or {}
    if not entry then
      entry = {kind, a, b, c, wide, exists, stored_mark, false, 0, terms}
      known[s] = entry
    end
    if group > 0 then
      undo = undo or {}
      undo[s] = undo[s] or entry
    end
  end
  if group > 0 and not group_at then
    group_at, group_limit_at, group_s, group_filled, held, fits = here, limit_at, s_before, filled, false, times
  end

  local stored_at, stored_count = a, b
  if kind ~= 0 and (kind ~= own or stored_mark ~= limit_mark or terms or limit_terms
    or kind == 3 and (b ~= period or #wide ~= byte(data, at + TAKE_BYTES) + 1 or a % period ~= 0)) then
    if (kind == 4 or kind == 12 or terms and terms.others) and not sliding_log then
      sliding_log, load_log, save_log, log_of, log_stamp, log_after, log_before, log_text = (function()
SLIDING_LOG
      end)()
    end
    if not carry then
      carry, note = (function()
CARRY
      end)()
    end
    kind, a, b, c, wide, foreign, list = carry(s, kind, a, b, c, wide, stored_mark, terms, own, algorithm, quota, period, limit_mark, limit_terms, resets, max_debt)
    foreign = foreign or list and op == 3 -- what this limit forgives is noted for the others
  end
  if kind == 4 and type(wide) == 'string' then
    wide = log_of(s, wide)
  end

  local each, deal = hits, 0
  if op == 1 then
    if exists and not peek then
      refund = hits
    end
    hits = 0
  elseif op == 2 then
    if not peek then
      kind, changed, exists, list = 0, exists, false, nil
    end
    hits = 0
  elseif peek then
    hits = 0
  elseif op == 3 then
    denied, debt = 1, max_debt
  elseif dealt then
    hits = hits * fits
  elseif times > 1 then
    -- The first run looks how many fit.
    deal, hits = times, 0
    reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] =
      kind, max(min(a, MAX_STORED), -MAX_STORED), min(b, MAX_STORED), min(c, MAX_STORED)
  end

  repeat
    local again = false
    if foreign and hits > 0 then
      touched = true
    end
    if algorithm == 1 then
SLIDING_WINDOW
    elseif algorithm == 2 or algorithm == CALENDAR then
FIXED_WINDOW
    elseif algorithm == 3 then
      local parts, strict = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 1)
      local before = kind == 3 and {a, b, wide}
      local after
      after, verdict, remaining, reset = sub_windows(quota, denied == 1, period, parts, strict == 1, before, hits, refund, debt)
      if refund > 0 or after ~= before then
        kind, changed = 0, true
        if after then
          kind, a, b, wide = 3, after[1], after[2], after[3]
        end
      end
    elseif algorithm == 4 then
      local before = kind == 4 and wide
      local after
      after, verdict, remaining, reset = sliding_log(s, quota, period, before, hits, refund, op == 3)
      if refund > 0 or after ~= before then
        kind, wide, changed = 0, after, true
        if after then
          kind = 4
        end
      end
    elseif algorithm == 9 then
      local before = kind == 9 and wide
      local after
      after, verdict, remaining, reset = concurrency(quota, period, before, hits, refund, op == 3)
      if after ~= before then
        kind, wide, changed = 0, after, true
        if after then
          kind = 9
        end
      end
    elseif algorithm == 10 then
BAN
    else
TAT
    end
    if touched and kind ~= 0 then
      changed = true
    end
    refund = again and 0 or refund
    if op == 3 and hits > 0 then
      hits, denied, verdict, again = 0, 0, 0, true
      remaining, reset = 0, 0
    elseif deal > 0 then
      local passing = deal
      if verdict < 0 then
        passing = 0
      elseif each > 0 and algorithm == 10 then
        passing = remaining > 0 and deal or 0
      elseif each > 0 then
        passing = floor(remaining / each)
      end
      if group > 0 then
        fits = min(fits, passing)
      else
        -- Denied hits may count too; and a denial may have to put a state in order.
        hits = each * (counts_denied == 1 and deal or max(min(deal, passing), 1))
        verdict, remaining, reset, again = 0, 0, 0, true
      end
      deal = 0
    end
  until not again
  if remaining < 0 then
    remaining = 0
  end
  if reset < 0 then
    reset = 0
  end

  if times > 1 then
    if not dealt then
      filled = filled + 4
    end
  else
    if not (peek and op == 0 and reply[filled + 1] < 0) then
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = verdict, remaining, reset
    end
    filled = filled + 3
    if algorithm == 1 and tells and not dry then
      filled = filled + 1
      reply[filled] = seen
    end
  end
  if changed then
    local mark, terms = limit_mark, limit_terms
    if list then
      if not note then
        carry, note = (function()
CARRY
        end)()
      end
      local charged = 0 -- or, below 0, given back
      if op == 1 or op == 3 then
        charged = op == 3 and each or -each
      elseif verdict >= 0 or counts_denied == 1 then
        charged = hits
      end
      terms, kind, a, b, c, wide = note(list, s, charged, reset, kind, a, b, c, wide, own, algorithm, period, mark)
    end
    local kept = mark ~= '' and stored_mark == mark and stored_at == a and stored_count > 0 and b > 0
      and kind == algorithm and not foreign and not terms and a == now - now % period
    if shared == 1 then
      known[s] = {kind, a, b, c, wide, kind ~= 0, kind == 0 and '' or mark, true, reset, kind ~= 0 and terms}
    elseif shared == 2 then
      pending[pended + 1], pending[pended + 2], pending[pended + 3], pending[pended + 4] = s, kind, a, b
      pending[pended + 5], pending[pended + 6], pending[pended + 7] = c, wide, reset
      pending[pended + 8], pending[pended + 9], pending[pended + 10] = mark, kept, terms
      pended = pended + 10
    elseif not dry then
KEPT_SAVE
    end
  end

  -- A group: each take is charged as if it stood alone; when one that is no
  -- shadow is denied, all of that is forgotten, and the group is gone through
  -- once more, where those that would have passed answer as a peek does. One that
  -- comes several times is only looked at, and then, if it passes at all, gone
  -- through once more and charged.
  if group > 0 then
    if op == 0 and verdict < 0 and shadow == 0 then
      held = true
    end
    if group == 4 and fits > 0 and not dealt then
      dealt, place, jump, s = true, group_limit_at, group_at, group_s
    elseif group == 2 and held and not peek then
      if undo then
        for bucket, before in pairs(undo) do
          known[bucket] = before
        end
      end
      pended, filled, peek, place, jump, s = 0, group_filled, true, group_limit_at, group_at, group_s
    elseif group % 2 == 0 then
      for i = 1, dry and 0 or pended, 10 do
        local s, kind, a, b, c, wide, reset = pending[i], pending[i + 1], pending[i + 2], pending[i + 3], pending[i + 4], pending[i + 5], pending[i + 6]
        local mark, kept, terms = pending[i + 7], pending[i + 8], pending[i + 9]
KEPT_SAVE
      end
      pended, peek, dealt, group_at, undo = 0, false, false, nil, nil
    end
  end
end

if known and not dry then
  for s, entry in pairs(known) do
    if entry[8] then
      local kind, a, b, c, wide, reset = entry[1], entry[2], entry[3], entry[4], entry[5], entry[9]
      local mark, terms = entry[7], entry[10]
SAVE
    end
  end
end

for i = filled + 1, 5 do
  reply[i] = nil
end
return reply
