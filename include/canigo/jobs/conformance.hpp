#pragma once

#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>

namespace canigo::jobs::conformance {

/// A test case throws this exception if the store fails the test. The exception's text contains the expectation, the
/// actual result, and the line of the test case.
class failure : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// The environment of a test case: the store, its clock and its event loop. Each test case gets its own world without
/// jobs.
class world {
 public:
  world() = default;
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  virtual ~world() = default;

  /// Opens a store with the jobs of this world and the default store_policy. A test case opens up to two stores, as two
  /// processes do. If the store exists only in one process, open() returns the same object each time.
  virtual std::shared_ptr<store> open() = 0;
  /// Moves the clock of the stores forward, or back for a negative `d`.
  virtual void advance(duration d) = 0;
  /// Runs the coroutine to its end, and throws its exception. The clock stands still meanwhile.
  virtual void run(net::awaitable<void> work) = 0;
};

/// A test case for a promise that every store must keep.
struct test_case {
  int number;               ///< number of the promise; several cases may have the same number
  std::string_view name;    ///< a sentence that describes the promise
  void (*check)(world& w);  ///< throws failure if the store breaks the promise
};

/// All test cases, the most important ones first. Use them in any test framework:
///
///     for (const auto& c : canigo::jobs::conformance::cases()) {
///       my_world w;
///       c.check(w);
///     }
std::span<const test_case> cases() noexcept;

}  // namespace canigo::jobs::conformance
