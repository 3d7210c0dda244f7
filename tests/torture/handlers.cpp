// Handlers of all kinds: with executors and allocators of their own that fail, that throw, that ask again.

#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"

#include "limits_stage.hpp"

#include <asio/bind_allocator.hpp>
#include <asio/bind_executor.hpp>
#include <asio/execution.hpp>
#include <asio/post.hpp>
#include <asio/require.hpp>
#include <asio/strand.hpp>
#include <asio/use_future.hpp>

#include <future>
#include <utility>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// A handler with an allocator of its own, which is the heap's, and so fails as the heap does.
template <class Handler>
struct with_allocator {
  using allocator_type = std::allocator<void>;
  allocator_type get_allocator() const noexcept { return {}; }
  using cancellation_slot_type = typename net::associated_cancellation_slot<Handler>::type;
  cancellation_slot_type get_cancellation_slot() const noexcept {
    return net::get_associated_cancellation_slot(handler);
  }
  void operator()(std::error_code ec) { handler(ec); }
  Handler handler;
};

/// Takes memory for each function that it is handed, and so fails where that does.
class fallible_executor {
 public:
  explicit fallible_executor(net::io_context& io) noexcept : io_{&io} {}
  net::execution_context& query(net::execution::context_t) const noexcept { return *io_; }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  fallible_executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  template <class Function>
  void execute(Function&& f) const {
    auto held = std::make_unique<std::decay_t<Function>>(std::forward<Function>(f));
    net::post(*io_, [h = std::move(held)]() mutable { std::move (*h)(); });
  }
  bool operator==(const fallible_executor&) const noexcept = default;

 private:
  net::io_context* io_;
};

