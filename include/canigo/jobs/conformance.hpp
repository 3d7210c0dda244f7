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

/// Thrown by a case that a store does not pass. The text says what was expected, what came, and the line of the case.
class failure : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// The store under test, its clock and its loop. Each case has a world of its own, with no jobs in it.
class world {
 public:
  world() = default;
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  virtual ~world() = default;

  /// A store on the jobs of this world, with the default store_policy. A case opens up to two, as two processes would.
  /// A store that lives in one process returns the same one again.
  virtual std::shared_ptr<store> open() = 0;
  /// Moves the clock of the stores forward, or back.
  virtual void advance(duration d) = 0;
  /// Runs the coroutine to its end and throws what it throws. The clock stands still.
  virtual void run(net::awaitable<void> work) = 0;
};

/// A promise that every store keeps.
struct test_case {
  int number;               ///< of the promise; cases of one promise share it
  std::string_view name;    ///< a sentence
  void (*check)(world& w);  ///< throws failure
};

/// All cases, most important first. In a test framework of your choice:
///
///     for (const auto& c : canigo::jobs::conformance::cases()) {
///       my_world w;
///       c.check(w);
///     }
std::span<const test_case> cases() noexcept;

}  // namespace canigo::jobs::conformance
