// The places of a policy under every order of what its threads do.

#include "canigo/policy.hpp"

#include "canigo/detail/context/marked_executor.hpp"
#include "canigo/detail/policy/policy_core.hpp"
#include "canigo/limiter.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/this_coro.hpp>

#include <memory>
#include <optional>

using canigo::detail::executor_mark;
using canigo::detail::policy_call;
using canigo::detail::policy_core;
using interleaving::world;

namespace {

namespace net = canigo::net;

net::awaitable<void> look_where(net::any_io_executor& at) { at = co_await net::this_coro::executor; }

/// A policy with one place, and an operation that holds it.
struct operation_in_place {
  explicit operation_in_place(world& w) : home{w.make_loop("loop")} {
    operation.emplace(call, home);
    operation->hold(core.limits->try_acquire().value());
    net::any_io_executor at;
    net::co_spawn(home, operation->marked(look_where(at)), net::detached);
    home.poll();
    mark = canigo::detail::mark_of(at, &core);
  }
  bool is_held() const { return core.limits->stats().held != 0; }

  interleaving::loop_executor home;
  policy_core core{home, {.limits = canigo::limiter_options{.concurrency = 1}}};
  policy_call call{core, home, {}};
  std::optional<policy_call::operation> operation;
  std::shared_ptr<executor_mark> mark;
};

}  // namespace

TEST_CASE("a request that begins as its operation ends keeps the place, or knows that it does not", "[interleaving]") {
  explore(3, [](world& w) {
    operation_in_place of{w};
    bool is_kept = false;
    w.thread("ends", [&] { of.operation.reset(); });
    w.thread("begins", [&] { is_kept = of.mark->keep(); });
    w.run();
    w.expect(of.is_held() == is_kept, "the place was given back though it was kept");
    if (is_kept) of.mark->let_go();
    w.expect(!of.is_held(), "the place was lost");
  });
}

TEST_CASE("the last of several that keep a place gives it back, once", "[interleaving]") {
  explore(2, [](world& w) {
    operation_in_place of{w};
    const auto begins_and_ends = [&] {
      if (!of.mark->keep()) return;
      w.expect(of.is_held(), "the place was given back though it was kept");
      of.mark->let_go();
    };
    w.thread("ends", [&] { of.operation.reset(); });
    w.thread("begins and ends", begins_and_ends);
    w.thread("begins and ends too", begins_and_ends);
    w.run();
    w.expect(!of.is_held(), "the place was lost");
    w.expect(!of.mark->keep(), "a place that was given back was kept");
    of.call.succeeded();
  });
}
