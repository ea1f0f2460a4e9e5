-- lease.lua answers requests for leases on the buckets of one slot, each in one step: an
-- earlier lease ends and hits of it are given back, then hits are granted. The rules are
-- those of store.Leaser, the arithmetic that of limit.Return and limit.Lease. This
-- stands after head.lua, which reads the head of ARGV[1].
--
-- KEYS     first the names of the buckets, then in the same order those of their
--          registers
-- ARGV[1]  the head, and for each request a take without op and group, in the
--          words of head.lua: hits is how many are wanted. Its algorithms are 1, 2,
--          3, 5, 6, 8 and that with calendar windows; others are not leased
-- ARGV[2]  for each request FIELD_BYTES more bytes
--   id       of the new lease, eight bytes
--   return   the lease that ends, eight bytes; all zero is none
--   give     how many hits of it, 0 .. 2^50, in seven bytes as the others
--   share    1 .. 2^50
--   ttl      0 .. 2^50 us
--
-- Returns {status + 4 * number of the call, now} and for each request
--   granted, lasts, returned (0 or 1)
--   verdict, remaining, reset_after   as of a peek, or of one hit if none remains
-- with status and times as in head.lua.
--
-- A register is bytes: the latest end of any lease since it was empty, the sum of
-- their hits (which stops at 2^52) and when one was last granted or returned, seven
-- bytes each, then the leases in the order of their grants, LEASE_BYTES each: id, hits,
-- end. It lives as long as its last lease, and a margin.

local find, sub, char, fields = string.find, string.sub, string.char, ARGV[2]
local no_lease = string.rep('\0', 8)

-- seven writes a number of seven bytes.
local function seven(n)
  return char(CHARS(n, 7))
end

-- two reads two such numbers.
local function two(text, i)
  local BYTES(x, 7), BYTES(y, 7) = byte(text, i, i + 13)
  return WHOLE(x, 7), WHOLE(y, 7)
end

-- place returns where the lease with an id begins in leases.
local function place(leases, id)
  local p = find(leases, id, 1, true)
  while p and (p - 1) % LEASE_BYTES ~= 0 do
    p = find(leases, id, p + 1, true)
  end
  return p
end

local sub_windows, sliding_log, carry, note
local load_log, save_log, log_of, log_stamp, log_after, log_before, log_text
local reply, filled, last, field, buckets = {4 * number, now, 0, 0, 0, 0, 0, 0}, 2, #data, 1, #KEYS / 2
while at <= last do
  local op, group, shadow, shared, BYTES(s, 3), algorithm, denied, BYTES(want, 7), BYTES(quota, 7), BYTES(period, 7) = byte(data, at, at + TAKE_BYTES - 1)
  local s, want, quota, period = WHOLE(s, 3), WHOLE(want, 7), WHOLE(quota, 7), WHOLE(period, 7)
  local id, back = sub(fields, field, field + 7), sub(fields, field + 8, field + 15)
  local BYTES(give, 7), BYTES(share, 7), BYTES(ttl, 7) = byte(fields, field + 16, field + 36)
  local give, share, lasts = WHOLE(give, 7), WHOLE(share, 7), WHOLE(ttl, 7)
  local own, is_bucket, limit_mark = algorithm, algorithm > 4 and algorithm < 9, ''
  if algorithm == CALENDAR then
    own = 2
  elseif algorithm == 3 and not sub_windows then
    sub_windows = (function()
SUB_WINDOWS
    end)()
  end
  local counts_denied, limit_terms, resets, max_debt = denied, nil, nil, nil
  if counts_denied > 1 then
TERMS
  end
MARK
  denied = 0 -- nothing here is charged that does not pass
  local debt = false

  local kind, a, b, c, wide = 0, 0, 0, 0, false
  local stored_mark, terms = '', false
  local text = redis.call('GET', KEYS[s])
  if text then
