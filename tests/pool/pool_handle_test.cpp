#include "canigo/pool_handle.hpp"

#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <exception>
#include <string>
#include <system_error>

using namespace canigo;
using namespace std::chrono_literals;

namespace pool_handle_run {

/// What any pool can do, whatever its workers own.
template <class R>
task<int> submit_to(pool_handle<R>& pool) {
  return pool.submit([](auto&&...) { return 7; });
}

}  // namespace pool_handle_run

TEST_CASE("a pool without a number of workers says that it lacks one", "[pool_handle]") {
  net::io_context io;
  const auto text = [&io](auto options) -> std::string {
    try {
      strand_pool pool{io, options};
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return e.what();
    }
    return "";
  };
  strand_pool_options forgotten;
  forgotten.priorities = 2;
  CHECK(text(forgotten).find("strand_pool_options.concurrency is 0; allowed: 1 to 100000") != std::string::npos);
}

TEST_CASE("a task of no pool says so", "[pool_handle]") {
  task<int> none;
  CHECK_FALSE(none.valid());
  const auto refuses = [](auto&& f) {
    try {
      f();
    } catch (const std::system_error& e) {
      return e.code() == errc::invalid_argument;
    }
    return false;
  };
  CHECK(refuses([&] { none.id(); }));
  CHECK(refuses([&] { none.state(); }));
  CHECK(refuses([&] { none.cancel(); }));
  CHECK(refuses([&] { static_cast<void>(none.result()); }));
  CHECK(refuses([&] { none.async_wait([](const std::exception_ptr&, int) {}); }));
}

TEST_CASE("the timeout of a task is the pool's, its own, or none", "[pool_handle]") {
  pool_run::bench_top b;
  strand_pool pool{b.io, {.concurrency = 3, .timeout = 1s}};
  const auto slow = [](task_context&) { return sleep_for(10s); };
  const task<void> as_the_pool = pool.submit(slow);
  const task<void> longer = pool.submit(slow, {.timeout = 20s});
  const task<void> endless = pool.submit(slow, {.timeout = duration::max()});
  b.time.run();
  CHECK(as_the_pool.state() == task_state::timed_out);
  CHECK(longer.state() == task_state::succeeded);
  CHECK(endless.state() == task_state::succeeded);
}

TEST_CASE("a function may take any pool", "[pool_handle]") {
  pool_run::bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  const task<int> t = pool_handle_run::submit_to(pool);
  b.time.run();
  CHECK(t.state() == task_state::succeeded);
}
