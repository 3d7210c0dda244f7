#pragma once

#include "canigo/jobs/conformance.hpp"
#include "canigo/net.hpp"

#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

/// Stores whose operations complete through another thread.
class io_world : public canigo::jobs::conformance::world {
 public:
  void run(canigo::net::awaitable<void> work) override {
    bool is_over = false;
    std::exception_ptr thrown;
    canigo::net::co_spawn(io_, std::move(work), [&](std::exception_ptr e) {
      is_over = true;
      thrown = e;
    });
    io_.restart();
    while (!is_over && io_.run_one() > 0) {
    }
    if (thrown) std::rethrow_exception(thrown);
    if (!is_over) throw canigo::jobs::conformance::failure{"a call does not end"};
  }
  template <class T>
  T wait(canigo::net::awaitable<T> call) {
    std::optional<T> result;
    run(into(std::move(call), result));
    return std::move(*result);
  }
  /// Returns the error code and the text with which the operation fails.
  template <class T>
  std::pair<std::error_code, std::string> error_of(canigo::net::awaitable<T> call) {
    try {
      wait(std::move(call));
    } catch (const std::system_error& e) {
      return {e.code(), said_by(e)};
    }
    return {};
  }

  canigo::net::io_context& io() noexcept { return io_; }

 private:
  template <class T>
  static canigo::net::awaitable<void> into(canigo::net::awaitable<T> call, std::optional<T>& result) {
    result.emplace(co_await std::move(call));
  }

  canigo::net::io_context io_;
};

/// Returns the CPU time that this process uses while the function runs.
inline std::chrono::nanoseconds processor_time_of(const auto& f) {
  const auto used = [] {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
  };
  const auto before = used();
  f();
  return used() - before;
}
