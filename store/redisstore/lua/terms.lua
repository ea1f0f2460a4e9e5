-- terms.lua reads what the bits of counts_denied say of a limit: 2 that it carries
-- over the share that was used, 4 that it begins anew, 8 that it has max_debt, which
-- stands behind all else.
local behind = at + TAKE_BYTES
if algorithm == CALENDAR then
  behind = behind + 35
elseif algorithm > 4 and algorithm < 9 then
  behind = behind + 28
elseif algorithm == 3 then
  behind = behind + 2
end
if counts_denied >= 8 then
  local BYTES(n, 7) = byte(data, behind, behind + 6)
  max_debt, counts_denied = WHOLE(n, 7), counts_denied - 8
end
if counts_denied > 1 then
  resets = counts_denied > 3
  limit_terms = {quota, period, 0}
  if algorithm == CALENDAR then
    limit_terms[3] = 1
  elseif algorithm == 3 then
    limit_terms[2] = period * byte(data, at + TAKE_BYTES)
  elseif algorithm > 4 then
    local BYTES(den, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 6)
    limit_terms[3] = WHOLE(den, 7)
  end
end
counts_denied = counts_denied % 2
