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

/// An event loop of a model, run by one thread of its or more.
struct loop {
  net::execution_context* context = nullptr;
  work_queue queue;
  bool closing = false;
  bool may_go = false;   // with its context, while the threads run
  bool is_gone = false;  // what was posted, with its context
  bool is_freed = false;
  bool was_posted_to_late = false;
  bool was_reached_late = false;
};

/// What Asio wants an executor to be: posts to a loop.
class loop_executor {
 public:
  explicit loop_executor(loop& l) noexcept : loop_{&l} {}

  template <class F>
  void execute(F&& f) const {
    if (loop_->may_go) explorer::step("post");  // which takes its time
    if (loop_->is_gone) {
      loop_->was_posted_to_late = true;
      throw std::logic_error{"posted to a context that is gone"};
    }
    loop_->queue.push(work{std::forward<F>(f)});
  }
  /// Calls what was posted, on the thread that calls this: for a loop that no thread runs.
  void poll() const {
    while (!loop_->queue.empty()) loop_->queue.pop()();
  }
  bool operator==(const loop_executor&) const noexcept = default;
  net::execution_context& query(net::execution::context_t) const noexcept { return *loop_->context; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  loop_executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  /// Touches what goes with the context.
  void reach() const noexcept {
    explorer::step("reach for the context");
    if (loop_->is_freed) loop_->was_reached_late = true;
  }

 private:
  loop* loop_;
};

/// The same by way of a strand: what its copies share reaches for the context when the last one goes.
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

/// Somebody who asks for a permit or a token, and what became of it.
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
  /// Asks on the thread that calls this; hears of it on its own loop.
  template <class Object>
  void acquire(Object& from, const canigo::request& r = {}) {
    asked = true;
    from.async_acquire(r, handler());
  }
  /// Cancels from its own loop, as Asio wants it.
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

/// One run of a model: an execution context of its own, whose time is virtual, and the threads that use it.
class world {
 public:
  explicit world(explorer& e);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// A loop that so many threads run; with none, what is posted to it waits for the context to go.
  loop_executor make_loop(const char* name, int threads = 1);
  template <class F>
  void thread(const char* name, F&& body) {
    explorer_.add_thread(name, work{std::forward<F>(body)});
  }
  caller& make_caller(loop_executor where) { return callers_.at(callers_made_++).emplace(where); }

  canigo::time_point now() const { return clock_->now(); }
  canigo::time_point after(canigo::duration d) const { return start + d; }
  /// The context goes as Asio's does, on the thread that calls this: its services first, then what was posted. No loop
  /// may be running.
  void shut_down();
  /// Lets time pass, and calls what is due, on the thread that calls this.
  void pass_to(canigo::duration d) { clock_->advance(after(d)); }
  /// Runs the threads until nothing moves any more, with time going on as far as it is waited for.
  void run();
  /// After run(): what is to be true then, whatever the schedule.
  void expect(bool truth, const char* what) {
    if (!truth) explorer_.fail(what);
  }

  static constexpr canigo::time_point start{std::chrono::hours{1}};

 private:
  class context : public net::execution_context {
   public:
    context() {}  // defaulted, it is none yet to clang where the class around it goes on
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
