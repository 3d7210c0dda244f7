#include "gateway/call/call_counts.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

namespace canigo::gateway {
namespace {

constexpr std::string_view others = "other";

struct key_view {
  std::string_view upstream, tenant, priority, error;
  int status = 0;
};

key_view view(const call_counts::key& k) noexcept { return {k.upstream, k.tenant, k.priority, k.error, k.status}; }
const key_view& view(const key_view& k) noexcept { return k; }

struct key_hash {
  using is_transparent = void;
  template <class Key>
  std::size_t operator()(const Key& key) const noexcept {
    const key_view& k = view(key);
    std::size_t sum = static_cast<std::size_t>(k.status);
    for (const std::string_view text : {k.upstream, k.tenant, k.priority, k.error})
      sum = sum * 1'000'003 + std::hash<std::string_view>{}(text);
    return sum;
  }
};

struct key_equal {
  using is_transparent = void;
  template <class A, class B>
  bool operator()(const A& first, const B& second) const noexcept {
    const key_view& a = view(first);
    const key_view& b = view(second);
    return std::tie(a.status, a.upstream, a.tenant, a.priority, a.error) ==
           std::tie(b.status, b.upstream, b.tenant, b.priority, b.error);
  }
};

void add(call_counts::tokens& to, const call_record& r) {
  to.asked += r.tokens_asked.value_or(0);
  to.output += r.tokens_output;
  to.input += r.tokens_used.value_or(0) - r.tokens_output;
}

}  // namespace

struct call_counts::part {
  std::mutex mutex;
  std::unordered_map<key, std::uint64_t, key_hash, key_equal> requests;
  std::map<std::string, of_upstream, std::less<>> upstreams;

  void count(const key_view& k) {
    auto found = requests.find(k);
    if (found == requests.end()) {
      key made{std::string{k.upstream}, std::string{k.tenant}, std::string{k.priority}, std::string{k.error}, k.status};
      if (requests.size() >= most_series) {
        const std::string any{others};
        made = {any, any, any, any, -1};
      }
      found = requests.emplace(std::move(made), 0).first;
    }
    ++found->second;
  }
};

call_counts::call_counts(std::size_t loops) {
  for (std::size_t i = 0; i < loops; ++i) parts_.push_back(std::make_unique<part>());
}

call_counts::~call_counts() = default;

void call_counts::count(std::size_t loop, const call_record& r) {
  bytes_in.fetch_add(r.bytes_in, std::memory_order_relaxed);
  bytes_out.fetch_add(r.bytes_out, std::memory_order_relaxed);
  const std::string_view tenant = r.tenant_index >= most_tenants ? others : r.tenant;
  part& p = *parts_[loop];
  const std::lock_guard lock{p.mutex};
  p.count({r.upstream, tenant, r.priority, r.error, r.status});
  if (r.attempts == 0) return;
  auto found = p.upstreams.find(r.upstream);
  if (found == p.upstreams.end()) {
    const bool has_room = p.upstreams.size() < most_series;
    found = p.upstreams.try_emplace(std::string{has_room ? r.upstream : others}).first;
  }
  of_upstream& u = found->second;
  if (r.upstream_first_byte) u.first_byte.record(*r.upstream_first_byte);
  u.total.record(std::chrono::steady_clock::now() - r.since);
  if (r.texts && r.texts->usd) {
    std::pair<std::string, std::string> payer{tenant, r.texts->priced_as};
    if (u.spent.size() >= most_series && !u.spent.contains(payer)) payer = {std::string{others}, std::string{others}};
    u.spent[std::move(payer)] += *r.texts->usd;
  }
  if (!r.tokens_asked && !r.tokens_used) return;
  auto used = u.by_tenant.find(tenant);
  if (used == u.by_tenant.end()) used = u.by_tenant.try_emplace(std::string{tenant}).first;
  add(used->second, r);
}

void call_counts::count_lowered(const std::string& tenant) {
  const std::lock_guard lock{mutex_};
  const bool has_room = lowered_.size() < most_tenants || lowered_.contains(tenant);
  ++lowered_[has_room ? tenant : std::string{others}];
}

std::map<std::string, std::uint64_t> call_counts::lowered() const {
  const std::lock_guard lock{mutex_};
  return lowered_;
}

call_counts::totals call_counts::all() const {
  totals sum;
  for (const auto& p : parts_) {
    const std::lock_guard lock{p->mutex};
    for (const auto& [k, n] : p->requests) sum.requests[k] += n;
    for (const auto& [name, u] : p->upstreams) {
      of_upstream& to = sum.upstreams[name];
      to.first_byte.merge(u.first_byte);
      to.total.merge(u.total);
      for (const auto& [payer, amount] : u.spent) to.spent[payer] += amount;
      for (const auto& [tenant, t] : u.by_tenant) {
        tokens& all = to.by_tenant[tenant];
        all.asked += t.asked;
        all.input += t.input;
        all.output += t.output;
      }
    }
  }
  return sum;
}

}  // namespace canigo::gateway
