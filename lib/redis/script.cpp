#include "script.hpp"

#include <openssl/evp.h>

namespace canigo::redis::detail {
namespace {

// One step for one session: it restates what it holds, and the server reaps the dead, admits, and hands out.
//
// KEYS  1 cfg   what is remembered of the limit     2 sess  zset: session -> when its lease ends
//       3 used  hash: session -> weight, and s:session -> the number of its last call
//       4 q     zset: session|waiter|weight -> class * 2^45 + arrival
//       5 p:…   hash of the calling session: waiter -> weight:token, granted and not acknowledged yet
// ARGV  1 run id  2 session  3 number of this call  4 lease (us)  5 capacity, 0: none
//       6, 7, 8 tokens, period (us) and burst of the rate; 0 tokens: none
//       9 weight held  10 prefix of all keys  11 flags: q quarantine, l leave
//       12, 13, 14 how many acknowledged waiters, cancelled (waiter, weight), wanted (waiter, class, weight) follow
// Reply status, us to the next useful call or -1, length of the queue, weight out, us of quarantine left, epoch, then a
//       waiter and its token for each grant that is not acknowledged, and a waiter and 0 for one that weighs too much.
//
// The epoch is another one after Redis has restarted or lost its data: it may have forgotten who waits, and what it
// said in another epoch counts no more.
//
// All numbers are whole and below 2^53. Time is the server's, continued at its old value where it was set back.
// Errors are data: Redis 7 rewrites the text of error replies of scripts.
constexpr std::string_view text = R"lua(
local call, A = redis.call, ARGV
local me, seq, ttl, cap = A[2], tonumber(A[3]), tonumber(A[4]), tonumber(A[5])
local n, p, burst = tonumber(A[6]), tonumber(A[7]), tonumber(A[8])
local held, prefix = tonumber(A[9]), A[10]
local function s(x) return string.format('%.0f', x) end

local cfg = call('HMGET', KEYS[1], 'run', 'hold', 'last', 'off', 'fence', 'total', 'qseq', 'zu', 'zr', 'due', 'head',
                 'rate', 'keep', 'epoch')
local t = call('TIME')
local raw = t[1] * 1000000 + t[2]
local last, off = tonumber(cfg[3]) or 0, tonumber(cfg[4]) or 0
local now = raw + off
if now < last then
  off = last - raw
  now = last
end

local leaving = string.find(A[11], 'l', 1, true)
local hold, epoch, recount = tonumber(cfg[2]) or 0, tonumber(cfg[14]) or 0, not cfg[6]
if cfg[1] ~= A[1] then
  -- A server that has restarted, or lost its data: what it knows may be out of date, so nobody new is let in before
  -- everybody who holds something has had the time to say so.
  if cap > 0 and string.find(A[11], 'q', 1, true) then hold = now + ttl end
  epoch = math.max(now, epoch + 1)
  cfg[8] = nil
  for _, id in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do call('ZADD', KEYS[2], 'GT', s(now + ttl), id) end
  recount = true
elseif now - last > ttl / 2 then
  -- The server stood still, or its clock jumped: nobody's lease runs out by that.
  for _, id in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do call('ZINCRBY', KEYS[2], s(now - last), id) end
end

local dead = call('ZRANGEBYSCORE', KEYS[2], '-inf', s(now))
if #dead > 0 then
  local is_dead = {}
  for _, id in ipairs(dead) do
    is_dead[id] = true
    call('ZREM', KEYS[2], id)
    call('HDEL', KEYS[3], id, 's:' .. id)
    call('DEL', prefix .. 'p:' .. id)
  end
  for _, entry in ipairs(call('ZRANGE', KEYS[4], 0, -1)) do
    if is_dead[string.match(entry, '^[^|]*')] then call('ZREM', KEYS[4], entry) end
  end
  recount = true
  call('HDEL', KEYS[1], 'total')
end

local mine = call('HMGET', KEYS[3], me, 's:' .. me)
local known = call('ZSCORE', KEYS[2], me)
if not known then
  if seq > 1 and now >= hold then return {'NOSESS', -1, 0, 0, 0, 0} end
  recount = true
elseif mine[2] and seq <= tonumber(mine[2]) then
  return {'STALE', -1, 0, 0, 0, 0}
end
call('ZADD', KEYS[2], s(now + ttl), me)

-- The rate: the bucket was empty at zu + zr/n us, which is never more than `burst` tokens ago. In a new epoch it is
-- empty now: what was taken last may have been forgotten.
local whole, rest, zu, zr = 0, 0, tonumber(cfg[8]), tonumber(cfg[9]) or 0
local rate = A[6] .. '/' .. A[7] .. '/' .. A[8]
if n > 0 then
  whole, rest = math.floor(p / n), p % n
  if not zu then
    zu, zr = now, 0
  elseif cfg[12] ~= rate then
    local on, op, ob = string.match(cfg[12] or '', '^(%d+)/(%d+)/(%d+)$')
    local level = 0
    if on then level = math.max(0, math.min(tonumber(ob), burst, math.floor((now - zu) * on / op))) end
    zu, zr = now - level * whole - math.ceil(level * rest / n), 0
  end
end
local function plus(u, r, tokens)
  r = r + tokens * rest
  return u + tokens * whole + math.floor(r / n), r % n
end
local function take(tokens, as_of)
  local full = burst * whole + math.ceil(burst * rest / n)
  if zu < as_of - full then zu, zr = as_of - full, 0 end
  local u, r = plus(zu, zr, tokens)
  if u < as_of or (u == as_of and r == 0) then
    zu, zr = u, r
    return nil
  end
  return r > 0 and u + 1 or u
end

-- What the caller says: what it has got, what it wants no more, what it holds.
local mine_key, pend, at = KEYS[5], {}, 15
local flat = known and call('HGETALL', mine_key) or {}
for i = 1, #flat, 2 do pend[flat[i]] = flat[i + 1] end
for i = at, at + A[12] - 1 do
  if pend[A[i]] then
    call('HDEL', mine_key, A[i])
    pend[A[i]] = nil
  end
end
at = at + A[12]
for i = at, at + 2 * A[13] - 1, 2 do
  local id, weight = A[i], tonumber(A[i + 1])
  if pend[id] then
    call('HDEL', mine_key, id)
    pend[id] = nil
    if n > 0 then zu, zr = plus(zu, zr, -weight) end
  else
    call('ZREM', KEYS[4], me .. '|' .. id .. '|' .. A[i + 1])
  end
end
at = at + 2 * A[13]
local own = held
if cap > 0 then
  for _, grant in pairs(pend) do own = own + tonumber(string.match(grant, '^%d+')) end
end
if leaving then
  own, pend = 0, {}
end
call('HSET', KEYS[3], me, s(own), 's:' .. me, A[3])
local total = (tonumber(cfg[6]) or 0) + own - (tonumber(mine[1]) or 0)
if recount then
  total = 0
  local all = call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) ~= 's:' then total = total + tonumber(all[i + 1]) end
  end
end

-- What it wants, and whoever waits.
-- Tokens are fewer than microseconds, so they go on rising after all was forgotten.
local fence = tonumber(cfg[5]) or now
local qseq, due, granted, refused = tonumber(cfg[7]) or 0, tonumber(cfg[10]), 0, {}
local as_of = due and math.min(now, math.max(due, now - 20000)) or now
local blocked, ready

local function may_go(weight)
  if now < hold then
    blocked = 'hold'
  elseif cap > 0 and total + weight > cap then
    blocked = 'cap'
  elseif n > 0 then
    ready = take(weight, as_of)
    if ready and ready <= now and not take(weight, ready) then
      as_of = ready
      ready = nil
    end
    blocked = ready and 'rate' or nil
  else
    blocked = nil
  end
  return not blocked
end
local function grant(session, id, weight)
  fence = fence + 1
  granted = granted + 1
  local value = s(weight) .. ':' .. s(fence)
  local key = prefix .. 'p:' .. session
  call('HSET', key, id, value)
  call('PEXPIRE', key, s(math.max(86400000, ttl / 100)))
  if cap > 0 then total = total + weight end
  if session == me then
    pend[id] = value
    if cap > 0 then own = own + weight end
  else
    if cap > 0 then call('HINCRBY', KEYS[3], session, weight) end
    call('PUBLISH', prefix .. 'n:' .. session, 'g ' .. id .. ' ' .. s(fence) .. ' ' .. s(epoch))
  end
end

local length = call('ZCARD', KEYS[4])
if length == 0 then
  as_of = now
  due = nil
end
for i = at, at + 3 * A[14] - 1, 3 do
  local id, class, weight = A[i], tonumber(A[i + 1]), tonumber(A[i + 2])
  if not pend[id] then
    if length == 0 and (cap == 0 or weight <= cap) and may_go(weight) then
      grant(me, id, weight)
    else
      qseq = qseq + 1
      local entry = me .. '|' .. id .. '|' .. A[i + 2]
      length = length + call('ZADD', KEYS[4], 'NX', s(class * 35184372088832 + qseq), entry)
    end
  end
end
local head
while length > 0 and granted < 1000 do
  local entry = call('ZRANGE', KEYS[4], 0, 0)[1]
  if not entry then break end
  local session, id, weight = string.match(entry, '^([^|]*)|([^|]*)|(%d+)$')
  weight = tonumber(weight)
  head = session
  if session ~= me and not call('ZSCORE', KEYS[2], session) then
    call('ZREM', KEYS[4], entry)
  elseif cap > 0 and weight > cap then
    call('ZREM', KEYS[4], entry)
    if session == me then
      refused[#refused + 1] = id
    else
      call('PUBLISH', prefix .. 'n:' .. session, 'x ' .. id)
    end
  elseif may_go(weight) then
    call('ZREM', KEYS[4], entry)
    grant(session, id, weight)
  else
    break
  end
end
length = call('ZCARD', KEYS[4])

-- When there is something to do again, and who does it.
local next_call = -1
if length == 0 then
  due = nil
  head = nil
elseif not blocked then
  next_call = 0
  due = nil
elseif blocked == 'hold' then
  next_call = hold - now
elseif blocked == 'rate' then
  next_call = ready - now
  if head ~= me then
    if head ~= cfg[11] or ready ~= due then
      call('PUBLISH', prefix .. 'n:' .. head, 't ' .. s(next_call))
    end
    next_call = next_call + 100000
  end
  due = ready
else
  next_call = tonumber(call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]) - now + 1000
end

local keep = tonumber(cfg[13]) or 0
if now > keep then
  keep = now + 43200000000
  for i = 1, 4 do call('PEXPIRE', KEYS[i], s(math.max(86400000, ttl / 100))) end
end
call('HSET', KEYS[1], 'run', A[1], 'hold', s(hold), 'last', s(now), 'off', s(off), 'fence', s(fence), 'total', s(total),
     'qseq', s(qseq), 'zu', s(zu or 0), 'zr', s(zr), 'due', due and s(due) or '', 'head', head or '', 'rate', rate,
     'keep', s(keep), 'epoch', s(epoch), 'cap', A[5], 'ttl', A[4])
if leaving then
  call('ZREM', KEYS[2], me)
  call('HDEL', KEYS[3], me, 's:' .. me)
  call('DEL', mine_key)
else
  call('HSET', KEYS[3], me, s(own))
end

local answer = {'OK', next_call, length, total, math.max(0, hold - now), epoch}
for id, value in pairs(pend) do
  answer[#answer + 1] = id
  answer[#answer + 1] = tonumber(string.match(value, ':(%d+)$'))
end
for _, id in ipairs(refused) do
  answer[#answer + 1] = id
  answer[#answer + 1] = 0
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

std::string_view sync_script() noexcept { return text; }

const std::string& sync_sha() {
  static const std::string sha = sha1_of(text);
  return sha;
}

}  // namespace canigo::redis::detail
