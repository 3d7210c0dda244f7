#include "canigo/detail/pool/pool_worker.hpp"

#include "canigo/detail/base/random.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <tuple>
#include <type_traits>

namespace canigo::detail {

namespace {

/// The coroutine of a parked worker, as a suspended caller. The coroutine can't be cancelled: to end it, the pool wakes
/// the worker.
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

pool_worker::pool_worker(pool_core& home, std::size_t index)
    : home_{&home},
      index_{index},
      strand_{worker_strand::make(home.executor(), this, &home)},
      context_{*this},
      wake_{*this},
      hand_over_{*this},
      cancel_{*this},
      rest_{*this} {}

pool_worker::rest_alarm::rest_alarm(pool_worker& w) noexcept
    : engine_alarm{*w.home_,
                   [](delivery&, engine_alarm& a) noexcept { static_cast<rest_alarm&>(a).worker->rest_is_over(); }},
      worker{&w} {}

void pool_worker::strand_call::destroy() noexcept { worker->home_->release_ref(); }

void pool_worker::wake_call::resume() {
  struct release {
    pool_core* core;
    ~release() { core->release_ref(); }
  };
  const release at_the_end{worker->home_};
  worker->woken();
}

void pool_worker::cancel_call::resume() {
  pool_core& core = *worker->home_;
  worker->cancel_now();
  core.release_ref();
}

void pool_worker::hand_over_call::resume() {
  try {
    worker->strand_->dispatch(worker->wake_);
  } catch (...) {
    worker->home_->post_later(worker->wake_);
  }
}

/// In a pool without resources, runs short operations directly. For all other work, resumes the worker's parked
/// coroutine.
void pool_worker::woken() {
  pool_turn* turn = pool_turn::here();
  const int most = turn != nullptr ? turn->tasks_left : pool_turn::most_tasks;
  tasks_left_ = most;
  bool is_done = false;
  if (!home_->resources_ && !is_retired()) {
    home_->work_off(*this, true);
    is_done = handed_ == nullptr && !is_retired();
  }
  if (!is_done) {
    suspended* s = nullptr;
    {
      const std::lock_guard lock{home_->mutex_};
      s = std::exchange(parked_, nullptr);
    }
    if (s != nullptr) s->resume();
  }
  // Reduces the number of tasks left in this turn by the number of tasks that ran, but at least by 1. The minimum is
  // for a long operation that has run alone, without suspending.
  if (turn != nullptr) turn->tasks_left -= std::max(1, most - tasks_left_);
}

void worker_end::operator()(pool_worker* w) const noexcept { w->gone(); }

void pool_worker::gone() noexcept { home_->gone(*this); }

worker_life pool_worker::live() noexcept {
  home_->add_ref();
  return worker_life{this};
}

void pool_worker::spawn() {
  worker_life life = live();
  strand_->spawn(main(), signal_.slot(), std::move(life));
}

/// The coroutine of a worker. In a pool without resources, two functions run short operations: woken(), and this
/// coroutine before it parks. See pool_core::work_off().
net::awaitable<void> pool_worker::main() {
  using step = pool_core::step;
  pool_task* t = nullptr;
  for (;;) {
    switch (home_->next_step(*this, t)) {
      case step::leave:
        co_return;
      case step::care:
        co_await care();
        break;
      case step::rest:
        co_await park();
        break;
      case step::work:
        if (home_->options_.observer != nullptr) home_->options_.observer->attempt_started(t->event());
        try {
          if (t->is_long()) {
            strand_->begins(mark());
            co_await t->start(context_);
          } else {
            t->call(context_);
          }
        } catch (...) {
          end_.caught(t->end_cause());
        }
        // The cancellation of one operation must not reach the next one.
        co_await net::this_coro::reset_cancellation_state();
        co_await net::this_coro::throw_if_cancelled(true);
        break;
    }
  }
}

net::awaitable<void> pool_worker::park() {
  frame_room<256> room;
  co_await detail::park<>([this, &room](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    parked(*make_suspended_in<parked_worker>(room, h, home_->executor()));
  });
}

void pool_worker::parked(suspended& s) noexcept {
  {
    const pool_core::change c{*home_};
    if (!home_->context_gone_) {
      parked_ = &s;
      settle();
      if (is_retired()) wake();
      return;
    }
  }
  s.destroy();
}

/// Inspects how an operation ended. This function may call the user's code, such as a predicate.
void pool_worker::weigh(pool_task& t) noexcept {
  end_.weigh(home_->options_.restart, t.extras_);
  if (!end_.may_retry) t.drop();
}

void pool_worker::cancel() noexcept {
  if (cancelling_.ask(serial_)) home_->post_soon(cancel_);
}

/// Cancels the worker's operation. This function runs on the strand of the worker. Operations start and end on the same
/// strand, so no operation starts or ends during this call.
void pool_worker::cancel_now() noexcept {
  bool emits = false;
  {
    const std::lock_guard lock{home_->mutex_};
    emits = may_be_cancelled() && cancelling_.begin(serial_);
  }
  if (emits) {
    try {
      signal_.emit(net::cancellation_type::terminal);
    } catch (...) {
      const std::lock_guard lock{home_->mutex_};
      cancelling_.take_back();
    }
  }
  const pool_core::change c{*home_};
  cancelling_.end();
  if (!may_be_cancelled() || !cancelling_.is_for(serial_)) return;
  if (!cancelling_.has_reached(serial_)) return cancel();
  pool_task* t = current_;
  if (t == nullptr || t->is_told_ || t->extras_ == nullptr || !t->extras_->is_overdue(home_->time_->now())) return;
  if (cancelling_.is_ignored()) {
    home_->tell_early(*t);
  } else {
    cancel();
  }
}

/// Lets the parked worker sleep, unless there is a reason to stay awake. Called with the pool's lock held. Reasons to
/// stay awake, such as new work, arise only under this lock, so this check misses none of them.
void pool_worker::settle() noexcept {
  pool_core& core = *home_;
  if (is(state::leaving) || core.must_leave()) {
    retire();
  } else if (is(state::resting)) {
    return;
  } else if (core.backlog_.has_ready()) {
    wake();
  } else {
    if (core.backlog_.has_flows()) core.flows_.watch();
    core.crew_.sleep(*this);
    if (is_equipped()) note_idle();
  }
}

/// Called when the worker has failed. Either it restarts after a pause, or the pool stops.
void pool_worker::restart(const std::exception_ptr& cause) noexcept {
  pool_core& core = *home_;
  ++core.counts_.restarts;
  ++failures_;
  const time_point now = core.time_->now();
  if (core.restarts_.note(now)) {
    const duration pause = core.options_.restart.backoff.delay(failures_, next_random(core.random_));
    if (pause <= duration::zero()) return;
    core.crew_.rest(*this);
    rest_.arm(saturating_add(now, pause));
  } else if (!core.stop_.cancels()) {
    core.counts_.report.cause = cause;
    core.apply_stop(stop_mode::cancel_all);
  }
}

void pool_worker::end_rest() noexcept {
  home_->crew_.recover(*this);
  if (parked_ != nullptr) wake();
}

/// Called when a timer of the worker has expired: the pause before a restart, the time limit of a resource function, or
/// the max idle time of the resource.
void pool_worker::rest_is_over() noexcept {
  if (is(state::resting)) return end_rest();
  if (care_ != worker_resource::function::none) {
    is_overdue_ = true;
    return cancel();
  }
  if (!is(state::idle) || !is_equipped()) return;
  const time_point at = saturating_add(idle_since_, home_->resources_->idle_timeout);
  if (home_->time_->now() < at) {
    rest_.arm(at);
  } else if (home_->crew_.equipped() > home_->resources_->min_idle) {
    home_->crew_.unequip(*this);  // next_step() then makes the worker destroy its resource
    home_->crew_.wake(*this);
    wake();
  }
}

/// Ends the worker permanently: it gets no more operations.
void pool_worker::retire() noexcept {
  rest_.disarm();
  home_->crew_.retire(*this);
  home_->end_hopeless_wait();
}

void pool_worker::note_idle() noexcept {
  const duration most = home_->resources_->idle_timeout;
  if (most == duration::max()) return;
  idle_since_ = home_->time_->now();
  if (!rest_.is_armed()) rest_.arm(saturating_add(idle_since_, most));
}

/// Called before the resource function `f` (such as make or check) is called. Starts the time limit of that call.
void pool_worker::begin_care(worker_resource::function f) noexcept {
  if (care_ == worker_resource::function::none) {
    if (!is(state::leaving)) home_->crew_.repair(*this);
    home_->hold_loop();
  }
  care_ = f;
  if (f == worker_resource::function::destroy) home_->crew_.unequip(*this);
  ++serial_;
  is_overdue_ = false;
  rest_.disarm();
  const duration most = home_->resources_->call_timeout;
  if (most != duration::max()) rest_.arm(saturating_add(home_->time_->now(), most));
}

/// Calls the resource function that is due, such as make or check. If another function is due when the first one ends,
/// calls that function, too.
net::awaitable<void> pool_worker::care() {
  using enum worker_resource::function;
  pool_resources& functions = *home_->resources_;
  while (care_ != none) {
    std::exception_ptr error;
    try {
      if (care_ == make) {
        resource_.set(co_await functions.make());
      } else if (care_ == check) {
        if (!co_await functions.check(resource_.get())) throw fatal_error{"the check of a resource failed"};
      } else if (care_ == reset) {
        co_await functions.reset(resource_.get());
      } else {
        co_await functions.destroy(resource_.take());
      }
    } catch (...) {
      error = std::current_exception();
    }
    co_await net::this_coro::reset_cancellation_state();
    co_await net::this_coro::throw_if_cancelled(true);
    end_care(std::move(error));
  }
}

/// Called when a resource function (such as make or check) has returned, or has thrown `error`.
void pool_worker::end_care(std::exception_ptr error) noexcept {
  if (error) {
    const auto is_overdue = [this] {
      const std::lock_guard lock{home_->mutex_};
      return is_overdue_;
    };
    try {
      if (is_overdue()) throw std::system_error{make_error_code(errc::timed_out), worker_resource::name_of(care_)};
    } catch (...) {
      error = std::current_exception();
    }
  }
  const pool_core::change c{*home_};
  if (care_ == worker_resource::function::make && !error) home_->crew_.equip(*this);
  const auto next = resource_.after(care_, std::move(error));
  if (next != worker_resource::function::none) return begin_care(next);
  care_ = next;
  rest_.disarm();
  is_overdue_ = false;
  if (is(state::repairing)) home_->crew_.recover(*this);
  home_->release_loop();
  if (const auto e = resource_.take_failure(); e && home_->stop_.tries_again()) restart(e);
}

}  // namespace canigo::detail
