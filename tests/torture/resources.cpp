// Pools whose workers own something: made, checked, reset and destroyed by functions that take time and throw.

#include "canigo/algorithms/backoff.hpp"
#include "canigo/resource_pool.hpp"

#include "stage.hpp"

#include <memory>
#include <stdexcept>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Throws the `turn`-th time it is asked, or hangs.
struct fuse {
  int turn = 0;
  bool hangs = false;
  int asked = 0;
};

/// What the functions of a pool share. They and the resources may outlive the pool's handle.
struct workshop {
  int alive = 0;
  fuse make = {}, check = {}, reset = {}, destroy = {};
};

/// Counts itself.
struct thing {
  explicit thing(std::shared_ptr<workshop> w) noexcept : home{std::move(w)} { ++home->alive; }
  thing(thing&&) noexcept = default;
  thing& operator=(thing&&) = delete;
  ~thing() {
    if (home) --home->alive;
  }
  std::shared_ptr<workshop> home;
};

net::awaitable<void> burns(fuse& f) {
  co_await sleep_for(1ms);
  if (++f.asked != f.turn) co_return;
  if (!f.hangs) throw thrown{};
  co_await sleep_for(1h);
}

void play_with(stage& t, const workshop& fuses) {
  const auto w = std::make_shared<workshop>(fuses);
  t.spare_aligned();
  resource_pool_options<thing> o{.concurrency = 2,
                                 .restart = {.limit = 100, .backoff = backoff::constant(1ms)},
                                 .make = [w]() -> net::awaitable<thing> {
                                   co_await burns(w->make);
                                   co_return thing{w};
                                 },
                                 .reset = [](thing& of) { return burns(of.home->reset); },
                                 .check = [](thing& of) -> net::awaitable<bool> {
                                   co_await burns(of.home->check);
                                   co_return true;
                                 },
                                 .destroy = [](thing& of) { return burns(of.home->destroy); },
                                 .idle_timeout = 5ms,
                                 .call_timeout = 3ms};
  {
    resource_pool<thing> pool{t.io(), std::move(o)};
    t.can_stop([&pool](stop_mode mode) { pool.request_stop(mode, 1ms); });
    t.settle();
    const auto ask = [&](auto f) { return [&t, &pool, f] { pool.async_run(f, task_options{}, t.handler()); }; };
    const auto use = [](thing&, task_context&) -> net::awaitable<void> { co_await sleep_for(1ms); };
    const auto fails = [](thing&) { throw thrown{}; };
    const auto breaks = [](thing&, task_context&) -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw fatal_error{"broken"};
    };
    const auto passes = [&t](duration d) { return [&t, d] { t.pass(d); }; };
    t.play(ask(use), ask(fails), ask(use), passes(5ms), ask(breaks), ask(use), passes(50ms), ask(use), passes(1s));
    t.expect_all_ended();
    t.expect_at_rest(pool.stats());
    pool.request_stop(stop_mode::drain);
    t.expect_all_ended();
    t.expect(pool.is_closed(), "it does not stop");
  }
  t.expect(w->alive == 0, "a resource is left");
}

void resources_that_work(stage& t) { play_with(t, {}); }
void making_one_throws(stage& t) { play_with(t, {.make = {.turn = 2}}); }
void checking_one_throws(stage& t) { play_with(t, {.check = {.turn = 1}}); }
void resetting_one_throws(stage& t) { play_with(t, {.reset = {.turn = 1}}); }
void destroying_one_throws(stage& t) { play_with(t, {.destroy = {.turn = 1}}); }
void making_one_hangs(stage& t) { play_with(t, {.make = {.turn = 2, .hangs = true}}); }
void checking_one_hangs(stage& t) { play_with(t, {.check = {.turn = 1, .hangs = true}}); }
void resetting_one_hangs(stage& t) { play_with(t, {.reset = {.turn = 1, .hangs = true}}); }
void destroying_one_hangs(stage& t) { play_with(t, {.destroy = {.turn = 1, .hangs = true}}); }

}  // namespace

std::vector<scenario> scenarios_of_resources() {
  return {
      {"resources that work", resources_that_work},
      {"making a resource throws", making_one_throws},
      {"checking a resource throws", checking_one_throws},
      {"resetting a resource throws", resetting_one_throws},
      {"destroying a resource throws", destroying_one_throws},
      {"making a resource hangs", making_one_hangs},
      {"checking a resource hangs", checking_one_hangs},
      {"resetting a resource hangs", resetting_one_hangs},
      {"destroying a resource hangs", destroying_one_hangs},
  };
}

}  // namespace torture
