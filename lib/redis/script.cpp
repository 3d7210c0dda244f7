#include "script.hpp"

#include <openssl/evp.h>

namespace canigo::redis::detail {
namespace {

// The Redis script, which carries out one call of one session. (A session is one process that uses one limit.) The
// script ends sessions whose leases are over, adds the session's requests to the queue, and grants requests.
// docs/redis-script.md describes the keys, the arguments and the reply; change that page together with this text. A
// change of the keys' format needs another limit_form.
constexpr std::string_view lua_text = R"lua(
local call, A, match, floor = redis.call, ARGV, string.match, math.floor
local pack, unpacked = struct.pack, struct.unpack
local me, prefix, flags = A[2], A[4], A[5]
local seq, ttl, held, idle, charged_before, charged, wanted_ahead, stated, my_cap, my_n, my_p, my_burst, my_pause,
      seen, latest, latest_epoch, acks, cancels, wishes, at = unpacked('<ddddddddddddddddddd', A[3])
local forever, form, lane_size, class_size = 9000000000000000, 3, 35184372088832, 137438953472
local all_of_it = '<dddddddddddddddddddBBc0Bc0Bc0'
local function s(x) return string.format('%.0f', x) end
local shape, more_rates, more_units, more_charges, mine, charges = 0, 0, 0, 0, {}, {}
-- The alternatives of the limit; nil: it has none.
local any
if A[7] then
  any = {lanes = {}, sets = {}, kept = {}, due = -1}
  local count, from = unpacked('<d', A[7])
  for i = 1, count do
    local a = {index = i, rates = {}, cap = 0, pause = 0, total = 0, due = -1, was = 0}
    a.rate_count, a.prefer, a.my_cap, a.my_pause, a.changed, a.held, from = unpacked('<dddddd', A[7], from)
    any[i] = a
  end
end
if A[6] then
  local from
  shape, more_rates, more_units, from = unpacked('<ddd', A[6])
  for i = 1, more_rates do
    local n, p, burst, unit, changed
    n, p, burst, unit, changed, from = unpacked('<ddddd', A[6], from)
    mine[i] = {n = n, p = p, burst = burst, unit = unit, changed = changed}
  end
  more_charges = more_units + (any and #any * (1 + more_units) or 0)
  for i = 1, more_charges do
    local before, now
    before, now, from = unpacked('<dd', A[6], from)
    charges[i] = {before = before, now = now}
  end
end
-- Publishes a hint. An error is ignored, because the user may lack the permission to publish.
local function tell(session, what) redis.pcall('PUBLISH', prefix .. 'n:' .. session, what) end
local function sessions() return call('ZRANGE', KEYS[2], 0, -1) end
-- The number of subscribers of a session's messages; nil if the user lacks the permission to ask for it.
local function listeners(session)
  local found = redis.pcall('PUBSUB', 'NUMSUB', prefix .. 'n:' .. session)
  return type(found) == 'table' and found[2] or nil
end
-- Reads what a request wants: its amounts of the further units, and its set of alternatives. Adds its weight.
local function wants_of(weight)
  local wants = {weight}
  for i = 2, 1 + more_units do wants[i], at = unpacked('<d', A[3], at) end
  if any then wants.low, wants.high, at = unpacked('<dd', A[3], at) end
  return wants
end
local function place_of(id, wants)
  local text = s(wants[1])
  for i = 2, #wants do text = text .. ',' .. s(wants[i]) end
  if any then text = text .. '|' .. s(wants.low) .. ',' .. s(wants.high) end
  return me .. '|' .. s(id) .. '|' .. text
end

-- The field with the charges of all sessions of the caller's process.
local process = '~' .. (match(me, '^(.*):%d+$') or me)
local number = tonumber(match(me, ':(%d+)$')) or 0
local known = call('HMGET', KEYS[1], '*', me, process)
local last, fence, total, zu, zr, epoch, hold, off, lying, qseq = 0, -1, 0, -1, 0, 0, 0, 0, 0, 0
-- The first rate is among the numbers of the limit's record. The further rates are at the end of the record.
local first, further = nil, {}
local members, length = call('ZCARD', KEYS[2]), call('ZCARD', KEYS[3])
local function counts() return members .. ' ' .. length end
local due, reap, keep, version, cap, n, p, burst, pause = -1, 0, 0, 0, my_cap, my_n, my_p, my_burst, 0
local run, head, counted, is_unheld, _, tail = '', '', '', false
local t = call('TIME')
local raw = t[1] * 1000000 + t[2]
local theirs = form
if known[1] then theirs = string.byte(known[1], 153) or 1 end
if theirs ~= form then
  if #call('ZRANGEBYSCORE', KEYS[2], raw, '+inf') > 0 then return {'FORM', theirs < 32 and theirs or 1} end
  known = {false, false}
end
if known[1] and A[6] then
  local parts = {unpacked(all_of_it, known[1])}
  tail = parts[#parts]
  if tail > #known[1] or unpacked('<d', known[1], tail) ~= shape then
    if #call('ZRANGEBYSCORE', KEYS[2], raw, '+inf') > 0 then return {'SHAPE'} end
    known = {false, false}
    -- If nothing was lost and no permit is out, no quarantine is needed. During a quarantine of the former limit, a
    -- process that holds a permit may not have called yet. The run id "?" means that a restart can't be noticed.
    is_unheld = parts[3] == 0 and parts[#parts - 3] == counts() and parts[#parts - 2] == A[1]
                and string.byte(A[1]) ~= 63 and parts[7] <= raw + parts[8]
  end
end
if known[1] then
  last, fence, total, zu, zr, epoch, hold, off, lying, qseq, due, reap, keep, version, cap, n, p, burst, pause, _,
    counted, run, head = unpacked(all_of_it, known[1])
end
first = {unit = 1, n = n, p = p, burst = burst, u = zu, r = zr}
for i = 1, more_rates do
  local b = {unit = mine[i].unit, n = mine[i].n, p = mine[i].p, burst = mine[i].burst, u = -1, r = 0}
  if known[1] then b.n, b.p, b.burst, b.u, b.r = unpacked('<ddddd', known[1], tail + 16 + 40 * (i - 1)) end
  further[i] = b
end
if any and known[1] then
  local from, lanes = tail + 24 + 40 * more_rates, nil
  for _, a in ipairs(any) do a.cap, a.pause, a.total, a.due, from = unpacked('<dddd', known[1], from) end
  any.due, lanes, from = unpacked('<dd', known[1], from)
  for i = 1, lanes do
    local low, high
    low, high, from = unpacked('<dd', known[1], from)
    any.lanes[i] = {low = low, high = high}
  end
end
if known[2] and seq <= select(2, unpacked('<dd', known[2])) then return {'STALE'} end
local is_first = not known[1]
local lasts = math.max(86400000, floor(ttl / 100))

local is_measured = latest > 0 and latest_epoch == epoch
local now = raw + off
if is_measured and now > latest + floor(ttl / 16) then now = latest end
-- During a quarantine all sessions can call before the script grants again. It ends at one instant for all sessions.
-- If no process has called for long, and the caller has measured no time, the clock may have been set forward. In that
-- case the script's time stands still, but only once in a quarantine. Otherwise, with rare calls, it would never end.
if not is_measured and hold > last and hold <= epoch + ttl and now - last > ttl / 2 then
  now, hold = last, epoch + ttl + 1
end
if now < last then now = last end
off = now - raw

if is_first or counted ~= counts() then
  for i = 1, 3 do call('PEXPIRE', KEYS[i], 0) end
  known = {false, false}
  total, lying, qseq, due, reap, members, length, run, head = 0, 0, 0, -1, 0, 0, 0, '', ''
  for _, a in ipairs(any or {}) do a.total, a.due = 0, -1 end
end
-- If the queue is empty, the numbers of arrivals and lanes begin again with 0.
if any and length == 0 then any.lanes, any.due, qseq = {}, -1, 0 end
-- A caller whose user may not ask for the run id passes '?'. It can't detect a restart.
local run_now = A[1]
if string.byte(run_now) == 63 and run ~= '' then run_now = run end
local recount = total < 0
local is_new = run ~= run_now
if is_new or (not is_measured and now - last > ttl / 2) then
  local all = call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local text, ends = call('HGET', KEYS[1], all[i]), tonumber(all[i + 1])
    local _, number = unpacked('<dd', text or '')
    if is_new and number and number % 1 > 0 then  -- its subscription was at another node, or before a restart
      text = string.sub(text, 1, 8) .. pack('<d', floor(number)) .. string.sub(text, 17)
      call('HSET', KEYS[1], all[i], text)
    end
    if text and select(4, unpacked('<dddd', text)) == ends then
      call('ZADD', KEYS[2], is_new and math.max(ends, now + ttl) or ends + now - last, all[i])
    end
  end
end
if is_new then
  -- The server has restarted or lost its data, so its records may be out of date. It grants nothing until each session
  -- has had the time of a lease to call and to state what it holds.
  if my_cap > 0 and string.find(flags, 'q', 1, true) and not is_unheld then hold = now + ttl end
  recount = true
  epoch = math.max(now, epoch + 1)
  first.u = -1
  for _, b in ipairs(further) do b.u = -1 end
end

-- No lease ends before `reap`.
if now >= reap then
  local dead = call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
  if #dead > 0 then
    local is_dead = {}
    for _, id in ipairs(dead) do
      is_dead[id] = true
      members = members - call('ZREM', KEYS[2], id)
      call('HDEL', KEYS[1], id)
    end
    for _, entry in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
      if is_dead[match(entry, '^[^|]*')] then length = length - call('ZREM', KEYS[3], entry) end
    end
    if is_dead[me] then known[2] = false end
    recount = true
  end
  reap = tonumber(call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]) or forever
end

local function remember(...)
  local count = counts()
  local record = pack(all_of_it, now, fence, total, first.u, first.r, epoch, hold, off, lying, qseq, due, reap, keep,
                      version, cap, first.n, first.p, first.burst, pause, form, #count, count, #run_now, run_now,
                      #head, head)
  if A[6] then
    record = record .. pack('<dd', shape, more_rates)
    for _, b in ipairs(further) do record = record .. pack('<ddddd', b.n, b.p, b.burst, b.u, b.r) end
  end
  if any then
    record = record .. pack('<d', #any)
    for _, a in ipairs(any) do record = record .. pack('<dddd', a.cap, a.pause, a.total, a.due) end
    record = record .. pack('<dd', any.due, #any.lanes)
    for _, lane in ipairs(any.lanes) do record = record .. pack('<dd', lane.low, lane.high) end
  end
  call('HSET', KEYS[1], '*', record, ...)
end

local own, expiry, settled = 0, 0, {charged_before}
for i = 1, more_charges do settled[i + 1] = charges[i].before end
local says_less = false
if known[3] then
  local by, from
  _, by, settled[1], _, _, from = unpacked('<ddddd', known[3])
  for i = 1, more_charges do settled[i + 1], from = unpacked('<d', known[3], from) end
  says_less = by > number  -- a late call of an earlier session, whose total is old
end
if says_less then
  charged = settled[1]
  for i = 1, more_charges do charges[i].now = settled[i + 1] end
end
local has_charged = charged ~= settled[1]
for i = 1, more_charges do has_charged = has_charged or charges[i].now ~= settled[i + 1] end
local was, was_lying, was_seen = 0, 0, false
-- The grants that are not acknowledged: the token and the weight of each waiter, and the waiters in the order of their
-- grants. With alternatives, weight_of has no weight, but the index of the alternative that granted the request.
local token_of, weight_of, order, before = {}, {}, {}, 0
-- The number of permits of each alternative that a session holds, with grants that are not acknowledged. `from`: the
-- position after the totals in the session's record.
local function held_of(record, from)
  local held = {}
  for i = 1, #any do held[i], from = unpacked('<d', record, from) end
  while from <= #record do
    local _, count, which
    _, count, which, _, from = unpacked('<dddd', record, from)
    held[which] = held[which] + count
  end
  return held
end
if known[2] then
  local from
  was, was_seen, _, expiry, was_lying, from = unpacked('<ddddd', known[2])
  was_seen = was_seen % 1 > 0 and not is_new
  from = from + 8 * more_charges
  if any and cap > 0 then
    for i, held in ipairs(held_of(known[2], from)) do any[i].was = held end
  end
  if any then from = from + 8 * #any end
  while from <= #known[2] do
    local first, count, weight, token
    first, count, weight, token, from = unpacked('<dddd', known[2], from)
    for i = 0, count - 1 do
      order[#order + 1] = first + i
      token_of[first + i] = token + i
      weight_of[first + i] = weight
    end
  end
  before = #order
elseif seq > 1 and now >= hold then
  total = -1  -- the next call counts anew, without the sessions that have ended
  remember()
  call('PEXPIRE', KEYS[1], lasts)  -- if all keys were lost, this key is a new one
  return {'NOSESS'}
end
-- The lease ends a little later than requested, so that not every call has to write its end.
if expiry < now + ttl then
  expiry = now + ttl + floor(ttl / 32)
  members = members + call('ZADD', KEYS[2], expiry, me)
  if expiry < reap then reap = expiry end
end

-- The settings with the highest version are used; for version 0, those of the latest call.
for _, b in ipairs(further) do b.old_n, b.old_p, b.old_burst = b.n, b.p, b.burst end
first.old_n, first.old_p, first.old_burst = n, p, burst
local set = string.find(flags, '[CRBPM]')
local mine_count = is_first or stated > version or (version == 0 and not set)
local function changes(letter) return mine_count or (set and string.find(flags, letter, 1, true)) end
if changes('C') then cap = my_cap end
if changes('R') then first.n, first.p = my_n, my_p end
if changes('B') then first.burst = my_burst end
for i, b in ipairs(further) do
  if mine_count or mine[i].changed % 2 == 1 then b.n, b.p = mine[i].n, mine[i].p end
  if mine_count or mine[i].changed >= 2 then b.burst = mine[i].burst end
end
local function end_of(my_pause) return my_pause > 0 and now + my_pause or my_pause < 0 and forever or 0 end
for _, a in ipairs(any or {}) do
  if mine_count or a.changed % 2 == 1 then a.cap = a.my_cap end
  if mine_count or floor(a.changed / 2) % 2 == 1 then a.pause = end_of(a.my_pause) end
  if a.changed >= 4 then a.pause = math.max(a.pause, end_of(a.my_pause)) end
end
if changes('P') then pause = end_of(my_pause) end
if stated > version then version = stated end
if set then version = version + 1 end

-- A bucket was empty at u + r/n us, and has gained at most `burst` tokens since. In a new epoch it is empty now,
-- because Redis may have forgotten which tokens were taken last.
local rates, every_rate, slack = {}, {}, 0
local function add_rate(b, list)
  local n, p, burst = b.n, b.p, b.burst
  if b.u < 0 then
    b.u, b.r = now, 0
  elseif n ~= b.old_n or p ~= b.old_p or burst ~= b.old_burst then
    local level = math.max(0, math.min(b.old_burst, burst, floor((now - b.u) * b.old_n / b.old_p)))
    b.u = now - level * floor(p / n) - math.ceil(level * (p % n) / n)
    b.r = 0
  end
  b.whole, b.rest = floor(p / n), p % n
  b.full = burst * b.whole + math.ceil(burst * b.rest / n)
  b.oldest = now - math.max(0, 20000 - b.full)
  list[#list + 1] = b
  every_rate[#every_rate + 1] = b
  return now - b.oldest
end
local function plus(b, tokens)
  local r = b.r + tokens * b.rest
  return b.u + tokens * b.whole + floor(r / b.n), r % b.n
end
local function fill(b, as_of)
  local least = math.max(as_of, b.oldest) - b.full
  if b.u < least then b.u, b.r = least, 0 end
end
-- Takes the amounts of a request from all rates. If some are not available, takes none, and returns when all will be.
local function take(wants, as_of)
  local ready
  for _, b in ipairs(rates) do
    local tokens = wants[b.unit] or 0
    if tokens > 0 then
      fill(b, as_of)
      b.next_u, b.next_r = plus(b, tokens)
      local there = b.next_r > 0 and b.next_u + 1 or b.next_u
      if there > as_of and (not ready or there > ready) then ready = there end
    else
      b.next_u, b.next_r = b.u, b.r
    end
  end
  if ready then return ready end
  for _, b in ipairs(rates) do b.u, b.r = b.next_u, b.next_r end
end
-- Takes an amount even if it is not available. A negative amount is given back.
local function charge(unit, tokens, list)
  for _, b in ipairs(list or rates) do
    if b.unit == unit and tokens ~= 0 then
      fill(b, now)
      b.u, b.r = plus(b, tokens)
      if b.u > forever then b.u = forever end
    end
  end
end
if first.n > 0 then slack = add_rate(first, rates) end
local common = more_rates
for _, a in ipairs(any or {}) do common = common - a.rate_count end
for i = 1, common do slack = math.max(slack, add_rate(further[i], rates)) end
for _, a in ipairs(any or {}) do
  a.slack = 0
  for i = common + 1, common + a.rate_count do a.slack = math.max(a.slack, add_rate(further[i], a.rates)) end
  common = common + a.rate_count
end
local has_rate = #rates > 0 or any ~= nil
charge(1, charged - settled[1])
for i = 1, more_units do charge(i + 1, charges[i].now - settled[i + 1]) end
for i, a in ipairs(any or {}) do
  for unit = 1, more_units + 1 do
    local n = more_units + (i - 1) * (more_units + 1) + unit
    charge(unit, charges[n].now - settled[n + 1], a.rates)
  end
end
local function places(wants) return has_rate and 1 or wants[1] end
local function fits(wants, list)
  for _, b in ipairs(list) do
    if (wants[b.unit] or 0) > b.burst then return false end
  end
  return true
end
-- The alternatives of a set, which is stored as two numbers of 32 bits.
local function members_of(wants)
  local name = s(wants.low) .. ',' .. s(wants.high)
  local found = any.sets[name]
  if not found then
    found = {}
    for half, bits in ipairs({wants.low, wants.high}) do
      local i = 32 * half - 32
      while bits > 0 do
        i = i + 1
        if bits % 2 == 1 then found[#found + 1] = any[i] end
        bits = floor(bits / 2)
      end
    end
    any.sets[name] = found
  end
  return found
end
local function is_too_much(wants)
  if cap > 0 and places(wants) > cap or not fits(wants, rates) then return true end
  if not any then return false end
  for _, a in ipairs(members_of(wants)) do
    if fits(wants, a.rates) then return false end
  end
  return true
end

-- Reads the lists of acknowledged and of cancelled requests, and what the session holds.
for _ = 1, acks do
  local first, count
  first, count, at = unpacked('<dd', A[3], at)
  for id = first, first + count - 1 do token_of[id] = nil end
end
for _ = 1, cancels do
  local id, weight
  id, weight, at = unpacked('<dd', A[3], at)
  local wants = wants_of(weight)
  if token_of[id] then
    token_of[id] = nil
    for _, b in ipairs(rates) do b.u, b.r = plus(b, -(wants[b.unit] or 0)) end
    for _, b in ipairs(any and any[weight_of[id]].rates or {}) do b.u, b.r = plus(b, -(wants[b.unit] or 0)) end
  else
    length = length - call('ZREM', KEYS[3], place_of(id, wants))
  end
end
own = held
if cap > 0 then
  for id in pairs(token_of) do
    own = own + (any and 1 or weight_of[id])
    if any then
      local a = any[weight_of[id]]
      a.pending = (a.pending or 0) + 1
    end
  end
end
local leaving = string.find(flags, 'l', 1, true)
if leaving then
  own, idle, token_of = 0, 0, {}
  for _, a in ipairs(any or {}) do a.held, a.pending = 0, 0 end
end
total, lying = total + own - was, lying + idle - was_lying
for _, a in ipairs(any or {}) do a.total = a.total + a.held + (a.pending or 0) - a.was end
if recount then
  total, lying = own, idle
  for _, a in ipairs(any or {}) do a.total = a.held + (a.pending or 0) end
  local all = call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if all[i] ~= '*' and all[i] ~= me then
      local weight, _, _, ended, other = unpacked('<ddddd', all[i + 1])
      total, lying = total + weight, lying + other
      if any and cap > 0 and string.byte(all[i]) ~= 126 then
        for which, n in ipairs(held_of(all[i + 1], 41 + 8 * more_charges)) do
          any[which].total = any[which].total + n
        end
      end
      if string.byte(all[i]) == 126 and ended + 86400000000 < now and all[i] ~= process then
        call('HDEL', KEYS[1], all[i])
      end
    end
  end
end

-- Grants the requests of the caller, and the waiters of all sessions.
-- A fencing token is at least the time in us. There are fewer grants than us, so a token is greater than all earlier
-- ones even if Redis has forgotten them.
if seen > fence then fence = seen end
local granted, refused, others = 0, {}, {}
-- A late call loses few tokens: it grants the tokens of the last 20 ms even if they exceed what a bucket holds.
local as_of = due >= 0 and math.min(now, math.max(due, now - slack)) or now
for _, a in ipairs(any or {}) do
  a.as_of = a.due >= 0 and math.min(now, math.max(a.due, now - a.slack)) or now
end
local gate = math.max(hold, pause)
local blocked, ready, chosen

-- When all rates of an alternative have the amounts of a request: at its `as_of`, or later.
local function ready_at(a, wants)
  local last = a.as_of
  for _, b in ipairs(a.rates) do
    local tokens = wants[b.unit] or 0
    if tokens > 0 then
      fill(b, a.as_of)
      local u, r = plus(b, tokens)
      last = math.max(last, r > 0 and u + 1 or u)
    end
  end
  return last
end
-- The free part of an alternative: the smallest free part of its cap, and of the bursts that the request needs.
local function room_of(a, wants)
  local least = a.cap > 0 and (a.cap - a.total) / a.cap or 1
  for _, b in ipairs(a.rates) do
    if (wants[b.unit] or 0) > 0 then
      local level = math.min(b.burst, floor((now - b.u) * b.n / b.p) + 1)
      while level > 0 do
        local u, r = plus(b, level)
        if u < now or u == now and r == 0 then break end
        level = level - 1
      end
      least = math.min(least, level / b.burst)
    end
  end
  return least
end
-- Returns the alternative that can serve a request now, and the time since when it can. If none can, returns nil, and
-- the time when the first alternative can.
local function choose(wants)
  local best, since, room, soonest
  for _, a in ipairs(members_of(wants)) do
    a.waited = -1
    if not any.kept[a] and fits(wants, a.rates) and not (a.cap > 0 and a.total >= a.cap) then
      local t = ready_at(a, wants)
      if t > now then a.waited = t end
      if now < a.pause then t, a.waited = math.max(t, a.pause), -1 end
      if t > now then
        if t < forever and (not soonest or t < soonest) then soonest = t end
      elseif not best or a.prefer < best.prefer then
        best, since, room = a, t, nil
      elseif a.prefer == best.prefer then
        room = room or room_of(best, wants)
        local other = room_of(a, wants)
        if other > room then best, since, room = a, t, other end
      end
    end
  end
  return best, best and since or soonest
end
local function may_go(wants)
  blocked = nil
  local since
  if now < gate then
    blocked = 'gate'
    return false
  end
  if any then
    chosen, since = choose(wants)
    if not chosen then
      blocked, ready = 'any', since
      return false
    end
  end
  if cap > 0 and total + places(wants) > cap then
    blocked = 'cap'
  elseif has_rate then
    ready = take(wants, as_of)
    if ready and ready <= now and not take(wants, ready) then
      as_of = ready
      ready = nil
    end
    if ready then blocked = 'rate' end
  end
  if any and not blocked then
    chosen.as_of = since
    for _, b in ipairs(chosen.rates) do
      local tokens = wants[b.unit] or 0
      if tokens > 0 then
        fill(b, since)
        b.u, b.r = plus(b, tokens)
      end
    end
  end
  return not blocked
end
local function other(session)
  local o = others[session]
  if o == nil then
    local all = call('HGET', KEYS[1], session)
    o = false
    if all then
      local weight, number = unpacked('<dd', all)
      o = {weight, string.sub(all, 9), is_deaf = number % 1 > 0 and listeners(session) == 0}
    end
    others[session] = o
  end
  return o
end
local function grant(session, id, weight)
  fence = math.max(fence + 1, raw)
  granted = granted + 1
  if cap > 0 then
    total = total + weight
    if any then chosen.total = chosen.total + 1 end
  end
  if session == me then
    order[#order + 1] = id
    token_of[id] = fence
    weight_of[id] = any and chosen.index or weight
    if cap > 0 then own = own + weight end
  else
    local o = other(session)
    if cap > 0 then o[1] = o[1] + weight end
    o[2] = o[2] .. pack('<dddd', id, 1, any and chosen.index or weight, fence)
    tell(session, string.format(any and 'g %.0f %.0f %.0f %.0f' or 'g %.0f %.0f %.0f', id, fence,
                                any and chosen.index or epoch, epoch))
  end
end

local was_empty, added = length == 0, 0
if was_empty then
  as_of = now
  due = -1
  for _, a in ipairs(any or {}) do a.as_of = now end
end
-- The lane of a set of alternatives: a range of scores for the waiters with this set. nil: there are too many sets.
local function lane_of(wants)
  local free
  for i, lane in ipairs(any.lanes) do
    if lane.low == wants.low and lane.high == wants.high then return i end
  end
  for i = 1, #any.lanes do
    if #call('ZRANGEBYSCORE', KEYS[3], s((i - 1) * lane_size), '(' .. s(i * lane_size), 'LIMIT', 0, 1) == 0 then
      free = i
      break
    end
  end
  free = free or #any.lanes + 1
  if free > 256 then return end
  any.lanes[free] = {low = wants.low, high = wants.high}
  return free
end
local tries = {}
for _ = 1, wishes do
  local first_id, count, class, weight
  first_id, count, class, weight, at = unpacked('<dddd', A[3], at)
  local wants = wants_of(weight)
  for id = first_id, first_id + count - 1 do
    if token_of[id] then
      -- granted by an earlier call; the answer contains the grant again
    elseif length == 0 and not is_too_much(wants) and may_go(wants) then
      grant(me, id, places(wants))
    elseif class < 0 and any and length > 0 then
      tries[#tries + 1] = {id = id, wants = wants}
    elseif class < 0 then
      refused[#refused + 1] = pack('<dddd', id, 1, weight, -1)
    else
      qseq = qseq + 1
      local score, lane = class * lane_size, nil
      if any then
        lane = lane_of(wants)
        score = lane and (lane - 1) * lane_size + class * class_size
      end
      if score then
        local new = call('ZADD', KEYS[3], 'NX', score + qseq, place_of(id, wants))
        added, length = added + new, length + new
      else
        refused[#refused + 1] = pack('<dddd', id, 1, weight, -2)
      end
    end
  end
end
local old_head = head
head = ''
local rounds, passed = 0, 0
-- Serves the waiters of a limit with alternatives. If all alternatives of a waiter lack capacity, later waiters can't
-- take from them. So the waiter is granted as soon as one of them has capacity. If a waiter lacks only a common limit,
-- no later waiter is granted.
local soonest, is_over = nil, false
local function find_head(i)
  local lane = any.lanes[i]
  local found = call('ZRANGEBYSCORE', KEYS[3], s((i - 1) * lane_size), '(' .. s(i * lane_size), 'WITHSCORES', 'LIMIT',
                     lane.passed, 1)
  lane.entry, lane.order = found[1], (tonumber(found[2]) or 0) - (i - 1) * lane_size
end
local function first_lane()
  local best
  for i, lane in ipairs(any.lanes) do
    if lane.entry and not lane.is_kept and (not best or lane.order < any.lanes[best].order) then best = i end
  end
  return best
end
local function serve_lanes()
  for i, lane in ipairs(any.lanes) do
    lane.passed, lane.is_kept = 0, false
    find_head(i)
  end
  for _, a in ipairs(any) do a.due = -1 end
  while true do
    local i = first_lane()
    if not i then
      blocked = 'any'
      return
    end
    if granted >= 1000 or rounds >= 1000 then
      is_over = true
      -- If the rounds ended before all waiters had their turn, another call is useful at once (nil).
      blocked = passed >= 1000 and 'any' or nil
      return
    end
    rounds = rounds + 1
    local lane = any.lanes[i]
    local session, id, texts, low, high = match(lane.entry, '^([^|]*)|([^|]*)|([%d,]+)|(%d+),(%d+)$')
    local wants = {low = tonumber(low), high = tonumber(high)}
    for amount in string.gmatch(texts, '%d+') do wants[#wants + 1] = tonumber(amount) end
    id = tonumber(id)
    head = session
    if session ~= me and not other(session) then
      length = length - call('ZREM', KEYS[3], lane.entry)
      find_head(i)
    elseif session ~= me and other(session).is_deaf then
      passed = passed + 1
      lane.passed = lane.passed + 1
      find_head(i)
    elseif is_too_much(wants) then
      length = length - call('ZREM', KEYS[3], lane.entry)
      find_head(i)
      if session == me then
        refused[#refused + 1] = pack('<dddd', id, 1, wants[1], 0)
      else
        tell(session, 'x ' .. s(id))
      end
    elseif may_go(wants) then
      length = length - call('ZREM', KEYS[3], lane.entry)
      grant(session, id, 1)
      find_head(i)
    elseif blocked == 'any' then
      lane.is_kept = true
      for _, a in ipairs(members_of(wants)) do
        if fits(wants, a.rates) and not any.kept[a] then
          any.kept[a] = true
          a.due = a.waited
        end
      end
      if ready and (not soonest or ready < soonest.at) then soonest = {at = ready, session = session} end
    else
      return
    end
  end
end
if any and length > 0 then
  serve_lanes()
  local why, at = blocked, ready
  for _, try in ipairs(tries) do
    if not is_over and (length == 0 or why == 'any') and not is_too_much(try.wants) and may_go(try.wants) then
      grant(me, try.id, 1)
    else
      refused[#refused + 1] = pack('<dddd', try.id, 1, 1, -1)
    end
  end
  blocked, ready = why, at
end
while not any and length > passed and granted < 1000 and rounds < 1000 do
  rounds = rounds + 1
  blocked = nil
  local entry = call('ZRANGE', KEYS[3], passed, passed)[1]
  if not entry then break end
  local session, id, texts = match(entry, '^([^|]*)|([^|]*)|([%d,]+)$')
  local wants = {}
  for amount in string.gmatch(texts, '%d+') do wants[#wants + 1] = tonumber(amount) end
  id = tonumber(id)
  head = session
  if session ~= me and not other(session) then
    length = length - call('ZREM', KEYS[3], entry)
  elseif session ~= me and other(session).is_deaf then
    passed = passed + 1
    blocked = 'deaf'
  elseif is_too_much(wants) then
    length = length - call('ZREM', KEYS[3], entry)
    if session == me then
      refused[#refused + 1] = pack('<dddd', id, 1, wants[1], 0)
    else
      tell(session, 'x ' .. s(id))
    end
  elseif may_go(wants) then
    length = length - call('ZREM', KEYS[3], entry)
    grant(session, id, places(wants))
  else
    break
  end
end
if passed > 0 and passed == length then blocked = 'deaf' end
-- If the rounds ended before all waiters had their turn, another call is useful at once (nil).
if blocked == 'deaf' and rounds == 1000 and passed < 1000 and passed < length then blocked = nil end

local ahead = 0
if has_rate and length == 0 and now >= gate and wanted_ahead > 0 then
  fill(first, now)
  ahead = math.max(0, math.min(wanted_ahead, floor((now - first.u) * first.n / first.p)))
  while ahead > 0 and take({ahead}, now) do ahead = ahead - 1 end
  lying = lying + ahead
  idle = idle + ahead
end

-- When the next call is useful, and which session makes it.
local next_call = -1
if length == 0 then
  due = -1
  head = ''
elseif not blocked then
  next_call = 0
  due = -1
elseif blocked == 'gate' then
  next_call = gate == forever and -1 or gate - now
elseif blocked == 'any' then
  next_call = reap - now + 1000
  due = -1
  head = ''
  local at = soonest and soonest.at or -1
  if soonest then
    head = soonest.session
    local waits = at - now
    if head ~= me then
      if head ~= old_head or at ~= any.due then tell(head, 't ' .. s(waits)) end
      waits = waits + 100000
    end
    next_call = math.min(next_call, waits)
  end
  any.due = at
elseif blocked == 'rate' then
  next_call = ready - now
  if head ~= me then
    if head ~= old_head or ready ~= due then tell(head, 't ' .. s(next_call)) end
    next_call = next_call + 100000
  end
  due = ready
else
  -- A waiter that lacks a place, or can't be told of a grant, is not late for a token.
  next_call = reap - now + 1000
  due = -1
end
-- The new waiters may need permits or tokens that are idle in other sessions. So those sessions are told to give their
-- idle permits or tokens back.
if added > 0 and lying > idle and (blocked == 'cap' or blocked == 'rate') then
  local all = call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if all[i] ~= '*' and all[i] ~= me and select(5, unpacked('<ddddd', all[i + 1])) > 0 then
      tell(all[i], 'b 0')
    end
  end
end
if set then
  for _, id in ipairs(sessions()) do
    if id ~= me then tell(id, 'h 0') end
  end
end

-- The keys outlive the time until every bucket is full, even a bucket in debt.
local fills = 0
for _, b in ipairs(every_rate) do fills = math.max(fills, b.u + b.full - now) end
lasts = lasts + math.ceil(fills / 1000)
if was_empty and length > 0 then call('PEXPIRE', KEYS[3], lasts) end
local writes = {}
for id, o in pairs(others) do
  if o then
    writes[#writes + 1] = id
    writes[#writes + 1] = pack('<d', o[1]) .. o[2]
  end
end
local runs, told = {}, 0
local first_id, count, weight, token = 0, 0, 0, 0
local function end_run()
  if count > 0 then runs[#runs + 1] = pack('<dddd', first_id, count, weight, token) end
  count = 0
end
for i, id in ipairs(order) do
  local its = token_of[id]
  if its and count > 0 and id == first_id + count and its == token + count and weight_of[id] == weight then
    count = count + 1
  elseif its then
    end_run()
    first_id, count, weight, token = id, 1, weight_of[id], its
  end
  if i == before then
    end_run()
    told = #runs
  end
end
end_run()
local pending = table.concat(runs)
local totals = ''
for _, c in ipairs(charges) do totals = totals .. pack('<d', c.now) end
local places_held = ''
for _, a in ipairs(any or {}) do places_held = places_held .. pack('<d', a.held) end
if has_charged then
  writes[#writes + 1] = process
  writes[#writes + 1] = pack('<ddddd', 0, number, charged, now, 0) .. totals
end
if leaving then
  members = members - call('ZREM', KEYS[2], me)
  call('HDEL', KEYS[1], me)
else
  writes[#writes + 1] = me
  local is_seen = string.find(flags, 's', 1, true) and (was_seen or (listeners(me) or 0) > 0)
  local numbers = pack('<ddddd', own, is_seen and seq + 0.5 or seq, charged, expiry, idle)
  writes[#writes + 1] = numbers .. totals .. places_held .. pending
end
local expires = now > keep or not known[2] or fills > 43200000000
if expires then keep = now + 43200000000 end
remember(unpack(writes))
if expires then
  for i = 1, 3 do call('PEXPIRE', KEYS[i], lasts) end
end

local settings = ''
if version ~= stated then
  local left = pause == forever and -1 or math.max(0, pause - now)
  settings = string.format('%.0f %.0f %.0f %.0f %.0f %.0f', version, cap, first.n, first.p, first.burst, left)
  for _, b in ipairs(further) do settings = settings .. string.format(' %.0f %.0f %.0f', b.n, b.p, b.burst) end
end
local answer = {'OK', next_call, length, total, math.max(0, hold - now), epoch, first.n > 0 and first.u - now or 0,
                ahead, settings, told, pending .. table.concat(refused), now}
if A[6] then
  answer[13] = ''
  for _, b in ipairs(further) do answer[13] = answer[13] .. pack('<d', b.u - now) end
end
if any then
  answer[14] = ''
  for _, a in ipairs(any) do
    local left = a.pause == forever and -1 or math.max(0, a.pause - now)
    answer[14] = answer[14] .. pack('<ddd', a.total, a.cap, left)
  end
end
return answer
)lua";

std::string sha1_of(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace

std::string_view sync_script() noexcept { return lua_text; }

const std::string& sync_sha() {
  static const std::string sha = sha1_of(lua_text);
  return sha;
}

}  // namespace canigo::redis::detail
