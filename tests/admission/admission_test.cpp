// The engine below scheduler, semaphore, limiter and gate, spoken to directly. What those promise is tested with them.

#include "canigo/detail/admission/admission.hpp"

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/testing/virtual_time.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;
using detail::admission;
using detail::outcome;
using detail::supplies;

namespace {

supplies places(std::uint64_t n) { return supplies{{}, n, supplies::occupancy::tokens}; }

/// A handle that is closed when it goes.
struct engine {
  engine(limits_run& run, supplies s, const detail::admission_options& o = {})
      : core{admission::open(run.io.get_executor(), std::move(s), o)} {}
  ~engine() { core->close(); }
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  admission* operator->() const { return core; }
  admission* core;
};

}  // namespace

TEST_CASE("an outcome is an error code: 0 is none, above are ours, below is cancelled", "[admission]") {
  CHECK_FALSE(to_error_code(outcome::granted));
  CHECK(to_error_code(outcome::aborted) == net::error::operation_aborted);
  CHECK(to_error_code(detail::to_outcome(errc::evicted)) == errc::evicted);
}

TEST_CASE("options are checked as fields of their type", "[admission]") {
  const auto text = [](const detail::admission_options& o) {
    return refusal_of([&] { (void)detail::checked("some_options", o); });
  };
  CHECK(text({}).empty());
  CHECK(text({.priorities = 0}).find("some_options.priorities is 0; allowed: 1 to 1024") == 0);
  CHECK(text({.queue_limit = 0}).find("some_options.queue_limit is 0; allowed: 1 or more") == 0);
  CHECK(text({.ageing = 0s}).find("some_options.ageing is 0s; allowed: more than 0") == 0);
  CHECK(text({.on_overflow = overflow::wait}).find("some_options.on_overflow is wait; allowed: ") == 0);
}

TEST_CASE("who enters without waiting is granted, must wait, or is refused for what is wrong first", "[admission]") {
  limits_run run;
  const engine e{run, places(3), {.priorities = 2}};
  run.time.run_for(1s);
  CHECK(e->try_enter({.priority = 2}) == detail::to_outcome(errc::invalid_priority));
  CHECK(e->try_enter({.priority = -1, .tokens = 0}) == detail::to_outcome(errc::invalid_priority));
  CHECK(e->try_enter({.tokens = 0}) == detail::to_outcome(errc::invalid_argument));
  CHECK(e->try_enter({.tokens = 4}) == detail::to_outcome(errc::too_large));
  CHECK(e->try_enter({.deadline = time_point{1s - 1ns}}) == detail::to_outcome(errc::deadline_unreachable));
  CHECK(e->try_enter({.tokens = 2, .deadline = time_point{1s}}) == outcome::granted);
  CHECK(e->try_enter({.tokens = 2}) == outcome::must_wait);
  CHECK(e->occupied() == 2);
  e->release(2);
  CHECK(e->occupied() == 0);
  e->stop();
  CHECK(e->try_enter({}) == detail::to_outcome(errc::stopped));
}

TEST_CASE("a change that throws changes nothing, and the lock is free after it", "[admission]") {
  limits_run run;
  const engine e{run, supplies{{token_bucket{rate::per_second(1), 5, 2, run.time.now()}}}};
  CHECK_THROWS_AS(e->change_supplies([](supplies& s, time_point now) { s.rates().front().set_burst(now, 0); }),
                  std::system_error);
  CHECK(e->try_enter({.tokens = 2}) == outcome::granted);
  CHECK(e->try_enter({}) == outcome::must_wait);
}

