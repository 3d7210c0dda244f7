#include "gateway/policy/budget_statement.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::string_view script_text = R"lua(
local call, A, at = redis.call, ARGV, 3
local function number() at = at + 1 return tonumber(A[at]) end
local function s(x) return string.format('%.0f', x) end
local number_of_statement, lease, longest_step = tonumber(A[1]), tonumber(A[2]), tonumber(A[3])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local windows, answer = {}, {}

-- The field of an instance: the number of its last statement, its settled sum, its reserved sum.
local function field(text)
  if not text then return end
  local last, settled, reserved = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(last), tonumber(settled), tonumber(reserved)
end

for i = 1, #KEYS / 2 do
  local w = {sums = KEYS[2 * i - 1], live = KEYS[2 * i]}
  w.me, w.record = A[at + 1], A[at + 2]
  at = at + 2
  w.settled, w.reported, w.told, w.mine, w.kept = number(), number(), number(), number(), number()
  local had = call('HMGET', w.sums, '.spent', '.reserved', '.floor', '.clock', '.at', w.me, '.record')
  -- In one record the spent sum never becomes less. If it is less than an instance has seen, Redis has gone back to
  -- older data. Then the data begin anew, as after a loss.
  if had[7] and had[7] == w.record and tonumber(had[1]) < w.told then
    call('DEL', w.sums, w.live)
    had = {}
  end
  w.spent, w.reserved, w.floor = tonumber(had[1] or 0), tonumber(had[2] or 0), tonumber(had[3] or 0)
  w.clock = tonumber(had[4] or 0) + math.min(math.max(now - tonumber(had[5] or now), 0), longest_step)
  local last, settled, reserved = field(had[6])
  if last and last > number_of_statement then return redis.error_reply('CANIGO_OLD an older statement') end
  local record = had[7] or w.me .. '-' .. s(number_of_statement)
  local is_other = w.record ~= '' and w.record ~= record
  w.spent = w.spent + w.settled - (settled or (is_other and w.reported or 0))
  if is_other and w.told > w.floor then
    -- Redis has lost the data of the window. The sum that an instance saw last is a lower bound of the lost sum.
    w.spent = w.spent + w.told - w.floor
    w.floor = w.told
  end
  w.record = record
  w.reserved = w.reserved - (reserved or 0) + w.mine
  windows[i] = w
end

for _, w in ipairs(windows) do
  for _, gone in ipairs(call('ZRANGEBYSCORE', w.live, '-inf', s(w.clock - lease), 'LIMIT', 0, 32)) do
    if gone ~= w.me then
      local last, settled, reserved = field(call('HGET', w.sums, gone))
      w.reserved = w.reserved - (reserved or 0)
      call('ZREM', w.live, gone)
      if settled == 0 then
        call('HDEL', w.sums, gone)
      elseif last then
        call('HSET', w.sums, gone, s(last) .. ' ' .. s(settled) .. ' 0')
      end
    end
  end
end

local denied = {}
for i = 1, number() do
  local amount, parts = number(), {}
  denied[i] = 0
  for p = 1, number() do
    local w, most = windows[number()], number()
    parts[p] = w
    if denied[i] == 0 and most >= 0 and w.spent + w.reserved + amount > most then denied[i] = p end
  end
  if denied[i] == 0 then
    for _, w in ipairs(parts) do
      w.reserved = w.reserved + amount
      w.mine = w.mine + amount
    end
  end
end

for i, w in ipairs(windows) do
  call('HSET', w.sums, '.record', w.record, '.spent', s(w.spent), '.reserved', s(w.reserved), '.floor', s(w.floor),
       '.clock', s(w.clock), '.at', s(now), w.me, s(number_of_statement) .. ' ' .. s(w.settled) .. ' ' .. s(w.mine))
  call('ZADD', w.live, s(w.clock), w.me)
  call('PEXPIRE', w.sums, s(w.kept))
  call('PEXPIRE', w.live, s(w.kept))
  for _, text in ipairs({w.record, s(w.spent), s(w.reserved)}) do answer[#answer + 1] = text end
end
for i = 1, #denied do answer[#answer + 1] = s(denied[i]) end
return answer
)lua";

void append(std::vector<std::string>& to, std::uint64_t n) { to.push_back(std::to_string(n)); }

void append(std::vector<std::string>& to, std::chrono::milliseconds d) { to.push_back(std::to_string(d.count())); }

}  // namespace

std::string_view budget_script() noexcept { return script_text; }

std::vector<std::string> keys_of(const budget_statement& s) {
  std::vector<std::string> keys;
  for (const budget_statement::window& w : s.windows) {
    // All keys have one hash tag, so a cluster keeps them on one node, where a script may use them together.
    keys.push_back(fmt::format("{{canigo:canigo-gateway}}:budget:{}", w.key));
    keys.push_back(keys.back() + ":live");
  }
  return keys;
}

std::vector<std::string> arguments_of(const budget_statement& s) {
  std::vector<std::string> all;
  append(all, s.number);
  append(all, budget_lease);
  append(all, longest_budget_step);
  for (const budget_statement::window& w : s.windows) {
    all.push_back(w.member);
    all.push_back(w.record);
    for (const micro_usd n : {w.settled, w.reported, w.spent, w.reserved}) append(all, n);
    append(all, w.kept);
  }
  append(all, s.asks.size());
  for (const budget_statement::ask& a : s.asks) {
    append(all, a.amount);
    append(all, a.parts.size());
    for (const budget_statement::ask::part& p : a.parts) {
      append(all, p.window + 1);
      all.push_back(p.most ? std::to_string(*p.most) : "-1");
    }
  }
  return all;
}

std::optional<budget_answer> read_answer(const budget_statement& s, const std::vector<std::string>& texts) {
  if (texts.size() != 3 * s.windows.size() + s.asks.size()) return std::nullopt;
  std::size_t at = 0;
  bool is_right = true;
  const auto next = [&] {
    const std::string& text = texts[at++];
    std::uint64_t n = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) is_right = false;
    return n;
  };
  budget_answer answer;
  for (std::size_t i = 0; i < s.windows.size(); ++i) {
    budget_answer::sums& w = answer.windows.emplace_back();
    w.record = texts[at++];
    w.spent = next();
    w.reserved = next();
  }
  for (const budget_statement::ask& a : s.asks) {
    const std::uint64_t part = next();
    if (part > a.parts.size()) return std::nullopt;
    answer.denied.push_back(part == 0 ? std::nullopt : std::optional<std::size_t>{part - 1});
  }
  return is_right ? std::optional{std::move(answer)} : std::nullopt;
}

}  // namespace canigo::gateway
