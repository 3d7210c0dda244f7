#include "gateway/call/call_services.hpp"

#include "gateway/call/call.hpp"

#include <asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>

namespace canigo::gateway {
namespace {

/// Returns the name of a target; empty if the upstream lists no targets.
std::string_view name_of(const upstream_queue& q, std::size_t target) noexcept {
  const auto& all = q.settings().targets;
  return target < all.size() ? std::string_view{all[target].name} : std::string_view{};
}

}  // namespace

call_services::call_services(std::vector<call_loop*> loops, std::uint64_t buffered,
                             std::shared_ptr<budget_ledger> money, int priorities, duration ageing)
    : counts{loops.size()},
      budgets{std::move(money)},
      lines{std::make_shared<budget_lines>(loops.front()->io.get_executor(), priorities, ageing)},
      kept{buffered},
      call_loops_{std::move(loops)},
      money_timer_{call_loops_.front()->io} {
  budgets->on_freed([weak = std::weak_ptr{lines}](const std::string& name) {
    if (const auto all = weak.lock()) all->look_again(name);
  });
  budgets->on_answering([weak = std::weak_ptr{lines}] {
    if (const auto all = weak.lock()) all->look_again();
  });
  std::random_device random;
  process_ = fmt::format("{:08x}", random());
  via_ = "1.1 canigo-" + process_;
}

std::string call_services::new_request_id() {
  std::array<char, 16> digits;
  const std::uint64_t number = next_request_.fetch_add(1, std::memory_order_relaxed);
  const auto size = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr - digits.data();
  std::string id;
  id.reserve(process_.size() + 1 + digits.size());
  return id.append(process_).append(1, '-').append(digits.data(), static_cast<std::size_t>(size));
}

void call_services::pause(upstream_queue& q, std::size_t target, std::size_t tenant, time_point until,
                          const call_record& r, int status) {
  origins.note(r, name_of(q, target), status, q.settings().credential.is_passed());
  q.pause(target, tenant, until);
  end_waits_of_paused(q);
}

bool call_services::refuse_key(upstream_queue& q, std::size_t target, time_point started, const call_record& r,
                               int status) {
  if (!q.refuse_key(target, started)) return false;
  origins.note(r, name_of(q, target), status, false);
  end_waits_of_paused(q);
  return true;
}

void call_services::end_waits_of_paused(upstream_queue& q) {
  end_long_waits(q, is_draining() ? end() - std::chrono::steady_clock::now() : duration::max());
}

void call_services::note_spent(upstream_queue& q, std::size_t target, std::size_t tenant, spent_quota told,
                               const call_record& r, int status) {
  origins.note(r, name_of(q, target), status, q.settings().credential.is_passed());
  told.request = r.id;
  q.note_spent(target, tenant, std::move(told));
  for (call_loop* const l : call_loops_)
    net::post(l->io, [l] { l->requests.each([](call& c) { c.look_at_quotas(); }); });
}

void call_services::watch_money_of_targets() {
  if (watches_money_.exchange(true, std::memory_order_relaxed)) return;
  net::post(call_loops_.front()->io, [this] {
    constexpr duration between = std::chrono::seconds{1};
    money_timer_.expires_after(between);
    money_timer_.async_wait([this](const error_code& error) {
      if (!error) look_at_money_of_targets();
    });
  });
}

void call_services::look_at_money_of_targets() {
  watches_money_.store(false, std::memory_order_relaxed);
  for (call_loop* const l : call_loops_)
    net::post(l->io, [l] { l->requests.each([](call& c) { c.look_at_money(); }); });
}

void call_services::end_long_waits(upstream_queue& q, duration most) {
  const auto estimates = std::make_shared<std::unordered_map<std::uint64_t, duration>>();
  redis_limit* const shared = q.limits().shared();
  const duration least = shared != nullptr ? shared->least_wait() : duration::zero();
  for (const waiting_request& w : q.limit().waiting(q.settings().queue)) {
    estimates->emplace(w.tag, std::max(w.estimate, least));
  }
  if (estimates->empty()) return;
  for (call_loop* const l : call_loops_) {
    net::post(l->io, [l, estimates, most] {
      for (const auto& [number, estimate] : *estimates) {
        if (call* const c = l->requests.find(number)) c->give_up(estimate, most);
      }
    });
  }
}

void call_services::close_idle_links() {
  constexpr duration between = std::chrono::milliseconds{20};
  const duration now = std::chrono::steady_clock::now().time_since_epoch();
  duration::rep last = idle_closed_.load(std::memory_order_relaxed);
  if (duration{last} > now - between || !idle_closed_.compare_exchange_strong(last, now.count())) return;
  for (call_loop* const l : call_loops_) {
    net::post(l->io, [l] {
      const auto close = [l](upstream_queue& q) {
        for (std::size_t t = 0; t < q.targets(); ++t) q.pool(l->index, t).close_idle();
      };
      for (std::size_t i = 0; i < l->now->queues(); ++i) close(l->now->queue(i));
      if (l->now->hosts() == nullptr) return;
      for (const auto& q : l->now->hosts()->all()) close(*q);
    });
  }
}

}  // namespace canigo::gateway