void an_allocator_of_their_own(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  const auto ask = [&](request r) {
    return [&t, &s, r] { s.async_acquire(r, with_allocator<decltype(t.handler())>{t.handler()}); };
  };
  t.play(ask({}), ask({.priority = 1}), ask({.deadline = time_point{5ms}}), ask({.tokens = 4}), [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void an_executor_of_their_own_that_fails(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  const auto ask = [&](request r) {
    return [&t, &s, r] { s.async_acquire(r, net::bind_executor(fallible_executor{t.io()}, t.handler())); };
  };
  t.play(
      ask({}), ask({.priority = 1}), ask({.deadline = time_point{5ms}}), [&] { s.refund(2); }, [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void an_executor_of_the_object_that_fails(stage& t) {
  scheduler s{net::any_io_executor{fallible_executor{t.io()}}, two_classes};
  stops(t, s);
  const auto ask = [&](request r) { return [&t, &s, r] { s.async_acquire(r, t.handler()); }; };
  t.play(ask({}), ask({.priority = 1}), ask({.deadline = time_point{5ms}}), [&] { s.refund(2); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void an_executor_that_wraps_what_is_posted(stage& t) {
  // No plain executor of an io_context: what is posted to it is wrapped first, which takes memory each time.
  t.needs_context();
  const net::any_io_executor wrapping{net::require(t.io().get_executor(), net::execution::outstanding_work.tracked)};
  scheduler s{wrapping, two_classes};
  stops(t, s);
  const auto ask = [&](request r) { return [&t, &s, r] { s.async_acquire(r, t.handler()); }; };
  t.play(
      ask({}), ask({.priority = 1}), ask({.deadline = time_point{1ms}}), ask({}), [&] { s.refund(2); },
      [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void on_a_strand(stage& t) {
  t.spare_aligned();
  t.needs_context();
  const auto strand = net::make_strand(t.io());
  scheduler s{strand, two_classes};
  stops(t, s);
  const auto ask = [&](request r) {
    return [&t, &s, r, strand] { s.async_acquire(r, net::bind_executor(strand, t.handler())); };
  };
  for (int i = 0; i < 2; ++i) t.spawn([&s] { return s.acquire(); });
  t.play(ask({}), ask({.priority = 1}), ask({.deadline = time_point{15ms}}), [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void callers_on_another_context(stage& t) {
  net::io_context elsewhere{1};
  scheduler s{t.io(), two_classes};
  stops(t, s);
  const auto ask = [&](request r) {
    return [&, r] { s.async_acquire(r, net::bind_executor(elsewhere, t.handler())); };
  };
  const auto both_run = [&] {
    for (int i = 0; i < 20; ++i) {
      t.pass(10ms);
      elsewhere.restart();
      elsewhere.poll();
    }
  };
  t.play(ask({}), ask({.deadline = time_point{20ms}}), ask({.priority = 1}), [&] { s.refund(2); }, both_run);
  both_run();
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void futures(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  std::vector<std::future<void>> all;
  all.reserve(3);
  // By itself use_future completes on a thread of Asio's. Granted ones only: from 1.38 on, Asio makes the exception of
  // a future in a function that must not throw.
  const auto ask = [&](request r) {
    return [&, r] { all.push_back(s.async_acquire(r, net::bind_executor(t.io(), net::use_future))); };
  };
  t.play(ask({}), ask({.deadline = time_point{1h}}), [&] { t.pass(1s); });
  t.expect_all_ended();
  for (auto& f : all) t.expect(f.wait_for(0s) == std::future_status::ready, "a future is never ready");
  t.expect_full(s, 4);
}

void they_throw(stage& t) {
  scheduler s{t.io(), two_classes};
  semaphore m{t.io(), {.permits = 1}};
  stops(t, s);
  stops(t, m);
  const auto throws = [] { throw thrown{}; };
  const auto ask = [&](request r) { return [&t, &s, r, throws] { s.async_acquire(r, t.handler(throws)); }; };
  t.play(
      ask({}), ask({.priority = 1}), ask({.deadline = time_point{15ms}}), ask({.tokens = 9}),
      [&] { m.async_acquire({}, t.handler(throws)); }, [&] { m.async_acquire({}, t.handler(throws)); },
      [&] { s.refund(2); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
  t.expect(m.stats().held == 0, "a permit is lost");
}

void coroutines_throw_with_permits(stage& t) {
  semaphore m{t.io(), {.permits = 2}};
  stops(t, m);
  for (int i = 0; i < 5; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      const permit p = co_await m.acquire();
      if (i % 2 == 0) throw thrown{};
      co_await sleep_for(1ms);
      throw thrown{};
    });
  }
  t.play([&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void a_pool_that_tells_by_one(stage& t) {
  t.spare_aligned();
  strand_pool pool{t.io(), {.concurrency = 2}};
  t.can_stop([&pool](stop_mode mode) { pool.request_stop(mode, 1ms); });
  t.settle();
  const auto ask = [&](auto f) {
    return [&t, &pool, f] { pool.async_run(f, {}, net::bind_executor(fallible_executor{t.io()}, t.handler())); };
  };
  const auto slow = [](task_context&) { return sleep_for(1ms); };
  t.play(ask([] {}), ask(slow), ask([] { throw thrown{}; }), [&] { t.pass(100ms); });
  t.expect_all_ended();
  t.expect_at_rest(pool.stats());
}

void they_ask_again(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  const auto again = [&t, &s] { s.async_acquire({.priority = 1}, t.handler()); };
  t.play([&] { s.async_acquire({}, t.handler(again)); }, [&] { s.async_acquire({}, t.handler(again)); },
         [&] { s.async_acquire({.tokens = 9}, t.handler(again)); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void they_stop_and_cancel(stage& t) {
  scheduler s{t.io(), two_classes};
  stops(t, s);
  net::cancellation_signal other;
  const auto ends_it = [&] {
    other.emit(net::cancellation_type::terminal);
    s.stop();
  };
  s.async_acquire({.deadline = time_point{1h}}, net::bind_cancellation_slot(other.slot(), [](std::error_code) {}));
  for (int i = 0; i < 2; ++i) t.spawn([&s] { return s.acquire(); });
  t.play([&] { s.async_acquire({}, t.handler(ends_it)); }, [&] { t.pass(1s); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

}  // namespace

std::vector<scenario> scenarios_of_handlers() {
  return {
      {"an allocator of their own", an_allocator_of_their_own},
      {"an executor of their own that fails", an_executor_of_their_own_that_fails},
      {"an executor of the object that fails", an_executor_of_the_object_that_fails},
      {"an executor that wraps what is posted", an_executor_that_wraps_what_is_posted},
      {"on a strand", on_a_strand},
      {"callers on another context", callers_on_another_context},
      {"futures", futures},
      {"they throw", they_throw},
      {"coroutines throw with permits", coroutines_throw_with_permits},
      {"a pool that tells by an executor that fails", a_pool_that_tells_by_one},
      {"they ask again", they_ask_again},
      {"they stop and cancel", they_stop_and_cancel},
  };
}

}  // namespace torture
