#pragma once

#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/this_coro.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace torture {

namespace net = canigo::net;

class stage;

/// A disturbance of a scenario while it runs.
class torment {
 public:
  virtual ~torment() = default;
  /// Called before the scenario. Between begin() and end(), allocations may fail.
  virtual void begin(stage&) {}
  virtual void end(stage&) {}
  /// Called between handlers, after jumps of time, and between steps of the scenario.
  virtual void at_moment(stage&) {}
};

/// The exception that ends a scenario which is abandoned with all its running operations.
struct abandoned {};
/// The exception that handlers and functions of scenarios throw.
struct thrown : std::exception {};

/// Counts how often callers were started and told. It outlives the stage.
struct tally {
  int started = 0;
  int ended = 0;
  int called_twice = 0;
  int dropped = 0;  // handlers that were destroyed without a call
};

/// The environment of a scenario. Coroutines are started before it runs, because Asio's co_spawn would end the program
/// without memory. All later allocations may fail.
class stage {
 public:
  stage(tally& counts, torment& by) : counts_{counts}, torment_{&by} {}
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  net::io_context& io() noexcept { return *context_; }
  canigo::time_point now() const noexcept { return clock_.now(); }

  /// Starts a coroutine that first sleeps, so that its work happens during the scenario.
  template <class Body>
  void spawn(Body body) {
    net::cancellation_signal& s = next_signal();
    ++counts_.started;
    net::co_spawn(io(), play_body(std::move(body), ticket{counts_}),
                  net::bind_cancellation_slot(s.slot(), net::detached));
    settle();
  }

  /// Returns a handler that counts its calls. `then` may throw.
  template <class Then>
  auto handler(Then then) {
    net::cancellation_signal& s = next_signal();
    ++counts_.started;
    return net::bind_cancellation_slot(s.slot(), [w = witness{counts_}, then = std::move(then)](auto&&...) mutable {
      ++w.called;
      then();
    });
  }
  auto handler() {
    return handler([] {});
  }

  /// Sets how the objects on the stage are stopped.
  void can_stop(std::function<void(canigo::stop_mode)> f) { stops_.push_back(std::move(f)); }

  /// Runs the steps of the scenario. A step that throws for lack of memory counts as not taken.
  template <class... Steps>
  void play(Steps... steps) {
    const curtain until_the_end{*this};
    (attempt(steps), ...);
  }

  /// Runs the loop and the clock for this time, handler by handler.
  void pass(canigo::duration d);
  /// Runs until no handler is ready or due.
  void settle();

  void expect(bool ok, const char* what) {
    if (!ok && wrong_.empty()) wrong_ = what;
  }
  void expect_all_ended();
  void expect_conserved(const canigo::queue_stats& s);
  /// Checks that no token is lost: after a long time the bucket is exactly full.
  void expect_full(canigo::scheduler& s, std::uint64_t burst);
  void expect_at_rest(const canigo::pool_stats& s);
  const std::string& wrong() const noexcept { return wrong_; }

  /// Excludes Asio's allocations for strands and frames from failing, because a strand does not survive that.
  void spare_aligned() noexcept { spares_aligned_ = true; }
  bool spares_aligned() const noexcept { return spares_aligned_; }
  /// Excludes all allocations of this scenario from failing, because it calls co_spawn.
  void spare_memory() noexcept { spares_memory_ = true; }
  bool spares_memory() const noexcept { return spares_memory_; }
  /// Declares that the scenario owns objects which must not outlive the context.
  void needs_context() noexcept { needs_context_ = true; }
  bool can_lose_context() const noexcept { return !needs_context_; }

  // Only disturbances call the following functions.
  std::size_t signals() const noexcept { return used_signals_; }
  void cancel(std::size_t signal, net::cancellation_type type) { signals_[signal].emit(type); }
  void stop(canigo::stop_mode mode) {
    was_stopped_ = true;
    for (const auto& f : stops_) f(mode);
  }
  void destroy_context() { context_.reset(); }

 private:
  /// Counts the end of a caller: its frame must be destroyed exactly once.
  class ticket {
   public:
    explicit ticket(tally& t) noexcept : tally_{&t} {}
    ticket(ticket&& other) noexcept : tally_{std::exchange(other.tally_, nullptr)} {}
    ticket& operator=(ticket&&) = delete;
    ~ticket() {
      if (tally_ != nullptr) ++tally_->ended;
    }

   private:
    tally* tally_;
  };
  struct witness {
    explicit witness(tally& t) noexcept : of{&t} {}
    witness(witness&& other) noexcept : of{std::exchange(other.of, nullptr)}, called{other.called} {}
    witness& operator=(witness&&) = delete;
    ~witness() {
      if (of == nullptr) return;
      ++of->ended;
      of->dropped += called == 0 ? 1 : 0;
      of->called_twice += called > 1 ? 1 : 0;
    }
    tally* of;
    int called = 0;
  };
  /// Exists while the scenario runs. Its constructor and destructor begin and end the disturbance.
  struct curtain {
    explicit curtain(stage& s) : of{s} {
      of.is_playing_ = true;
      of.torment_->begin(of);
    }
    ~curtain() {
      of.torment_->end(of);
      of.is_playing_ = false;
    }
    stage& of;
  };

  template <class Body>
  static net::awaitable<void> play_body(Body body, ticket) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    try {
      co_await canigo::sleep_for(std::chrono::milliseconds{1});
      co_await body();
    } catch (const std::exception&) {
    }
  }

  template <class Step>
  void attempt(Step& step) {
    try {
      step();
    } catch (const std::bad_alloc&) {
      ++refused_;
    }
    moment();
  }

  net::cancellation_signal& next_signal();
  void moment();
  bool advance(canigo::time_point until);

  tally& counts_;
  torment* torment_;
  // declared here, because the signals must outlive the operations that they cancel
  std::array<net::cancellation_signal, 24> signals_;
  std::size_t used_signals_ = 0;
  std::unique_ptr<net::io_context> context_ = std::make_unique<net::io_context>(1);
  canigo::time_source_control clock_{*context_, canigo::time_point{}};
  std::vector<std::function<void(canigo::stop_mode)>> stops_;
  int refused_ = 0;  // the number of steps that threw
  bool is_playing_ = false;
  bool spares_aligned_ = false;
  bool spares_memory_ = false;
  bool needs_context_ = false;
  bool was_stopped_ = false;
  std::string wrong_;
};

/// The steps of a scenario, and the conditions that must hold afterwards under all disturbances.
struct scenario {
  const char* name;
  void (*play)(stage&);
};

std::vector<scenario> scenarios_of_limits();
std::vector<scenario> scenarios_of_handlers();
std::vector<scenario> scenarios_of_time();
std::vector<scenario> scenarios_of_pools();
std::vector<scenario> scenarios_of_resources();
std::vector<scenario> scenarios_of_what_is_around();
std::vector<scenario> scenarios_of_channels();

}  // namespace torture
