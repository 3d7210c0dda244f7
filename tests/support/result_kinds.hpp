#pragma once

#include "canigo/net.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/this_coro.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

/// The kinds of results that each wrapper of an operation must support: any type that can be moved.
///
/// A wrapper is a row: its header, its name, and how it wraps what `make` makes. The tidy test compares the names with
/// the headers. check_kinds() instantiates a row with each kind, and checks the results.
namespace result_kinds {

/// A type that can be copied and has no default constructor.
class without_default {
 public:
  explicit without_default(int n) noexcept : number_{n} {}
  int number() const noexcept { return number_; }

 private:
  int number_;
};

/// The move with the number `throwing_move`, counted from 1, throws.
class throws_in_move {
 public:
  static inline int throwing_move = 0;
  static inline int moves = 0;

  explicit throws_in_move(int n) noexcept : number_{n} {}
  throws_in_move(throws_in_move&& other) : number_{other.number_} {
    if (++moves == throwing_move) throw std::runtime_error{"moved"};
  }
  throws_in_move& operator=(throws_in_move&&) = delete;
  ~throws_in_move() = default;
  int number() const noexcept { return number_; }

 private:
  int number_;
};

template <class T>
T make_kind(canigo::net::io_context& io) {
  if constexpr (std::same_as<T, std::unique_ptr<int>>) {
    return std::make_unique<int>(7);
  } else if constexpr (std::same_as<T, canigo::net::ip::tcp::socket>) {
    T socket{io};
    socket.open(canigo::net::ip::tcp::v4());
    return socket;
  } else if constexpr (std::same_as<T, std::exception_ptr>) {
    return std::make_exception_ptr(7);
  } else {
    return T{7};
  }
}

template <class T>
bool is_kind(const T& value) {
  if constexpr (std::same_as<T, int>) {
    return value == 7;
  } else if constexpr (std::same_as<T, std::unique_ptr<int>>) {
    return value != nullptr && *value == 7;
  } else if constexpr (std::same_as<T, canigo::net::ip::tcp::socket>) {
    return value.is_open();
  } else if constexpr (std::same_as<T, std::exception_ptr>) {
    return value != nullptr;
  } else {
    return value.number() == 7;
  }
}

template <class T>
canigo::net::awaitable<T> operation(canigo::net::io_context* io, bool waits, bool fails) {
  if (waits) co_await canigo::sleep_for(std::chrono::milliseconds{1});
  if (fails) throw std::runtime_error{"failed"};
  if constexpr (!std::is_void_v<T>) co_return make_kind<T>(*io);
}

/// Returns the result of an operation under the wrapper: "value", or what it threw. `run` runs the context until
/// `ended`.
template <class T, class Row, class Run>
std::string came_to(const Row& row, canigo::net::io_context& io, const Run& run, bool waits, bool fails) {
  std::string text;
  const auto main = [&]() -> canigo::net::awaitable<void> {
    try {
      const auto make = [&io, waits, fails] { return operation<T>(&io, waits, fails); };
      if constexpr (std::is_void_v<T>) {
        co_await row.wrap(make);
        text = "value";
      } else {
        const T value = co_await row.wrap(make);
        text = is_kind(value) ? "value" : "another value";
      }
    } catch (const std::exception& e) {
      text = e.what();
    }
  };
  canigo::net::co_spawn(io, main(), [](std::exception_ptr) {});
  run([&text] { return !text.empty(); });
  return text;
}

template <class T, class Row, class Run>
void check_kind(const Row& row, canigo::net::io_context& io, const Run& run) {
  for (const bool waits : {false, true}) {
    CHECK(came_to<T>(row, io, run, waits, false) == "value");
    CHECK(came_to<T>(row, io, run, waits, true) == "failed");
  }
}

/// Checks that a result whose move throws counts as a failure of the operation, wherever it is moved.
template <class Row, class Run>
void check_throwing_moves(const Row& row, canigo::net::io_context& io, const Run& run) {
  using kind = throws_in_move;
  for (const bool waits : {false, true}) {
    std::string end;
    for (kind::throwing_move = 1; end != "value" && kind::throwing_move < 100; ++kind::throwing_move) {
      kind::moves = 0;
      end = came_to<kind>(row, io, run, waits, false);
      CAPTURE(kind::throwing_move, end);
      CHECK((end == "moved" || end == "value"));
    }
    CHECK(end == "value");
  }
  kind::throwing_move = 0;
}

template <class Row, class Run>
void check_kinds(const Row& row, canigo::net::io_context& io, const Run& run) {
  CAPTURE(row.name);
  check_kind<void>(row, io, run);
  check_kind<int>(row, io, run);
  check_kind<std::unique_ptr<int>>(row, io, run);
  check_kind<std::exception_ptr>(row, io, run);
  check_kind<without_default>(row, io, run);
  check_kind<canigo::net::ip::tcp::socket>(row, io, run);
  check_throwing_moves(row, io, run);
}

/// `wrap`: a generic function that takes a function which makes an awaitable<T>, and returns an awaitable<T>.
template <class Wrap>
struct row {
  const char* name;
  Wrap wrap;
};
template <class Wrap>
row(const char*, Wrap) -> row<Wrap>;

}  // namespace result_kinds
