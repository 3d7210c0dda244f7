#include "canigo/redis/permit.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"
#include "support/result_kinds.hpp"
#include "support/said_by.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

/// How a coroutine ends that runs until `done`.
struct watched {
  watched(net::io_context& io, net::awaitable<void> work) {
    net::co_spawn(io, std::move(work), net::bind_cancellation_slot(cancel.slot(), [this](std::exception_ptr e) {
                    ec.emplace();
                    try {
                      if (e) std::rethrow_exception(e);
                    } catch (const std::system_error& failure) {
                      ec = failure.code();
                    } catch (const std::runtime_error&) {
                      ec = std::make_error_code(std::errc::io_error);
                    }
                  }));
  }
  std::optional<std::error_code> ec;
  net::cancellation_signal cancel;
};

net::awaitable<void> fail() {
  co_await canigo::sleep_for(1ms);
  throw std::system_error{std::make_error_code(std::errc::io_error)};
}

/// As `a || b` does, which throws something of its own then.
net::awaitable<void> fail_if_cancelled() {
  try {
    co_await canigo::sleep_for(1h);
  } catch (const std::system_error&) {
  }
  throw std::runtime_error{"cancelled"};
}

}  // namespace

TEST_CASE("an empty permit holds nothing, and nothing runs under it") {
  net::io_context io;
  const redis::permit none;
  CHECK_FALSE(none);
  CHECK(none.token() == 0);
  CHECK(none.held() == 0);
  watched lost{io, none.lost()}, wrapped{io, none.wrap(canigo::sleep_for(1h))};
  io.run();
  CHECK(lost.ec == errc::stopped);
  CHECK(wrapped.ec == errc::lease_lost);
}

TEST_CASE("who waits for a permit to be lost hears that it was given back, or stops waiting") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 2, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  CHECK(p);
  CHECK(p.token() > 0);
  watched patient{io, p.lost()}, impatient{io, p.lost()}, failing{io, p.wrap(fail())};
  run_until(io, [&] { return failing.ec.has_value(); });
  CHECK(failing.ec == std::errc::io_error);
  impatient.cancel.emit(net::cancellation_type::terminal);
  run_until(io, [&] { return impatient.ec.has_value(); });
  CHECK(impatient.ec == net::error::operation_aborted);
  watched cut_short{io, p.wrap(canigo::sleep_for(1h))};
  run_for(io, 1ms);
  cut_short.cancel.emit(net::cancellation_type::terminal);
  run_until(io, [&] { return cut_short.ec.has_value(); });
  CHECK(cut_short.ec == net::error::operation_aborted);
  CHECK(p.held() == 1);
  p.release();
  run_until(io, [&] { return patient.ec.has_value(); });
  CHECK(patient.ec == errc::stopped);
}

TEST_CASE("what runs under a permit has any result that can be moved", "[wrappers]") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 1, .quarantine = false}};
  const auto p = run(io, m.slots.acquire());
  result_kinds::check_kinds(result_kinds::row{"redis/permit wrap", [&](auto make) { return p.wrap(make()); }}, io,
                            [&](const auto& ended) { run_until(io, ended); });
}

TEST_CASE("a permit that was lost is lost for everybody who asks [realtime]", "[realtime]") {
  redis_server server;
  net::io_context io;
  member m{io, server.url(), {.permits = 1, .lease = 100ms, .quarantine = false}};
  auto p = run(io, m.slots.acquire());
  watched before{io, p.lost()}, wrapped{io, p.wrap(canigo::sleep_for(1h))}, composed{io, p.wrap(fail_if_cancelled())};
  server.pause();
  run_until(io, [&] { return before.ec && wrapped.ec && composed.ec; });
  server.resume();
  CHECK(before.ec == std::error_code{});
  CHECK(wrapped.ec == errc::lease_lost);
  CHECK(composed.ec == errc::lease_lost);
  watched after{io, p.lost()}, late{io, p.wrap(canigo::sleep_for(1h))};
  run_until(io, [&] { return after.ec && late.ec; });
  CHECK(after.ec == std::error_code{});
  CHECK(late.ec == errc::lease_lost);
  CHECK_FALSE(p);
  CHECK_FALSE(p.release());
}

TEST_CASE("limits are refused outside their range by name, and a stopped one says so at once") {
  net::io_context io;
  redis::client client{io, "unix:/nonexistent/redis.sock"};
  const auto text_of = [](auto make) -> std::string {
    try {
      make();
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return said_by(e);
    }
    return "accepted";
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  constexpr std::uint64_t too_many = (std::uint64_t{1} << 31) + 1;
  const auto slots_of = [&](redis::semaphore_options o) {
    return text_of([&] { const redis::semaphore s{client, "s", o}; });
  };
  const auto quota_of = [&](redis::scheduler_options o) {
    return text_of([&] { const redis::scheduler s{client, "s", o}; });
  };
  CHECK(has(slots_of({.permits = too_many}), "permits"));
  CHECK(has(slots_of({.permits = 1, .lease = 25h}), "lease"));
  CHECK(has(quota_of({.rate = canigo::rate::per_second(1), .burst = too_many}), "burst"));
  CHECK(has(quota_of({.rate = canigo::rate::per_second(1), .horizon = 2min}), "horizon"));

  redis::semaphore slots{client, "s", {.permits = 1}};
  redis::scheduler quota{client, "q", {.rate = canigo::rate::per_second(1)}};
  CHECK(has(text_of([&] { slots.resize(too_many); }), "permits"));
  CHECK(has(text_of([&] { slots.resize(0); }), "permits"));
  CHECK(slots.get_executor() == io.get_executor());
  CHECK(quota.get_executor() == io.get_executor());
  slots.stop();
  quota.stop();
  const auto code_of = [&](auto work) -> std::error_code {
    try {
      run(io, std::move(work));
    } catch (const std::system_error& e) {
      return e.code();
    }
    return {};
  };
  CHECK(code_of(slots.acquire_now()) == errc::stopped);
  CHECK(code_of(quota.acquire_now(0)) == errc::stopped);
}
