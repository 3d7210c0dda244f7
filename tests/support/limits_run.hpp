#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time.hpp"
#include "canigo/timeout.hpp"

#include "support/outcome.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

/// The common parts of the tests of permit, semaphore, limiter, gate and task_group: a context in virtual time, and a
/// log.
struct limits_run {
  canigo::net::io_context io;
  canigo::testing::virtual_time time{io};
  std::vector<std::string> log;

  /// Starts a coroutine. run() throws the coroutine's exception.
  template <class Main>
  void go(Main main) {
    canigo::net::co_spawn(io, std::move(main), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  }
  /// Starts a coroutine that can be cancelled, and stores in `ended` how it ended.
  template <class Main>
  void go(Main main, canigo::net::cancellation_signal& signal, std::error_code& ended) {
    canigo::net::co_spawn(
        io, std::move(main),
        canigo::net::bind_cancellation_slot(signal.slot(), [&ended](std::exception_ptr e) { ended = code_of(e); }));
  }

  long ms() const { return static_cast<long>(time.elapsed() / std::chrono::milliseconds{1}); }
  void note(const std::string& what) { log.push_back(what + "@" + std::to_string(ms())); }
  /// Returns the log without times, in one line.
  std::string names() const {
    std::string all;
    for (const std::string& line : log) all += line.substr(0, line.find('@'));
    return all;
  }
};

/// Sleeps for `d`, and returns a value.
inline canigo::net::awaitable<int> answer_after(canigo::duration d) {
  co_await canigo::sleep_for(d);
  co_return 42;
}

/// Returns the text of an operation's failure.
template <class T>
canigo::net::awaitable<std::string> outcome_of_any(canigo::net::awaitable<T> operation) {
  try {
    (void)co_await std::move(operation);
  } catch (const std::exception& e) {
    co_return std::string{e.what()};
  }
  co_return std::string{};
}

/// Returns the text of the exception that an invalid call throws.
template <class Function>
std::string refusal_of(Function f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return said_by(e);
  }
  return {};
}

/// Like refusal_of(), without the message of the error code.
template <class Function>
std::string reason_of(Function f) {
  const std::string text = refusal_of(f);
  return text.substr(0, text.rfind(": "));
}

using log_lines = std::vector<std::string>;
