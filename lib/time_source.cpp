#include "canigo/time_source.hpp"

#include "canigo/error.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace canigo {

net::execution_context::id time_source::id;

struct time_source::on_timer {
  using allocator_type = detail::fixed_allocator<void, 128>;
  allocator_type get_allocator() const noexcept { return allocator_type{source->wait_memory_}; }
  void operator()(std::error_code = {}) const noexcept { source->timer_fired(); }
  time_source* source;

  class end;
};

/// This service is shut down before Asio's timers. Its shutdown() sets `is_shut_down_`, so that no thread uses the
/// timers any more. A context shuts down its services in reverse order of their creation. If the time source has
/// created Asio's timers, the timers are shut down before the time source. So this extra service is created after the
/// timers.
class time_source::on_timer::end : public net::execution_context::service {
 public:
  using key_type = end;
  static net::execution_context::id id;

  explicit end(net::execution_context& context) : service{context}, source_{net::use_service<time_source>(context)} {}

 private:
  void shutdown() override {
    const std::lock_guard lock{source_.mutex_};
    source_.is_shut_down_ = true;
    source_.timer_.reset();
  }

  time_source& source_;
};

net::execution_context::id time_source::on_timer::end::id;

struct time_source::on_quiet {
  using allocator_type = detail::fixed_allocator<void, 128>;
  allocator_type get_allocator() const noexcept { return allocator_type{source->quiet_memory_}; }
  void operator()() const noexcept { source->let_go_when_quiet(); }
  time_source* source;
};

time_source::time_source(net::execution_context& context) : service{context}, wheel_{detail::steady_now()} {}

time_source::~time_source() = default;

time_source& time_source::of(const net::any_io_executor& executor) {
  auto& source = net::use_service<time_source>(net::query(executor, net::execution::context));
  source.attach(executor);
  return source;
}

void time_source::attach(const net::any_io_executor& executor) {
  const std::lock_guard lock{mutex_};
  if (!executor_ && !is_shut_down_) executor_ = detail::context_executor(executor);
}

bool time_source::arm(deadline& d, time_point when) noexcept {
  const std::lock_guard lock{mutex_};
  if (is_shut_down_) return false;
  if (d.linked()) wheel_.remove(d);
  wheel_.insert(d, when);
  if (!is_virtual_) wake_by_next();
  return true;
}

bool time_source::cancel(deadline& d) noexcept {
  const std::lock_guard lock{mutex_};
  if (!d.linked()) return false;
  wheel_.remove(d);
  // An armed timer keeps run() from returning. Cancelling it now takes 1 µs, which is wasted if the loop soon sets
  // another deadline. So the timer stays armed for one more turn of the loop.
  if (wheel_.empty() && waiting_ && !retiming_ && !quieting_) {
    quieting_ = true;
    try {
      detail::post(executor_, on_quiet{this});
    } catch (...) {
      quieting_ = false;
      stop_waiting();
    }
  }
  return true;
}

bool time_source::idle() const noexcept {
  const std::lock_guard lock{mutex_};
  return wheel_.empty();
}

void time_source::wake_by_next() noexcept {
  const time_point next = wheel_.next();
  if (waiting_) {
    // Only one timer wait may run at a time, because all waits use one fixed block of memory. So this function cancels
    // the running wait, whose handler starts the next wait.
    if (next < wake_at_) stop_waiting();
    return;
  }
  wake_at_ = next;
  // If `next` has already passed, a post wakes the loop, which takes 25 ns. An expired timer would need a turn of the
  // reactor, which takes 4 µs. If there is no memory for a timer, repeated posts check the clock until there is memory.
  waiting_ = (next <= now() && wake_by_post()) || wake_by_timer() || wake_by_post();
}

bool time_source::wake_by_timer() noexcept {
  try {
    if (!timer_) {
      net::steady_timer made{executor_};
      net::use_service<on_timer::end>(context());
      timer_.emplace(std::move(made));
    }
    timer_->expires_at(wake_at_);
    timer_->async_wait(on_timer{this});
    return true;
  } catch (...) {
    return false;
  }
}

bool time_source::wake_by_post() noexcept {
  try {
    detail::post(executor_, on_timer{this});
    return true;
  } catch (...) {
    return false;
  }
}

void time_source::stop_waiting() noexcept {
  if (retiming_) return;
  retiming_ = true;
  if (timer_) timer_->cancel();
}

void time_source::timer_fired() noexcept {
  time_point due;
  {
    const std::lock_guard lock{mutex_};
    waiting_ = false;
    retiming_ = false;
    due = std::exchange(wake_at_, time_point::max());
  }
  // Asio's timer uses the system's clock. The clock that counts processor ticks may be behind the system's clock, and
  // may not have reached `due` yet. look() sets the tick clock to the system's clock.
  if (now() < due && !is_virtual_) detail::processor_clock.look();
  fire(now());
  const std::lock_guard lock{mutex_};
  if (!wheel_.empty()) wake_by_next();
}

void time_source::let_go_when_quiet() noexcept {
  const std::lock_guard lock{mutex_};
  quieting_ = false;
  if (wheel_.empty() && waiting_) stop_waiting();
}

void time_source::fire(time_point now) noexcept {
  for (;;) {
    deadline* d = nullptr;
    {
      const std::lock_guard lock{mutex_};
      d = static_cast<deadline*>(wheel_.pop(now));
    }
    if (d == nullptr) return;
    d->function_(*d, due::expired);
  }
}

void time_source::shutdown() {
  {
    const std::lock_guard lock{mutex_};
    is_shut_down_ = true;
  }
  for (;;) {
    deadline* d = nullptr;
    {
      const std::lock_guard lock{mutex_};
      d = static_cast<deadline*>(wheel_.pop(time_point::max()));
    }
    if (d == nullptr) break;
    d->function_(*d, due::shutdown);
  }
  timer_.reset();
  executor_ = {};
}

time_source_control::time_source_control(net::execution_context& context, time_point start)
    : source_{net::use_service<time_source>(context)} {
  if (source_.executor_ || source_.is_virtual_) {
    detail::throw_invalid("virtual_time: context", "in use by a canigo object",
                          "one without, so that all see the same time");
  }
  source_.is_virtual_ = true;
  std::destroy_at(&source_.wheel_);
  std::construct_at(&source_.wheel_, start);
  source_.virtual_now_ = start.time_since_epoch().count();
}

time_point time_source_control::next() const noexcept {
  const std::lock_guard lock{source_.mutex_};
  return source_.wheel_.empty() ? time_point::max() : source_.wheel_.next();
}

void time_source_control::advance(time_point now) noexcept {
  if (now > source_.now()) source_.virtual_now_ = now.time_since_epoch().count();
  source_.fire(source_.now());
}

}  // namespace canigo
