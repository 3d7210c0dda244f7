#include "canigo/detail/policy/policy_core.hpp"

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/coro/retry_plan.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/policy.hpp"
#include "canigo/time_source.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <typeinfo>
#include <utility>

namespace canigo::detail {
namespace {

void check_more_than_0(const char* field, const std::optional<duration>& d) {
  if (d && *d <= duration::zero()) throw_invalid(field, *d, "more than 0");
}

const policy_options& checked(const policy_options& o) {
  check_more_than_0("policy_options.timeout", o.timeout);
  check_more_than_0("policy_options.attempt_timeout", o.attempt_timeout);
  if (o.hedge && o.hedge->group != nullptr) {
    throw_invalid("policy_options.hedge.group", "a group", "null: a policy awaits the copies that lost");
  }
  if (o.adaptive && o.limits && o.adaptive->priorities != o.limits->priorities) {
    throw_invalid("policy_options.adaptive.priorities", o.adaptive->priorities,
                  std::to_string(o.limits->priorities) + ", as those of the limits");
  }
  return o;
}

/// If a call misses its caller's deadline, the callee counts as too slow only if the call's operations ran for a
/// minimum time. Returns this minimum time.
duration blamed_from(const policy_options& o) noexcept {
  duration least = duration::max();
  if (o.timeout) least = std::min(least, *o.timeout / 2);
  if (o.attempt_timeout) least = std::min(least, *o.attempt_timeout / 2);
  if (o.breaker) least = std::min(least, o.breaker->slow);
  return least == duration::max() ? duration::zero() : least;
}

template <class Options>
Options named(Options o, const std::string& name) {
  if (o.name.empty()) o.name = name;
  return o;
}

bool has_places(const policy_options& o) noexcept {
  return o.adaptive || (o.limits && (o.limits->share || o.limits->concurrency < unlimited));
}

std::error_code code_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    return e.code();
  } catch (...) {
    return {};
  }
}

/// Thrown if an attempt gets no slot of the adaptive limit in time for the call's deadline. Functions around the
/// attempt, such as retry(), treat the error like a cancellation, so they make no further attempt.
class too_late final : public error_at {
 public:
  explicit too_late(const std::string& place) : error_at{net::error::operation_aborted, place} {}
};

/// Returns where a call was when its deadline passed, such as "in the queue of crm"; an empty text if that is unknown.
/// Returns std::nullopt if the error has a more specific type, whose text already tells more.
std::optional<std::string> place_of_timeout(const std::exception_ptr& error, bool is_own) {
  try {
    std::rethrow_exception(error);
  } catch (const error_at& e) {
    if (is_own || typeid(e) == typeid(error_at)) return std::string{e.place()};
  } catch (const std::system_error& e) {
    if (typeid(e) == typeid(std::system_error)) return std::string{};
  }
  return std::nullopt;
}

