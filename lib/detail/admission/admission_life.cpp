// The functions of admission that construct and destroy the engine of a limit.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace canigo::detail {

void check_tokens(std::string_view prefix, std::uint64_t burst, std::uint64_t initial_tokens) {
  if (burst < 1 || burst > token_bucket::max_burst) throw_invalid(std::string{prefix} + "burst", burst, "1 to 2^62");
  if (initial_tokens > burst) {
    throw_invalid(std::string{prefix} + "initial_tokens", initial_tokens, "0 to the burst of " + std::to_string(burst));
  }
}

void check_window(std::string_view prefix, rate_window w, const rate& r, std::uint64_t burst) {
  if (w != rate_window::average && w != rate_window::strict) {
    throw_invalid(std::string{prefix} + "window", static_cast<int>(w), "average, strict");
  }
  if (w == rate_window::strict && burst > static_cast<std::uint64_t>(r.tokens())) {
    throw_invalid(std::string{prefix} + "burst", burst,
                  "1 to " + std::to_string(r.tokens()) + ", the tokens of a strict window");
  }
}

void add_window(rate_windows& all, std::size_t rates, rate_window w, const rate& r) {
  if (w != rate_window::strict) {
    if (!all.empty()) all.emplace_back();
    return;
  }
  all.resize(rates - 1);
  all.emplace_back(r);
}

limit_name make_name(const std::string& name) {
  return name.empty() ? nullptr : std::make_shared<const std::string>(printable(name));
}

admission_options checked(std::string_view type, const admission_options& o) {
  const auto field = [&](const char* name) { return std::string{type} + "." + name; };
  if (o.priorities < 1 || o.priorities > wait_queue::max_priorities) {
    throw_invalid(field("priorities"), o.priorities, "1 to 1024");
  }
  if (o.queue_limit < 1) throw_invalid(field("queue_limit"), o.queue_limit, "1 or more");
  if (o.ageing <= duration::zero()) throw_invalid(field("ageing"), o.ageing, "more than 0");
  constexpr auto policies = "reject_new, evict_oldest, evict_least_important";
  if (o.on_overflow == overflow::wait) throw_invalid(field("on_overflow"), "wait", policies);
  if (o.on_overflow < overflow::reject_new || o.on_overflow > overflow::wait) {
    throw_invalid(field("on_overflow"), static_cast<int>(o.on_overflow), policies);
  }
  if (o.shedding.target <= duration::zero()) {
    throw_invalid(field("shedding.target"), o.shedding.target, "more than 0");
  }
  if (o.shedding.interval <= duration::zero()) {
    throw_invalid(field("shedding.interval"), o.shedding.interval, "more than 0");
  }
  constexpr duration most_slack = std::chrono::seconds{1};
  if (o.slack < duration::zero() || o.slack > most_slack) throw_invalid(field("slack"), o.slack, "0s to 1s");
  if (o.mode != enforcement::enforce && o.mode != enforcement::shadow) {
    throw_invalid(field("mode"), static_cast<int>(o.mode), "enforce, shadow");
  }
  return o;
}

admission* admission::open(const net::any_io_executor& executor, supplies s, const admission_options& options,
                           std::unique_ptr<companion> beside) {
  return new admission{executor, std::move(s), options, std::move(beside)};
}

admission::admission(const net::any_io_executor& executor, supplies s, const admission_options& options,
                     std::unique_ptr<companion> beside)
    : delivery{executor},
      supplies_{std::move(s)},
      queue_{options.priorities, options.ageing},
      counts_{options.priorities},
      slack_{options.slack},
      queue_limit_{options.queue_limit},
      on_overflow_{options.on_overflow},
      priorities_{options.priorities},
      wake_up_{*this},
      seat_{supplies_.shared() != nullptr ? std::make_unique<seat>(*this) : nullptr},
      units_{supplies_.has_records() ? std::make_unique<unit_state>(priorities_) : nullptr},
      beside_{std::move(beside)},
      name_{options.name} {
  if (seat_ != nullptr) supplies_.shared()->make_room_for(priorities_);
  if (options.shedding.target != duration::max()) delays_.emplace(options.shedding, priorities_);
  if (options.times_binding) binding_.emplace(supplies_.rates().size());
  if (options.mode == enforcement::shadow) shadow_ = std::make_unique<shadow_state>();
  if (supplies_.any_of() != nullptr) make_lanes();
  choose_ways();
  join();
}

