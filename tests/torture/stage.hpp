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

/// What is done to a scenario while it plays.
class torment {
 public:
  virtual ~torment() = default;
  /// From here to end() memory may be short.
  virtual void begin(stage&) {}
  virtual void end(stage&) {}
  /// Between any two handlers, jumps of time and steps of the scenario.
  virtual void at_moment(stage&) {}
};

/// Thrown through a scenario that is left where it is, with all that it has under way.
struct abandoned {};
/// What the handlers and functions of scenarios throw.
struct thrown : std::exception {};

/// How often anybody was told anything. Outlives the stage.
struct tally {
  int started = 0;
  int ended = 0;
  int called_twice = 0;
  int dropped = 0;  // handlers that were destroyed uncalled
};

/// What a scenario acts on. Coroutines are started before it plays, as Asio's own co_spawn would end the program where
/// it has no memory; what they, and all that is called from then on, need of the heap may fail.
class stage {
 public:
  stage(tally& counts, torment& by) : counts_{counts}, torment_{&by} {}
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  net::io_context& io() noexcept { return *context_; }
  canigo::time_point now() const noexcept { return clock_.now(); }

  /// A coroutine that sleeps first, so that what it does falls into the play.
  template <class Body>
  void spawn(Body body) {
    net::cancellation_signal& s = next_signal();
    ++counts_.started;
    net::co_spawn(io(), play_body(std::move(body), ticket{counts_}),
                  net::bind_cancellation_slot(s.slot(), net::detached));
    settle();
  }

  /// A handler for anything; notes how often it is called, and what it does then may throw.
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

  /// How what is on the stage is stopped, by whoever stops it.
  void can_stop(std::function<void(canigo::stop_mode)> f) { stops_.push_back(std::move(f)); }

  /// Takes the steps of the play. One that throws for want of memory is one that was not taken.
  template <class... Steps>
  void play(Steps... steps) {
    const curtain until_the_end{*this};
    (attempt(steps), ...);
  }

  /// Runs the loop and the clock for so long, handler by handler.
  void pass(canigo::duration d);
  /// The same until nothing is ready and nothing is due.
  void settle();

  void expect(bool ok, const char* what) {
    if (!ok && wrong_.empty()) wrong_ = what;
  }
  void expect_all_ended();
  void expect_conserved(const canigo::queue_stats& s);
  /// All tokens are where they belong: after a long time the bucket is exactly full.
  void expect_full(canigo::scheduler& s, std::uint64_t burst);
  void expect_at_rest(const canigo::pool_stats& s);
  const std::string& wrong() const noexcept { return wrong_; }

  /// Asio's own allocations for strands and frames do not fail: a strand of its does not survive that.
  void spare_aligned() noexcept { spares_aligned_ = true; }
  bool spares_aligned() const noexcept { return spares_aligned_; }
  /// No allocation of the play fails, as it calls co_spawn.
  void spare_memory() noexcept { spares_memory_ = true; }
  bool spares_memory() const noexcept { return spares_memory_; }
  /// The scenario holds what must not outlive the context.
  void needs_context() noexcept { needs_context_ = true; }
  bool can_lose_context() const noexcept { return !needs_context_; }

  // For torments.
  std::size_t signals() const noexcept { return used_signals_; }
  void cancel(std::size_t signal, net::cancellation_type type) { signals_[signal].emit(type); }
  void stop(canigo::stop_mode mode) {
    was_stopped_ = true;
    for (const auto& f : stops_) f(mode);
  }
  void destroy_context() { context_.reset(); }

 private:
  /// Counts the end of a caller: its frame goes exactly once.
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
  /// Up while the play goes on.
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
  std::array<net::cancellation_signal, 24> signals_;  // they outlive what they cancel
  std::size_t used_signals_ = 0;
  std::unique_ptr<net::io_context> context_ = std::make_unique<net::io_context>(1);
  canigo::time_source_control clock_{*context_, canigo::time_point{}};
  std::vector<std::function<void(canigo::stop_mode)>> stops_;
  int refused_ = 0;  // steps that threw
  bool is_playing_ = false;
  bool spares_aligned_ = false;
  bool spares_memory_ = false;
  bool needs_context_ = false;
  bool was_stopped_ = false;
  std::string wrong_;
};

/// What happens on a stage, and what must hold then, whatever is done meanwhile.
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
