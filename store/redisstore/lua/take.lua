-- The buckets. A state is a table {kind, a, b, c, wide}, never changed once it is
-- made; false is an absent key. The log has fields of its own.
local states = {}   -- by bucket; nil means not read yet
local lifetime = {} -- by bucket: us after now; only of those to be written
local deciders = {} -- by algorithm
local read_as_log   -- by bucket: how a foreign value was read
local found         -- the state that the latest take met
local load_log, save_log

-- load_text reads a state of any kind but the log.
local function load_text(s)
  local text = redis.call('GET', KEYS[s])
  if not text then
    return false
  end
  local kind, a, b, c = text:match('^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
  if kind then
    return {tonumber(kind), tonumber(a), tonumber(b), tonumber(c) or 0}
  end
  local start, part, rest = text:match('^3 (%d+) (%d+) ([%d ]+)$')
  if not start then
    return FOREIGN
  end
  local wide, n = {}, 0
  for count in rest:gmatch('%d+') do
    n = n + 1
    wide[n] = tonumber(count)
  end
  return {3, tonumber(start), tonumber(part), 0, wide}
end

-- take decides the take at ARGV[at] as if it stood alone, keeps what it changes
-- for the end, and returns flags, remaining, reset, retry, delay; peek makes it
-- a peek.
local function take(at, op, peek)
  local s, hits, algorithm = ARGV[at] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
  local decide = deciders[algorithm]
  if not decide then
    if algorithm == 4 then
      decide, load_log, save_log = section(algorithm)
    else
      decide = section(algorithm)
    end
    deciders[algorithm] = decide
  end
  local before = states[s]
  if before == nil or (before == FOREIGN and read_as_log[s] ~= (algorithm == 4)) then
    if algorithm == 4 then
      before = load_log(s)
    else
      before = load_text(s)
    end
    states[s] = before
    if before == FOREIGN then
      read_as_log = read_as_log or {}
      read_as_log[s] = algorithm == 4
    end
  end
  found = before
  local state, refund = before, 0
  if peek then
    hits = 0
  elseif op == 114 then -- r
    if before then
      refund = hits
    end
    hits = 0
  elseif op == 122 then -- z
    state, hits = false, 0
  end
  local after, flags, remaining, reset, retry, delay = decide(at + 4, state, hits, refund, s)
  if after ~= before then
    states[s], lifetime[s] = after, reset
  end
  return flags, remaining, reset, retry, delay
end

-- How many numbers of the limit each algorithm has.
local NUMBERS = {3, 3, 5, 2, 5, 5, 5, 5, 7}

local at, last, filled = 4, #ARGV, 3
while at <= last do
  local op, join = ARGV[at + 1]:byte(1, 2)
  if join == 45 then -- -
    reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4], reply[filled + 5] = take(at, op)
    filled = filled + 5
    at = at + 4 + NUMBERS[ARGV[at + 3] + 0]
  else
    -- A group: each take is charged as if it stood alone; when one that is no
    -- shadow is denied, all of that is forgotten, and those that would have
    -- passed answer as a peek does.
    local places, first, n, held = {}, filled, 0, false
    local old_states, old_lifetime = {}, {}
    repeat
      local s, shadow = ARGV[at] + 0, nil
      op, join, shadow = ARGV[at + 1]:byte(1, 3)
      n = n + 1
      places[n] = at
      local left = lifetime[s]
      local flags, remaining, reset, retry, delay = take(at, op)
      if old_states[s] == nil then
        old_states[s], old_lifetime[s] = found, left
      end
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = flags, remaining, reset
      reply[filled + 4], reply[filled + 5] = retry, delay
      filled = filled + 5
      if op == 104 and flags ~= 1 and shadow ~= 115 then -- h, s
        held = true
      end
      at = at + 4 + NUMBERS[ARGV[at + 3] + 0]
    until at > last or ARGV[at + 1]:byte(2) ~= 106 -- j
    if held then
      for s, state in pairs(old_states) do
        if state == FOREIGN then
          state = nil -- it may have been read in both ways: read it again
        end
        states[s], lifetime[s] = state, old_lifetime[s]
      end
      for i = 1, n do
        local to = first + 5 * (i - 1)
        op = ARGV[places[i] + 1]:byte(1)
        if op ~= 104 or reply[to + 1] == 1 then
          reply[to + 1], reply[to + 2], reply[to + 3], reply[to + 4], reply[to + 5] = take(places[i], op, true)
        end
      end
    end
  end
end

if outside then
  return {2, now, reply[3]}
end

-- What has changed is written with its time to live: the time in which it
-- becomes as if unused, rounded up to the millisecond, and a margin.
for s, left in pairs(lifetime) do
  local state, ttl = states[s], floor((left + 999) / 1000) + TTL_MARGIN_MS
  local kind = state and state[1]
  if not state then
    redis.call('DEL', KEYS[s])
  elseif kind == 1 then
    redis.call('SET', KEYS[s], ('1 %.0f %.0f %.0f'):format(state[2], state[3], state[4]), 'PX', ttl)
  elseif kind == 3 then
    local wide, counts = state[5], {}
    for i = 1, #wide do
      counts[i] = wide[i] == 0 and '0' or ('%.0f'):format(wide[i])
    end
    redis.call('SET', KEYS[s], ('3 %.0f %.0f '):format(state[2], state[3]) .. table.concat(counts, ' '), 'PX', ttl)
  elseif kind == 4 then
    save_log(s, state, ttl)
  else
    redis.call('SET', KEYS[s], ('%.0f %.0f %.0f'):format(kind, state[2], state[3]), 'PX', ttl)
  end
end

return reply
