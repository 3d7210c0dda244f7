// How the workers of a pool come and go, sleep and wake, break and start again.

#include "canigo/detail/base/random.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace canigo::detail {

namespace {

/// A worker's coroutine that is parked. It heeds no cancellation: the worker is woken instead.
class parked_worker : public suspended {
 public:
  explicit parked_worker(const net::any_io_executor& executor) noexcept : executor_{executor} {}
  using results = std::tuple<>;
  results take_results() noexcept { return {}; }
  void abandon() noexcept {}
  const net::any_io_executor& home_executor() const noexcept { return executor_; }

 protected:
  ~parked_worker() = default;

 private:
  const net::any_io_executor& executor_;
};

}  // namespace

// ---- sleeping and waking --------------------------------------------------------------------------------------------

void pool_core::wake(pool_worker& w) noexcept {
  if (runs_on_io_context_) {
    add_ref();
    make_ready(w.hand_over_, true);
  } else {
    post_soon(w.wake_);
  }
}

void pool_core::to_idle(pool_worker& w) noexcept {
  // The one that worked last goes first, as its memory is warm and the others may lose their resources; but one that
  // would have to make a resource goes last.
  const bool goes_last = resources_ && w.resource_ == nullptr;
  crew_.sleep(w, !goes_last);
  if (w.resource_ != nullptr && resources_->idle_timeout != duration::max()) {
    w.idle_since_ = time_->now();
    if (!w.rest_.is_armed()) w.rest_.arm(saturating_add(w.idle_since_, resources_->idle_timeout));
  }
}

/// One signal per event: the worker leaves the list now, so that the next event wakes another one.
void pool_core::wake_one() noexcept {
  if (crew_member* m = crew_.first_idle()) {
    crew_.wake(*m);
    wake(static_cast<pool_worker&>(*m));
  }
}

void pool_core::wake_all() noexcept {
  while (crew_member* m = crew_.first_idle()) {
    static_cast<pool_worker&>(*m).rest_.disarm();
    wake_one();
  }
  for (const auto& w : workers_) {
    if (w->is(pool_worker::state::resting)) end_rest(*w);
  }
}

/// Puts a parked worker to sleep, unless there is a reason not to, noted under the same lock under which work comes in.
void pool_core::settle(pool_worker& w) noexcept {
  if (w.is(pool_worker::state::leaving) || must_leave()) {
    leave(w);
  } else if (w.is(pool_worker::state::resting)) {
    return;
  } else if (!backlog_.queued().empty()) {
    wake(w);
  } else {
    to_idle(w);
  }
}

void pool_core::parked(pool_worker& w, suspended& s) noexcept {
  {
    const change c{*this};
    if (!context_gone_) {
      w.parked_ = &s;
      settle(w);
      if (w.is_retired_) wake(w);
      return;
    }
  }
  s.destroy();
}

net::awaitable<void> pool_core::park(pool_worker& w) {
  frame_room<256> room;
  co_await detail::park<>([this, &w, &room](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    parked(w, *make_suspended_in<parked_worker>(room, h, executor()));
  });
}

/// On the worker's strand, while its coroutine is parked.
void pool_core::woken(pool_worker& w) {
  pool_turn* turn = pool_turn::here();
  const int most = turn != nullptr ? turn->tasks_left : pool_turn::most_tasks;
  w.tasks_left_ = most;
  bool is_done = false;
  if (!resources_ && !w.is_retired_) {
    work_off(w, true);
    is_done = w.handed_ == nullptr && !w.is_retired_;
  }
  if (!is_done) {
    suspended* s = nullptr;
    {
      const std::lock_guard lock{mutex_};
      s = std::exchange(w.parked_, nullptr);
    }
    if (s != nullptr) s->resume();
  }
  // A long operation that has not suspended counts like a short one.
  if (turn != nullptr) turn->tasks_left -= std::max(1, most - w.tasks_left_);
}

// ---- coming and going -----------------------------------------------------------------------------------------------

