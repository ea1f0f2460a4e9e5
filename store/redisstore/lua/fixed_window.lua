-- fixed_window.go
local function decide(p, state, hits, refund)
  local quota, third = ARGV[p] + 0, ARGV[p + 2] + 0
  local start, finish, next_finish
  if algorithm == 9 then
    local e = p + 2
    if now < third or now >= ARGV[e + 3] + 0 then
      outside = true
      return state, 0, 0, 0, 0, 0
    end
    while now >= ARGV[e + 1] + 0 do
      e = e + 1
    end
    start, finish, next_finish = ARGV[e] + 0, ARGV[e + 1] + 0, ARGV[e + 2] + 0
  else
    start = now - now % third
    finish, next_finish = start + third, start + 2 * third
  end
  local count, moved = 0, false
  if state and state[1] == 2 then
    local stored = max(min(state[2], MAX_STORED), 0)
    if stored >= start then
      count = min(state[3], MAX_COUNT)
    end
    if stored >= next_finish then
      moved = true
    elseif stored >= finish then
      start, finish = finish, next_finish
    end
  end

  if refund > 0 then
    state = false
    if count > refund then
      state = {2, start, count - refund}
    end
    return decide(p, state, 0, 0)
  end

  local allowed = count + hits <= quota
  local charge = hits > 0 and (allowed or ARGV[p + 1] == '1')
  if charge then
    count = min(count + hits, MAX_COUNT)
  end
  local reset = 0
  if count > 0 then
    reset = max(finish - now, 0)
  end
  local flags, retry = 1, 0
  if not allowed then
    if hits > quota then
      flags = 2
    else
      flags, retry = 0, max(finish - now, 0)
    end
  end
  if charge or (moved and hits > 0) then
    state = {2, start, count}
  end
  return state, flags, max(quota - count, 0), reset, retry, 0
end
return decide
