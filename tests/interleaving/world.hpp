#pragma once

#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include "explorer.hpp"
#include "work.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace interleaving {

namespace net = canigo::net;

/// An event loop of a model. One or more threads of the model run it.
struct loop {
  net::execution_context* context = nullptr;
  work_queue queue;
  bool closing = false;
  bool may_go = false;   // whether its context may be destroyed while the threads run
  bool is_gone = false;  // whether its queue was destroyed together with the context
  bool is_freed = false;
  bool was_posted_to_late = false;
  bool was_reached_late = false;
};

/// An executor in the sense of Asio that posts to a loop.
class loop_executor {
 public:
  explicit loop_executor(loop& l) noexcept : loop_{&l} {}

  template <class F>
  void execute(F&& f) const {
    if (loop_->may_go) explorer::step("post");  // another thread may run before the post
    if (loop_->is_gone) {
      loop_->was_posted_to_late = true;
      throw std::logic_error{"posted to a context that is gone"};
    }
    loop_->queue.push(work{std::forward<F>(f)});
  }
  /// Calls the posted functions on the calling thread, for a loop without threads.
  void poll() const {
    while (!loop_->queue.empty()) loop_->queue.pop()();
  }
  bool operator==(const loop_executor&) const noexcept = default;
  net::execution_context& query(net::execution::context_t) const noexcept { return *loop_->context; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  loop_executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  /// Uses an object that is destroyed together with the context.
  void reach() const noexcept {
    explorer::step("reach for the context");
    if (loop_->is_freed) loop_->was_reached_late = true;
  }

 private:
  loop* loop_;
};

/// A strand on such an executor. The state that its copies share uses the context when the last copy is destroyed.
class strand_of_loop {
 public:
  explicit strand_of_loop(loop_executor base) : shared_{std::make_shared<const shared>(base)} {}

  template <class F>
  void execute(F&& f) const {
    shared_->base.execute(std::forward<F>(f));
  }
  bool operator==(const strand_of_loop&) const noexcept = default;
  net::execution_context& query(net::execution::context_t c) const noexcept { return shared_->base.query(c); }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  strand_of_loop require(net::execution::blocking_t::never_t) const noexcept { return *this; }

 private:
  struct shared {
    explicit shared(loop_executor b) noexcept : base{b} {}
    shared(const shared&) = delete;
    shared& operator=(const shared&) = delete;
    ~shared() { base.reach(); }
    loop_executor base;
  };
  std::shared_ptr<const shared> shared_;
};

/// A caller that requests a permit or a token, with the result.
struct caller {
  explicit caller(loop_executor where) : executor{where} {}

  struct answer {
    caller* to;
    void operator()(std::error_code e) const {
      ++to->calls;
      to->error = e;
    }
    void operator()(std::error_code e, canigo::permit p) const {
      (*this)(e);
      to->held = std::move(p);
    }
  };

  auto handler() { return net::bind_executor(executor, net::bind_cancellation_slot(signal.slot(), answer{this})); }
  /// Starts the request on the calling thread. The result arrives on the caller's own loop.
  template <class Object>
  void acquire(Object& from, const canigo::request& r = {}) {
    asked = true;
    from.async_acquire(r, handler());
  }
  /// Cancels the request on the caller's own loop, as Asio requires.
  void cancel() {
    executor.execute([this] { signal.emit(net::cancellation_type::terminal); });
  }
  bool was_let_in() const { return calls == 1 && !error; }

  loop_executor executor;
  net::cancellation_signal signal;
  bool asked = false;
  int calls = 0;
  std::error_code error;
  canigo::permit held;
};

/// One run of a model: an execution context in virtual time, and the threads that use it.
class world {
 public:
  explicit world(explorer& e);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Makes a loop that `threads` threads run. With 0, posted functions stay in the queue until the context is
  /// destroyed.
  loop_executor make_loop(const char* name, int threads = 1);
  template <class F>
  void thread(const char* name, F&& body) {
    explorer_.add_thread(name, work{std::forward<F>(body)});
  }
  caller& make_caller(loop_executor where) { return callers_.at(callers_made_++).emplace(where); }

  canigo::time_point now() const { return clock_->now(); }
  canigo::time_point after(canigo::duration d) const { return start + d; }
  /// Destroys the context on the calling thread in the same order as Asio: its services first, then posted functions.
  /// Precondition: no loop is running.
  void shut_down();
  /// Advances the time, and calls what is due, on the calling thread.
  void pass_to(canigo::duration d) { clock_->advance(after(d)); }
  /// Runs the threads until none can continue. Time advances whenever threads wait only for time.
  void run();
  /// Call it after run(). Fails the run unless `truth` holds, which it must under every schedule.
  void expect(bool truth, const char* what) {
    if (!truth) explorer_.fail(what);
  }

  static constexpr canigo::time_point start{std::chrono::hours{1}};

 private:
  class context : public net::execution_context {
   public:
    context() {}  // not defaulted, because clang rejects a defaulted constructor in this place
    ~context() {
      end();
      destroy();
    }
    void end() {
      if (!std::exchange(has_ended_, true)) shutdown();
    }

   private:
    bool has_ended_ = false;
  };

  static void run(loop& l, bool has_several);
  bool pass_to_next();

  explorer& explorer_;
  std::array<std::optional<caller>, 8> callers_;
  std::array<loop, 8> loops_;
  std::size_t callers_made_ = 0;
  std::size_t loops_made_ = 0;
  std::optional<context> context_;
  std::optional<canigo::time_source_control> clock_;
};

}  // namespace interleaving