void pool_core::resize(std::size_t concurrency) {
  if (concurrency < 1 || concurrency > 100'000)
    throw_invalid(std::string{options_.type}.append(".resize: concurrency"), concurrency, "1 to 100000");
  const context_visit here = visit();
  if (!here.lasts()) return;
  std::vector<std::unique_ptr<pool_worker>> made;
  std::size_t first = 0;
  {
    const std::lock_guard lock{mutex_};
    first = workers_.size();
  }
  for (std::size_t i = first; i < concurrency; ++i) made.push_back(std::make_unique<pool_worker>(*this, i));

  std::vector<pool_worker*> to_spawn;
  to_spawn.reserve(concurrency);
  {
    const change c{*this};
    if (mode_ != stop_mode{}) return;
    workers_.reserve(concurrency);
    for (auto& w : made) {
      if (w->index_ == workers_.size()) workers_.push_back(std::move(w));
    }
    crew_.want(concurrency);
    // Those go that have been idle for longest, or have no resource; and they go, whoever else is free before they are
    // woken.
    while (crew_.is_too_large() && crew_.last_idle() != nullptr) {
      auto& w = static_cast<pool_worker&>(*crew_.last_idle());
      w.rest_.disarm();
      crew_.wake(w);
      crew_.leave(w);
      wake(w);
    }
    keep_leavers();
    for (const auto& w : workers_) {
      if (!crew_.is_short()) break;
      if (!w->is(pool_worker::state::gone)) continue;
      crew_.join(*w);
      w->is_retired_ = false;
      to_spawn.push_back(w.get());
    }
    admit_held();
    end_hopeless_wait();
  }
  for (std::size_t i = 0; i < to_spawn.size(); ++i) {
    add_ref();
    try {
      spawn(*to_spawn[i]);
    } catch (...) {
      while (++i < to_spawn.size()) {
        add_ref();
        gone(*to_spawn[i]);
      }
      throw;
    }
  }
}

/// Those that were told to go and are on their way to do so stay where they are wanted again: first who has a resource.
void pool_core::keep_leavers() noexcept {
  for (const bool with_resource : {true, false}) {
    for (const auto& w : workers_) {
      if (!crew_.is_short()) return;
      if (!w->is(pool_worker::state::leaving) || w->is_retired_) continue;
      if ((w->resource_ != nullptr) == with_resource) crew_.stay(*w);
    }
  }
}

void pool_core::spawn(pool_worker& w) {
  life l{*this, w};
  w.strand_->spawn(main(std::move(l)), w.signal_.slot());
}

void pool_core::leave(pool_worker& w) noexcept {
  w.rest_.disarm();
  w.is_retired_ = true;
  if (!w.is(pool_worker::state::leaving)) crew_.leave(w);
  end_hopeless_wait();
}

/// Whether there are fewer workers than are wanted, and nobody has told them to leave.
bool pool_core::is_short_of_workers() const noexcept {
  return crew_.is_short() && !context_gone_ &&
         (mode_ == stop_mode{} || (mode_ == stop_mode::drain && backlog_.size() > 0));
}

void pool_core::replace_workers() noexcept {
  for (;;) {
    pool_worker* w = nullptr;
    {
      const std::lock_guard lock{mutex_};
      if (!is_short_of_workers()) return;
      for (const auto& other : workers_) {
        if (other->is(pool_worker::state::gone)) w = other.get();
      }
      if (w == nullptr) return;
      crew_.join(*w);
      w->is_retired_ = false;
    }
    add_ref();
    try {
      spawn(*w);
    } catch (...) {
      return;  // its end has noted that it is missed
    }
  }
}

/// The coroutine of a worker has ended, or its frame was destroyed.
void pool_core::gone(pool_worker& w) noexcept {
  pool_task* cut_off = nullptr;
  {
    const change c{*this};
    if (w.is(pool_worker::state::running)) {
      cut_off = w.current_;
      w.error_ = nullptr;
      self_waits_.disown(w);
    }
    if (cut_off != nullptr || w.is(pool_worker::state::repairing)) release_loop();
    if (w.resource_ != nullptr && !w.evict_) --made_;
    w.evict_ = false;
    w.rest_.disarm();
    w.current_ = nullptr;
    w.parked_ = nullptr;
    crew_.lose(w);
    // What it waited for has dropped it, or Asio had no memory to resume it.
    const bool is_missed = is_short_of_workers();
    if (is_missed) retry_soon();
    if (cut_off != nullptr && !cut_off->is_told_) {
      cut_off->add_ref();
      if (is_missed) {
        end(*cut_off, task_state::failed, pool_task::abandoned, nullptr);
      } else {
        end(*cut_off, task_state::stopped, static_cast<int>(errc::stopped), nullptr);
      }
    }
    check_closed();
    if (context_gone_) w.signal_.slot().clear();
  }
  if (cut_off != nullptr) cut_off->release_ref();
  if (w.resource_ != nullptr) resources_->discard(std::exchange(w.resource_, nullptr));
  release_ref();
}

// ---- supervision ----------------------------------------------------------------------------------------------------

void pool_core::restarted(pool_worker& w, const std::exception_ptr& cause) noexcept {
  ++counts_.restarts;
  ++w.failures_;
  if (!restarts_.note(time_->now())) {
    if (mode_ < stop_mode::cancel_all) {
      counts_.report.cause = cause;
      apply_stop(stop_mode::cancel_all);
    }
    return;
  }
  rest(w, options_.restart.backoff.delay(w.failures_, next_random(random_)));
}

void pool_core::rest(pool_worker& w, duration d) noexcept {
  if (d <= duration::zero()) return;
  crew_.rest(w);
  w.rest_.arm(saturating_add(time_->now(), d));
}

void pool_core::end_rest(pool_worker& w) noexcept {
  w.rest_.disarm();
  crew_.recover(w);
  if (w.parked_ != nullptr) wake(w);
}

/// Of a worker that waits to start again, of a call for its resource, or of a resource that nobody uses.
void pool_core::rest_is_over(pool_worker& w) noexcept {
  if (w.is(pool_worker::state::resting)) return end_rest(w);
  if (w.is(pool_worker::state::repairing) || w.is(pool_worker::state::leaving)) {
    w.is_overdue_ = true;
    return request_cancel(w);
  }
  if (!w.is(pool_worker::state::idle) || w.resource_ == nullptr) return;
  const time_point at = saturating_add(w.idle_since_, resources_->idle_timeout);
  if (time_->now() < at) {
    w.rest_.arm(at);
  } else if (made_ > resources_->min_idle) {
    --made_;
    w.evict_ = true;
    crew_.wake(w);
    wake(w);
  }
}

}  // namespace canigo::detail
