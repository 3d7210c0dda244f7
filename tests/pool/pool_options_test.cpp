#include "canigo/detail/pool/pool_options.hpp"

#include "canigo/error.hpp"
#include "canigo/pool.hpp"
#include "canigo/request.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <string>
#include <type_traits>

using namespace canigo;
using namespace std::chrono_literals;
using canigo::detail::check_task;
using canigo::detail::checked;
using canigo::detail::pool_core_options;

TEST_CASE("the options of a pool are checked one by one, and named with its type", "[pool_options]") {
  const auto text = [](auto change) {
    pool_core_options o{.type = "resource_pool"};
    change(o);
    return refusal([&o] { checked(o); });
  };
  CHECK(text([](auto&) {}) == "nothing was thrown");
  CHECK(text([](auto& o) { o.concurrency = 0; }).find("resource_pool_options.concurrency") != std::string::npos);
  CHECK(text([](auto& o) { o.concurrency = 100'001; }).find("1 to 100000") != std::string::npos);
  CHECK(text([](auto& o) { o.priorities = 1025; }).find("1 to 1024") != std::string::npos);
  CHECK(text([](auto& o) { o.queue_limit = 0; }).find("queue_limit") != std::string::npos);
  CHECK(text([](auto& o) { o.timeout = 0s; }).find("timeout") != std::string::npos);
  CHECK(text([](auto& o) { o.restart.limit = 10'001; }).find("restart.limit") != std::string::npos);
  CHECK(text([](auto& o) { o.restart.within = 0s; }).find("restart.within") != std::string::npos);
  CHECK(text([](auto& o) { o.on_overflow = overflow{9}; }).find("on_overflow") != std::string::npos);
}

TEST_CASE("options may be written where a call is awaited, as none needs a destructor") {
  // g++ 12 would destroy it twice.
  STATIC_REQUIRE(std::is_trivially_destructible_v<task_options>);
  STATIC_REQUIRE(std::is_trivially_destructible_v<request>);
}

TEST_CASE("a task needs no more than its callable if it has no options but a priority", "[pool_options]") {
  using canigo::detail::is_plain;
  CHECK(is_plain({.priority = 3}));
  CHECK(is_plain({.retry = {.attempts = 1}}));
  CHECK_FALSE(is_plain({.retry = {.attempts = 2}}));
  CHECK_FALSE(is_plain({.timeout = 1s}));
  CHECK_FALSE(is_plain({.delay = 1s}));
  CHECK_FALSE(is_plain({.deadline = time_point{1h}}));
  CHECK_FALSE(is_plain({.group = 1}));
  CHECK_FALSE(is_plain({.name = "resize"}));
}

TEST_CASE("the options of a task are checked against its pool", "[pool_options]") {
  CHECK(refusal([] { check_task({.priority = 1, .timeout = 1ns}, 2); }) == "nothing was thrown");
  CHECK(refusal([] { check_task({.timeout = 0s}, 2); }).find("task_options.timeout") != std::string::npos);
  CHECK(refusal([] { check_task({.delay = -1s}, 2); }).find("task_options.delay") != std::string::npos);
  try {
    check_task({.priority = 2}, 2);
    FAIL("nothing was thrown");
  } catch (const std::system_error& e) {
    CHECK(e.code() == errc::invalid_priority);
  }
}
