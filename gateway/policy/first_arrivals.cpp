#include "gateway/policy/first_arrivals.hpp"

#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr duration kept_for = std::chrono::minutes{1};
constexpr std::size_t longest_key = 512;

}  // namespace

std::string resend_key(const message_head& head, std::string_view tenant) {
  std::string_view kind;
  std::string_view host;
  std::string_view name;
  for (const std::string_view field : {"Idempotency-Key", "amz-sdk-invocation-id"}) {
    const auto value = value_of(head, field);
    if (!name.empty() || !value) continue;
    kind = field;
    name = trim(*value);
  }
  if (name.empty() && head.method == "GET") {
    kind = "GET";
    host = value_of(head, "Host").value_or("");
    name = head.target;
  }
  if (name.empty() || name.size() + host.size() > longest_key) return {};
  // A line end separates the parts of the key, because none of the parts can contain one.
  std::string key{tenant};
  key.append("\n").append(kind).append("\n").append(host).append("\n").append(name);
  return key;
}

void first_arrivals::note(std::string key, time_point since, time_point now) {
  if (key.empty()) return;
  const std::lock_guard lock{mutex_};
  drop_old(now);
  if (by_end_.size() >= most) return;
  const time_point until = now + kept_for;
  const auto [found, is_new] = arrivals_.try_emplace(key, arrival{since, until});
  if (!is_new) found->second = {std::min(found->second.since, since), until};
  by_end_.emplace_back(until, std::move(key));
  count_.store(by_end_.size(), std::memory_order_relaxed);
}

std::optional<time_point> first_arrivals::take(std::string_view key, time_point now) {
  if (key.empty()) return std::nullopt;
  const std::lock_guard lock{mutex_};
  drop_old(now);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return std::nullopt;
  const time_point since = found->second.since;
  arrivals_.erase(found);
  return since;
}

void first_arrivals::drop_old(time_point now) {
  while (!by_end_.empty() && by_end_.front().first <= now) {
    const auto found = arrivals_.find(by_end_.front().second);
    if (found != arrivals_.end() && found->second.until <= now) arrivals_.erase(found);
    by_end_.pop_front();
  }
  count_.store(by_end_.size(), std::memory_order_relaxed);
}

}  // namespace canigo::gateway