LOAD
  end
  -- A lease may be of its hits.
  local held, list, foreign = kind == own and not terms, nil, false
  if kind ~= 0 and (kind ~= own or stored_mark ~= limit_mark or terms
    or kind == 3 and (b ~= period or #wide ~= byte(data, at + TAKE_BYTES) + 1 or a % period ~= 0)) then
    local found
    if (kind == 4 or kind == 12) and not sliding_log then
      sliding_log, load_log, save_log, log_of, log_stamp, log_after, log_before, log_text = (function()
SLIDING_LOG
      end)()
    end
    if not carry then
      carry, note = (function()
CARRY
      end)()
    end
    held = held or kind == 12
    kind, a, b, c, wide, foreign, list, found = carry(s, kind, a, b, c, wide, stored_mark, terms, own, algorithm, quota, period, limit_mark, false, false, max_debt)
    held = held and found
  end
  local mark = limit_mark
  terms = false

  -- step runs the algorithm on the state, and reports whether it changed; ends is the
  -- end of the window, ahead and ahead_part how far ahead of now the TAT is, and most
  -- and most_part how far it may be.
  local extra, verdict, remaining, reset, ends = 0, 0, 0, 0, 0
  local ahead, ahead_part, most, most_part, one_num, one_den = 0, 0, 0, 0, 0, 1
  local function step(hits, refund)
    local changed = false
    verdict, remaining, reset = 0, 0, 0
    repeat
      local again = false
      if algorithm == 1 then
SLIDING_WINDOW
        ends = start + period
      elseif algorithm == 2 or algorithm == CALENDAR then
FIXED_WINDOW
        ends = finish
      elseif algorithm == 3 then
        local parts, strict = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 1)
        extra = 2
        local before = kind == 3 and {a, b, wide}
        local after
        after, verdict, remaining, reset = sub_windows(quota, false, period, parts, strict == 1, before, hits, refund)
        if refund > 0 or after ~= before then
          kind, changed = 0, true
          if after then
            kind, a, b, wide = 3, after[1], after[2], after[3]
          end
        end
        ends = now - now % period
        if kind == 3 and b == period and #wide == parts + 1 and a % period == 0 and a > now and a < ends + (parts + 1) * period then
          ends = a -- time stands still there
        end
        ends = ends + period
      else
TAT
        ahead, ahead_part, most, most_part, one_num, one_den = whole, part, tolerance, tolerance_part, num, den
      end
      refund = again and 0 or refund
    until not again
    if remaining < 0 then
      remaining = 0
    end
    if reset < 0 then
      reset = 0
    end
    return changed
  end
  step(0, 0)

  local latest, total, noted_at, leases, old = 0, 0, now, '', redis.call('GET', KEYS[buckets + s])
  local write, noted = false, false
  if old and #old % LEASE_BYTES == REGISTER_HEAD then
    latest, total = two(old, 1)
    total, noted_at = two(old, 8)
    local first, length = REGISTER_HEAD + 1, #old
    if noted_at > now then
      -- The clock has stepped back by as much at least, and the ends do with it.
      local behind, moved = noted_at - now, {sub(old, 1, REGISTER_HEAD)}
      for i = first, length, LEASE_BYTES do
        local hits, ended = two(old, i + 8)
        moved[#moved + 1] = sub(old, i, i + 14) .. seven(max(ended - behind, 0))
      end
      old, latest, noted_at, noted = table.concat(moved), max(latest - behind, 0), now, true
    end
    while first < length do
      local hits, ended = two(old, first + 8)
      if ended > now then
        break
      end
      total, first = max(total - hits, 0), first + LEASE_BYTES
    end
    leases = sub(old, first)
  end
  noted = noted or old and #leases + REGISTER_HEAD ~= #old
  local granted, length, returned, charged = 0, 0, 0, 0

  local p = back ~= no_lease and place(leases, back)
  if p then
    local hits, ended = two(leases, p + 8)
    if ended > now then
      returned, noted, noted_at = 1, true, now
      give = min(give, hits)
      leases, total = sub(leases, 1, p - 1) .. sub(leases, p + LEASE_BYTES), max(total - hits, 0)
      if leases == '' then
        latest, total = 0, 0
      end
      if held and give > 0 then
        write, charged = true, -give
        local before, before_part = ahead, ahead_part
        step(0, give)
        if is_bucket and total > 0 then
          -- Not below what the others need, but not above what was there.
          local least, least_part = before + 1, 0
          if (total + 0.0) * one_num / one_den < MAX_INSTANT then
            least, least_part = muldivmod(total, one_num, one_den)
            least = least + max(latest - now, 0)
          end
          if least > before or (least == before and least_part > before_part) then
            kind, a, b = own, now + before, before_part
            if before == 0 and before_part == 0 then
              kind, a = 0, 0
            elseif before > most or (before == most and before_part > most_part) then
              a = -a
            end
          elseif least > ahead or (least == ahead and least_part > ahead_part) then
            kind, a, b = own, now + least, least_part
            if least > most or (least == most and least_part > most_part) then
              a = -a
            end
          end
          step(0, 0)
        end
      end
    end
  end
  if leases == '' then
    latest, total = 0, 0
  end

  if want > 0 and #leases < MAX_LEASES * LEASE_BYTES and not place(leases, id) then
    length = ends - now
    if is_bucket then
      length = floor(most / LEASE_PART)
    end
    length = min(length, lasts)
    local kind_before, a_before, b_before = kind, a, b
    if length > 0 then
      if is_bucket and length > ahead then
        kind, a, b = own, now + length, 0
        step(0, 0)
      end
      granted = floor(remaining / share)
    end
    if granted < 2 then
      granted, length = 0, 0
      if kind ~= kind_before or a ~= a_before or b ~= b_before then
        kind, a, b = kind_before, a_before, b_before
        step(0, 0)
      end
      -- What a denial puts in order; see Lease in lease.go.
      if remaining < MAX_QUOTA and (step(remaining + 1, 0) or foreign and kind ~= 0) then
        write = true
      end
      step(0, 0)
    else
      granted, write, noted, noted_at = min(granted, want), true, true, now
      charged = charged + granted
      step(granted, 0)
      leases = leases .. id .. seven(granted) .. seven(now + length)
      latest, total = max(latest, now + length), min(total + granted, MAX_INSTANT)
    end
  end

  if write then
    local kind, a, b, c, wide = kind, a, b, c, wide
    if list then
      if not note then
        carry, note = (function()
CARRY
        end)()
      end
      list.later = length
      terms, kind, a, b, c, wide = note(list, s, charged, reset, kind, a, b, c, wide, own, algorithm, period, mark)
    end
SAVE
  end
  if noted then
    if leases == '' then
      redis.call('DEL', KEYS[buckets + s])
    else
      redis.call('SET', KEYS[buckets + s], seven(latest) .. seven(total) .. seven(noted_at) .. leases, 'PX',
        format('%d', floor((latest - now + 999) / 1000) + TTL_MARGIN_MS))
    end
  end
  if remaining == 0 then
    step(1, 0)
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, length, returned
  reply[filled + 4], reply[filled + 5], reply[filled + 6] = verdict, remaining, reset
  filled, field, at = filled + 6, field + FIELD_BYTES, at + TAKE_BYTES + extra + (max_debt and 7 or 0)
end
return reply