bool is_too_late(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const too_late&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

/// The statistics of a policy. Also owns the retry budget, the hedge budget and the latency window that the policy
/// creates if its options do not name one.
struct policy_core::account {
  std::optional<canigo::retry_budget> retry_budget;
  std::optional<canigo::retry_budget> hedge_budget;
  std::optional<latency_window> window;

  mutable mutex lock;
  policy_stats counts;
  std::size_t self_waits = 0;  // the number of slots held by operations that wait for another slot of the same policy
  bool is_stopped = false;     // whether the policy was stopped; if so, calls end instead of waiting
};

policy_core::policy_core(const net::any_io_executor& executor, const policy_options& options)
    : account_{std::make_unique<account>()},
      name{printable(options.name)},
      timeout{checked(options).timeout},
      attempt_timeout{options.attempt_timeout},
      blamed_from{detail::blamed_from(options)},
      hedge{options.hedge},
      retry{options.retry},
      has_places{detail::has_places(options)},
      share_{options.limits ? options.limits->share : std::nullopt} {
  if (options.breaker) breaker.emplace(executor, named(*options.breaker, options.name));
  if (options.adaptive) adaptive.emplace(executor, named(*options.adaptive, options.name));
  if (options.limits) limits.emplace(executor, named(*options.limits, options.name));
  if (retry) {
    if (retry->budget == nullptr) retry->budget = &account_->retry_budget.emplace();
    if (!retry->retry_if) {
      retry->retry_if = [](const std::exception_ptr& error) { return is_failure_of_callee(error); };
    }
    const retry_plan plan{*retry, time_point::max()};  // the constructor throws if a field is out of range
  }
  if (hedge) {
    if (hedge->budget == nullptr) hedge->budget = &account_->hedge_budget.emplace(hedge_budget);
    if (hedge->window == nullptr && hedge->after.is_quantile()) hedge->window = &account_->window.emplace();
    check(*hedge);
  }
}

policy_core::~policy_core() = default;

void policy_core::stop() noexcept {
  {
    const std::lock_guard lock{account_->lock};
    account_->is_stopped = true;
  }
  if (adaptive) adaptive->stop();
  if (limits) limits->stop();
}

policy_stats policy_core::stats() const noexcept {
  const std::lock_guard lock{account_->lock};
  return account_->counts;
}

std::size_t policy_core::places() const {
  std::uint64_t most = unlimited;
  const auto holds = [](const auto& limit) { return limit && limit->mode() == enforcement::enforce; };
  if (holds(adaptive)) most = std::min(most, adaptive->limit());
  if (share_) most = std::min(most, share_->permits());
  if (holds(limits)) most = std::min(most, limits->stats().concurrency);
  return static_cast<std::size_t>(most);
}

/// Marks the executor of an operation that holds a slot of the policy. The policy's lock guards the members.
struct operation_mark final : executor_mark {
  operation_mark(const policy_core* policy, const net::any_io_executor& executor, std::shared_ptr<operation_mark> o)
      : executor_mark{policy, executor}, outer{std::move(o)} {}
  /// Returns the mark of the innermost operation of `policy` that `executor` belongs to; null if there is none.
  static std::shared_ptr<operation_mark> around(const net::any_io_executor& executor, const policy_core& policy) {
    return std::static_pointer_cast<operation_mark>(mark_of(executor, &policy));
  }
  bool keep() noexcept override {
    // If the count of holders is 0, another thread may be giving the slot back. So the count must not rise from 0.
    std::size_t holders = holders_.load(std::memory_order_relaxed);
    while (holders > 0) {
      if (holders_.compare_exchange_weak(holders, holders + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void let_go() noexcept override {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) place.release();
  }

  // The mark of the enclosing operation: the operation of the same policy inside which this operation runs; null: none.
  const std::shared_ptr<operation_mark> outer;
  bool is_running = true;
  std::size_t waits = 0;  // the number of calls inside this operation that wait for a slot of the same policy
  permit place;

 private:
  // how many objects hold the slot: the operation itself until it ends, and each kept_places object that has called
  // keep()
  atomic<std::size_t> holders_{1};
};

policy_call::policy_call(policy_core& core, const net::any_io_executor& executor, const request& r)
    : core_{core},
      outer_{core.has_places ? operation_mark::around(executor, core) : nullptr},
      time_{time_source::of(executor)},
      since_{time_.now()},
      request_{r} {
  if (core.timeout) {
    const time_point end = saturating_add(since_, *core.timeout);
    if (end < request_.deadline) request_.deadline = end;
  }
  const std::lock_guard lock{core_.account_->lock};
  ++core_.account_->counts.under_way;
}

policy_call::~policy_call() { end(&policy_stats::cancelled); }

void policy_call::enter() {
  if (core_.breaker) pass_ = core_.breaker->enter();
}

policy_call::operation::operation(policy_call& call, const net::any_io_executor& executor)
    : call_{call},
      mark_{call.core_.has_places ? std::make_shared<operation_mark>(&call.core_, executor, call.outer_) : nullptr},
      number{call.begin_operation()} {}

net::any_io_executor policy_call::operation::executor() const { return marked_executor{mark_}; }

policy_call::operation::~operation() {
  call_.end_operation();
  if (!mark_) return;
  {
    const std::lock_guard lock{call_.core_.account_->lock};
    mark_->is_running = false;
    if (mark_->waits > 0) --call_.core_.account_->self_waits;
  }
  mark_->let_go();
}

void policy_call::operation::hold(permit p) noexcept { (mark_ ? mark_->place : permit_) = std::move(p); }

policy_call::wait::wait(policy_call& call) : call_{call} {
  if (!call.outer_) return;
  policy_core& core = call.core_;
  const std::size_t places = core.places();
  const std::lock_guard lock{core.account_->lock};
  if (core.account_->is_stopped) return;
  std::size_t depth = 0;
  std::size_t more = 0;
  // The loop goes from the innermost operation outwards, and stops at an operation that has ended. This call has
  // outlived that operation, so the operations around that operation do not wait for this call.
  for (auto* m = call.outer_.get(); m != nullptr && m->is_running; m = m->outer.get(), ++depth) {
    if (m->waits == 0) ++more;
  }
  if (depth > 0 && core.account_->self_waits + more >= places) {
    throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur),
                            "policy::run inside an operation of the same policy: the operations of all " +
                                std::to_string(places) + " places would wait for a place"};
  }
  for (auto* m = call.outer_.get(); depth_ < depth; m = m->outer.get(), ++depth_) ++m->waits;
  core.account_->self_waits += more;
}

policy_call::wait::~wait() {
  if (depth_ == 0) return;
  const std::lock_guard lock{call_.core_.account_->lock};
  for (auto* m = call_.outer_.get(); depth_ > 0; m = m->outer.get(), --depth_) {
    if (--m->waits == 0 && m->is_running) --call_.core_.account_->self_waits;
  }
}

std::uint32_t policy_call::begin_operation() noexcept {
  if (operations_ == 0) pass_.begin();
  if (running_++ == 0) running_since_ = time_.now();
  return ++operations_;
}

void policy_call::end_operation() noexcept {
  if (--running_ == 0) had_ += time_between(running_since_, time_.now());
}

time_point policy_call::latest_start() const noexcept {
  if (request_.deadline == time_point::max()) return time_point::max();
  const duration left = time_between(time_.now(), request_.deadline);
  return request_.deadline - std::min(core_.adaptive->latency() * 2, left / 2);
}

void policy_call::throw_too_late(const std::system_error& e) {
  const auto* where = dynamic_cast<const error_at*>(&e);
  throw too_late{where != nullptr ? std::string{where->place()} : std::string{}};
}

void policy_call::succeeded() noexcept {
  pass_.succeeded();
  end(&policy_stats::succeeded);
}

std::exception_ptr policy_call::failed(std::exception_ptr error, bool is_cancelled) noexcept {
  const std::error_code code = code_of(error);
  const time_point now = time_.now();
  const bool never_started = is_too_late(error);
  const bool is_late = never_started || (code == errc::timed_out && now >= request_.deadline);
  if (is_cancelled) {
    end(&policy_stats::cancelled);
  } else if (is_late) {
    // The callee was too slow if it had at least half of the call's time, and at least `blamed_from`. If the callee had
    // less time, the caller's deadline may have been too short.
    const duration waited = time_between(since_, now) - had_;
    if (operations_ > 0 && had_ >= waited && had_ >= core_.blamed_from) pass_.failed();
    error = late(error, never_started, waited);
    end(&policy_stats::timed_out);
  } else if (operations_ > 0) {
    pass_.failed_with(error);
    end(&policy_stats::failed);
  } else {
    end(core_.breaker && !pass_ && code == errc::circuit_open ? &policy_stats::circuit_open : &policy_stats::refused);
  }
  pass_ = {};
  return error;
}

std::exception_ptr policy_call::late(const std::exception_ptr& error, bool never_started,
                                     duration waited) const noexcept {
  try {
    const auto place = place_of_timeout(error, never_started);
    if (!place) return error;
    const auto rounded = [](duration d) { return to_string(std::chrono::round<std::chrono::milliseconds>(d)); };
    std::string text = core_.name.empty() ? "policy" : "policy " + core_.name;
    text += ": " + rounded(waited) + " of waits, " + rounded(had_) + " of operations";
    if (!place->empty()) text += ", ended " + *place;
    return std::make_exception_ptr(error_at{make_error_code(errc::timed_out), text});
  } catch (const std::bad_alloc&) {
    return to_exception(errc::timed_out);
  }
}

void policy_call::end(std::uint64_t policy_stats::* outcome) noexcept {
  if (std::exchange(has_ended_, true)) return;
  const duration took = time_between(since_, time_.now());
  const std::lock_guard lock{core_.account_->lock};
  policy_stats& s = core_.account_->counts;
  --s.under_way;
  ++(s.*outcome);
  s.operations += operations_;
  if (outcome == &policy_stats::succeeded) s.took.record(took);
}

}  // namespace canigo::detail
