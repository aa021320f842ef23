-- One key's requests of this minute and this day; window.rs does the same in this process. Atomic, as Redis runs it alone.
-- KEYS[1]: the key's hash. ARGV: now in Unix seconds (negative: Redis's clock, which all replicas then share), cost, requests a minute,
-- requests a day (negative: no limit), and what the caller knows already: minute, requests in it, day, requests in it.
local now = tonumber(ARGV[1])
if now < 0 then
  now = tonumber(redis.call('TIME')[1])
end
local cost, per_minute, per_day = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local minute, day = math.floor(now / 60), math.floor(now / 86400)
local held = redis.call('HMGET', KEYS[1], 'minute', 'in_minute', 'day', 'in_day')

-- What was counted while Redis was away, or before it lost its data, still counts.
local function counted(window, number, count, known_number, known_count)
  local n = 0
  if number and tonumber(number) == window then
    n = tonumber(count)
  end
  if tonumber(known_number) == window then
    n = math.max(n, tonumber(known_count))
  end
  return n
end
local in_minute = counted(minute, held[1], held[2], ARGV[5], ARGV[6])
local in_day = counted(day, held[3], held[4], ARGV[7], ARGV[8])

local outcome = 0
if per_day >= 0 and cost > math.max(0, per_day - in_day) then
  outcome = 2
elseif cost > math.max(0, per_minute - in_minute) then
  outcome = 1
else
  in_minute = in_minute + cost
  if per_day >= 0 then
    in_day = in_day + cost
  end
end
redis.call('HSET', KEYS[1], 'minute', minute, 'in_minute', in_minute, 'day', day, 'in_day', in_day)
-- A minute longer than the window, so that a clock that is set back a little forgets nothing.
local window_end = (minute + 1) * 60
if in_day > 0 then
  window_end = (day + 1) * 86400
end
redis.call('EXPIRE', KEYS[1], window_end - now + 60)
return { outcome, now, in_minute, in_day }
