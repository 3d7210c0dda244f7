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

/// An execution context in virtual time that runs ready handlers in an order drawn from a seed.
///
/// An io_context with one thread runs handlers first in, first out. With several threads it runs them in any order, but
/// never in the same one again. Here each seed stands for one order, the same every time. So a test that fails prints
/// its seed, and a run with that seed can be debugged. Handlers that must keep their order need a strand, here as
/// there.
///
///     for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
///       testing::simulation world{seed};
///       net::co_spawn(world.get_executor(), code_under_test(), rethrow);  // an error ends the run
///       world.run();
///       CHECK(invariant());   // with INFO(world.seed())
///     }
///
/// Everything of canigo that waits on it waits in virtual time. Asio's own timers and sockets do not belong here.
/// Threads: one.
class simulation : public net::execution_context {
 public:
  class executor_type;

  explicit simulation(std::uint64_t seed, time_point start = time_point{});
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  executor_type get_executor() noexcept;

  std::uint64_t seed() const noexcept { return seed_; }
  /// The number of handlers that have run.
  std::uint64_t steps() const noexcept { return steps_; }
  time_point now() const noexcept { return clock_.now(); }
  duration elapsed() const noexcept { return now() - start_; }

  /// A number from 0 to bound-1, drawn from the seed, for other random decisions of the test. `bound` is 1 or more.
  std::uint64_t random(std::uint64_t bound) noexcept;

  /// Runs one of the ready handlers. Returns false if there is none. Exceptions of the handler come out here.
  bool step();
  /// Runs handlers, and moves the time to the next deadline when none is ready. Returns the number of handlers that
  /// ran, once no handler is ready and no deadline is left.
  ///
  /// Throws std::runtime_error after ten million handlers at the same time: they call each other for ever. run_until(),
  /// run_for() and poll() throw in the same case.
  std::size_t run();
  /// Like run(), up to and including `t`. Then the time is `t`.
  std::size_t run_until(time_point t);
  std::size_t run_for(duration d) { return run_until(saturating_add(now(), d)); }
  /// Runs the handlers that are ready, and those that they make ready. The time stands still.
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

/// Queues every handler that it is given, and runs none at once. A strand of it runs at once what is dispatched from
/// inside of it, as with an io_context.
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