admission::~admission() = default;

void admission::choose_ways() noexcept {
  ways_.in = !stopped_ && flows_ == nullptr && units_ == nullptr && !is_shadow();
  const bool is_bare = seat_ == nullptr && flows_ == nullptr && units_ == nullptr && shadow_ == nullptr;
  ways_.out = is_bare && !kept_by_places_;
  ways_.through = is_bare && !supplies_.rates().has_windows() && !binding_ && !delays_ && slack_ == duration::zero() &&
                  !context_gone_;
}

admission* open_idle(const net::any_io_executor& executor) {
  return admission::open(executor, supplies{{}, 0, supplies::occupancy::idle}, {});
}

void admission::pause_until(time_point t, bool may_shorten) noexcept {
  const change c{*this};
  paused_until_ = may_shorten ? t : std::max(t, paused_until_);
  if (!context_gone_) pump(time_->now());
}

void admission::stop() noexcept {
  const change c{*this};
  stopped_ = true;
  choose_ways();
  while (wait_node* n = queue_.first_of_most_important()) finish(static_cast<waiter&>(*n), to_outcome(errc::stopped));
  if (flows_ != nullptr) {
    flows_->for_each([this](wait_node& n) { finish(static_cast<waiter&>(n), to_outcome(errc::stopped)); });
  }
  if (seat_ != nullptr) supplies_.shared()->withdraw(*seat_);
  if (context_gone_) return;
  wake_at(time_point::max());
  if (binding_) note_binding(time_->now());
}

void admission::close() noexcept {
  stop();
  {
    const std::lock_guard lock{mutex_};
    kept_by_places_ = supplies_.occupied() > 0;
    if (kept_by_places_) {
      choose_ways();
      return;
    }
  }
  release_ref();
}

bool admission::may_go() noexcept {
  if (wake_armed_ && !time_->cancel(wake_up_)) {
    dying_ = true;
    return false;
  }
  wake_armed_ = false;
  return true;
}

void admission::let_go_of_context() noexcept {
  time_ = nullptr;
  delivery::let_go_of_context();
}

void admission::end_with_context() noexcept {
  suspended_list waiters;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = stopped_ = true;
    choose_ways();
    if (seat_ != nullptr) supplies_.shared()->withdraw(*seat_);
    std::ignore = time_->cancel(wake_up_);
    const auto take = [&](wait_node& n) {
      auto& w = static_cast<waiter&>(n);
      if (w.amounts_ != nullptr) drop_amounts(w);
      if (w.limit_ != nullptr) std::ignore = time_->cancel(*w.limit_);
      w.state_ = waiter::state::fresh;
      waiters.push(w);
    };
    while (wait_node* n = queue_.first_of_most_important()) {
      queue_.remove(*n);
      take(*n);
    }
    if (flows_ != nullptr) {
      flows_->for_each([&](wait_node& n) {
        flows_->remove(n);
        take(n);
      });
    }
    has_waiters_.store(false, std::memory_order_relaxed);
    waiters.append(take_all());
    time_ = nullptr;
  }
  // The waiting coroutines are destroyed without the lock, because their frames may own permits, handles of other
  // waiters, and the handle of this engine.
  while (suspended* s = waiters.pop()) s->destroy();
  // The destructor of a strand's executor uses the execution context. So this engine destroys its executor while the
  // context exists.
  const std::lock_guard lock{mutex_};
  let_go_of_context();
}

}  // namespace canigo::detail
