#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace canigo::testing {

/// An execution context in virtual time. It executes ready handlers in a random order that a seed determines.
///
/// An io_context with one thread executes handlers first in, first out. With several threads the order varies from run
/// to run. Here each seed gives one order, which is the same in every run. So print the seed of a failed test, and
/// debug a run with that seed. Handlers that need a fixed order need a strand, as with an io_context.
///
///     for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
///       testing::simulation world{seed};
///       net::co_spawn(world.get_executor(), code_under_test(), rethrow);  // an error ends the run
///       world.run();
///       CHECK(invariant());   // with INFO(world.seed())
///     }
///
/// All waits of canigo on this context take virtual time. Asio's own timers and sockets can't be used on it.
/// Threads: only one thread may use it.
class simulation : public net::execution_context {
 public:
  class executor_type;

  explicit simulation(std::uint64_t seed, time_point start = time_point{});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  executor_type get_executor() noexcept;

  std::uint64_t seed() const noexcept { return seed_; }
  /// The number of handlers executed so far.
  std::uint64_t steps() const noexcept { return steps_; }
  time_point now() const noexcept { return clock_.now(); }
  duration elapsed() const noexcept { return now() - start_; }

  /// A random number from 0 to bound-1, determined by the seed, for other random decisions of the test. `bound` is 1 or
  /// more.
  std::uint64_t random(std::uint64_t bound) noexcept;

  /// Executes one of the ready handlers. Returns false if there is none. Throws the exception of the handler.
  bool step();
  /// Executes all handlers, and moves the time to the next deadline when no handler is ready. Returns the number of
  /// executed handlers when no handler and no deadline is left.
  ///
  /// Throws std::runtime_error after ten million handlers at the same instant, because they probably post each other
  /// forever. run_until(), run_for() and poll() throw in the same case.
  std::size_t run();
  /// Like run(), but stops after the handlers that are due at `t` or earlier. Afterwards the time is `t`.
  std::size_t run_until(time_point t);
  std::size_t run_for(duration d) { return run_until(saturating_add(now(), d)); }
  /// Executes all ready handlers, and those that become ready meanwhile. The time stands still.
  std::size_t poll();

 private:
  struct handler {
    virtual ~handler() = default;
    virtual void call() = 0;
  };
  template <class Function>
  struct handler_of final : handler {
    template <class F>
    explicit handler_of(F&& f) : function(std::forward<F>(f)) {}
    void call() override { std::move(function)(); }
    Function function;
  };

  void push(std::unique_ptr<handler> h);

  time_source_control clock_;
  time_point start_;
  std::uint64_t seed_;
  std::uint64_t state_;
  std::uint64_t steps_ = 0;
  bool is_down_ = false;
  std::vector<std::unique_ptr<handler>> ready_;
};

/// Queues every handler that it gets, and executes none immediately. A strand on this executor executes handlers
/// immediately if they are dispatched inside the strand, as with an io_context.
class simulation::executor_type {
 public:
  explicit executor_type(simulation& s) noexcept : simulation_{&s} {}

  net::execution_context& query(net::execution::context_t) const noexcept { return *simulation_; }
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    return never_blocks_ ? net::execution::blocking_t{net::execution::blocking.never}
                         : net::execution::blocking_t{net::execution::blocking.possibly};
  }
  executor_type require(net::execution::blocking_t::never_t) const noexcept { return {*simulation_, true}; }
  executor_type require(net::execution::blocking_t::possibly_t) const noexcept { return {*simulation_, false}; }

  template <class Function>
  void execute(Function&& f) const {
    simulation_->push(std::make_unique<handler_of<std::decay_t<Function>>>(std::forward<Function>(f)));
  }

  bool operator==(const executor_type&) const noexcept = default;

 private:
  executor_type(simulation& s, bool never_blocks) noexcept : simulation_{&s}, never_blocks_{never_blocks} {}

  simulation* simulation_;
  bool never_blocks_ = false;
};

inline simulation::executor_type simulation::get_executor() noexcept { return executor_type{*this}; }

}  // namespace canigo::testing
