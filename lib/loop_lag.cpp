#include "canigo/loop_lag.hpp"

#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo {

/// The engine of a loop_lag. When the alarm rings, `delivery` posts a function to the executor, like any handler. The
/// delay until the function runs is the lag.
class detail::lag_probe final : public delivery {
 public:
  static lag_probe* open(const net::any_io_executor& executor, loop_lag_options options) {
    auto* p = new lag_probe{executor, std::move(options)};
    p->join();
    const change c{*p};
    p->wait();
    return p;
  }

  void stop() noexcept {
    const change c{*this};
    is_stopped_ = true;
    if (!context_gone_) alarm_.disarm();
  }

  void close() noexcept {
    stop();
    release_ref();
  }

  loop_lag_stats stats() const noexcept {
    const std::lock_guard lock{mutex_};
    loop_lag_stats s = stats_;
    s.last = lag();
    s.overloaded = s.last >= options_.threshold;
    return s;
  }

  bool is_overloaded() const noexcept {
    const std::lock_guard lock{mutex_};
    return lag() >= options_.threshold;
  }

 private:
  /// The measurement, in the form of a suspended caller. When `delivery` resumes this caller on the executor, looked()
  /// reads the clock.
  struct look final : suspended {
    explicit look(lag_probe& p) noexcept : owner{&p} {}
    void resume() override { owner->looked(); }
    void post() override {}
    void destroy() noexcept override {}
    lag_probe* owner;
  };

  lag_probe(const net::any_io_executor& executor, loop_lag_options options)
      : delivery{executor},
        options_{std::move(options)},
        look_{*this},
        alarm_{*this, [](delivery& d, engine_alarm&) noexcept { static_cast<lag_probe&>(d).rang(); }} {}
  ~lag_probe() override = default;

  void end_with_context() noexcept override {
    const std::lock_guard lock{mutex_};
    context_gone_ = is_stopped_ = true;
    alarm_.disarm();
    take_all();
    time_ = nullptr;
    delivery::let_go_of_context();
  }
  void let_go_of_context() noexcept override {
    time_ = nullptr;
    delivery::let_go_of_context();
  }

  void wait() noexcept {
    due_ = saturating_add(time_->now(), options_.interval);
    alarm_.arm(due_);
  }

  void rang() noexcept {
    if (!is_stopped_) make_ready(look_, true);
  }

  /// Ends a measurement. Runs on the executor.
  void looked() {
    bool is_changed = false;
    duration late{};
    {
      const change c{*this};
      if (is_stopped_) return;
      late = stats_.last = time_between(due_, clock());
      stats_.lag.record(late);
      is_changed = (late >= options_.threshold) != stats_.overloaded;
      if (is_changed) {
        stats_.overloaded = !stats_.overloaded;
        if (stats_.overloaded) ++stats_.overloads;
      }
      wait();
    }
    if (is_changed && options_.on_change) options_.on_change(late >= options_.threshold, late);
  }

  /// Returns the longer of two times: the lag of the last measurement, and the time by which the next measurement is
  /// already late. After a stop, returns the lag of the last measurement.
  duration lag() const noexcept { return is_stopped_ ? stats_.last : std::max(stats_.last, clock() - due_); }

  const loop_lag_options options_;
  look look_;
  engine_alarm alarm_;
  time_point due_{};  // when the next measurement is due
  bool is_stopped_ = false;
  loop_lag_stats stats_;
};

namespace {

loop_lag_options checked(loop_lag_options o) {
  if (o.interval < std::chrono::milliseconds{1}) {
    detail::throw_invalid("loop_lag_options.interval", o.interval, "1ms or more");
  }
  if (o.threshold < duration{1}) detail::throw_invalid("loop_lag_options.threshold", o.threshold, "1ns or more");
  return o;
}

}  // namespace

loop_lag::loop_lag(const net::any_io_executor& executor, loop_lag_options options)
    : probe_{detail::lag_probe::open(executor, checked(std::move(options)))} {}

loop_lag::~loop_lag() { probe_->close(); }

bool loop_lag::is_overloaded() const noexcept { return probe_->is_overloaded(); }

loop_lag_stats loop_lag::stats() const noexcept { return probe_->stats(); }

void loop_lag::stop() noexcept { probe_->stop(); }

}  // namespace canigo