TEST_CASE("a look sees the supplies, the first who waits and the pause of one moment", "[admission]") {
  limits_run run;
  const engine e{run, places(1)};
  const auto first = [&] {
    return e->look([](const supplies& s, const detail::demand* n, time_point paused_until, time_point now,
                      const detail::flow_ceiling*) {
      return std::to_string(s.occupied()) + (n != nullptr ? " " + std::to_string(n->tokens) : " nobody") +
             (paused_until > now ? " paused" : "");
    });
  };
  CHECK(first() == "0 nobody");
  CHECK(e->try_enter({}) == outcome::granted);
  net::co_spawn(run.io, [](admission* a) { return detail::wait_for<detail::plain_waiter>(a); }(e.core), net::detached);
  run.time.poll();
  CHECK(first() == "1 1");
  CHECK(e->waiting() == 1);
  e->pause_until(time_point{1h});
  CHECK(first() == "1 1 paused");
  e->resume();
  e->release(1);
  CHECK(first() == "1 nobody");  // who waited has the place now
  run.time.run();
  e->release(1);
}

TEST_CASE("a queue for more than can be counted has an estimate: never", "[admission]") {
  limits_run run;
  constexpr std::uint64_t most = token_bucket::max_burst;
  const engine e{run, supplies{{token_bucket{rate{1, 1ns}, most, 0, run.time.now()}}, 0, supplies::occupancy::none}};
  for (int i = 0; i < 4; ++i) {
    run.go([&]() -> net::awaitable<void> {
      co_await outcome_of(detail::wait_for<detail::plain_waiter>(e.core, request{.tokens = most}));
    });
  }
  run.time.poll();
  CHECK(e->waiting() == 4);
  CHECK(e->estimate({.tokens = 1}) == duration::max());
  e->stop();
  run.time.run();
}

TEST_CASE("places that are occupied keep the engine alive after its handle", "[admission]") {
  limits_run run;
  admission* core = admission::open(run.io.get_executor(), places(2), {});
  CHECK(core->try_enter({.tokens = 2}) == outcome::granted);
  core->close();
  CHECK(core->occupied() == 2);
  CHECK(core->try_enter({}) == detail::to_outcome(errc::stopped));
  core->release(1);
  CHECK(core->occupied() == 1);
  core->release(1);  // the last one takes it away; the address sanitizer sees if anything is left
}

TEST_CASE("as soon as somebody waits, and no longer, a look without the lock shows it", "[admission]") {
  limits_run run;
  const engine e{run, places(1)};
  CHECK(e->try_enter({}) == outcome::granted);
  CHECK_FALSE(e->is_behind_others());
  int ended = 0;
  net::co_spawn(run.io, detail::wait_for<detail::plain_waiter>(e.core), [&](std::exception_ptr) { ++ended; });
  run.time.poll();
  CHECK(e->is_behind_others());
  CHECK(e->is_behind_others(request{}));
  CHECK_FALSE(e->is_behind_others(request{.tokens = 2}));  // perhaps that is too many
  e->release(1);
  run.time.poll();
  CHECK(ended == 1);
  CHECK_FALSE(e->is_behind_others());
  e->release(1);
}

TEST_CASE("an idle engine lets all go while no place is occupied", "[admission]") {
  limits_run run;
  admission* a = detail::open_idle(run.io.get_executor());
  CHECK(a->try_enter({}) == outcome::granted);
  CHECK(a->occupy(2));
  int left = 0;
  for (int i = 0; i < 3; ++i) {
    net::co_spawn(run.io, detail::wait_for<detail::plain_waiter>(a), [&](std::exception_ptr) { ++left; });
  }
  run.time.poll();
  a->release(1);
  run.time.poll();
  CHECK(left == 0);
  a->release(1);
  run.time.poll();
  CHECK(left == 3);
  a->close();
}

TEST_CASE("an engine whose context is gone refuses all and changes nothing", "[admission]") {
  auto run = std::make_unique<limits_run>();
  admission* a = admission::open(run->io.get_executor(), places(2), {});
  CHECK(a->try_enter({}) == outcome::granted);
  run.reset();
  bool changed = false;
  a->change_supplies([&](supplies&, time_point) { changed = true; });
  CHECK_FALSE(changed);
  CHECK(a->try_enter({}) == detail::to_outcome(errc::stopped));
  a->pause_until(time_point{1h});
  a->resume();
  a->stop();
  CHECK(a->occupied() == 1);
  a->release(1);
  a->close();
}
