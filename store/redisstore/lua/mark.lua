-- mark.lua sets limit_mark to the mark of this limit's window counters: its period
-- in a word (per.go), but zeros for those that are most used.
if algorithm == CALENDAR then
  limit_mark = period == 1 and 'day' or period == 2 and 'week' or period == 3 and 'month' or 'year'
elseif algorithm > 2 then
  limit_mark = ''
elseif period == 60000000 then
  limit_mark = '0'
elseif period == 3600000000 then
  limit_mark = '00'
elseif period == 86400000000 then
  limit_mark = '000'
elseif period == 1000000 then
  limit_mark = '0000'
else
  local n, unit = period, 'us'
  if period % 86400000000 == 0 then
    n, unit = period / 86400000000, 'd'
  elseif period % 3600000000 == 0 then
    n, unit = period / 3600000000, 'h'
  elseif period % 60000000 == 0 then
    n, unit = period / 60000000, 'm'
  elseif period % 1000000 == 0 then
    n, unit = period / 1000000, 's'
  elseif period % 1000 == 0 then
    n, unit = period / 1000, 'ms'
  end
  limit_mark = n < 4096 and string.format('%d', n) .. unit or ''
end
