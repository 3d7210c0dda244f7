#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/time.hpp"

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>

namespace canigo {

/// Keeps retries from overloading a service that is down. Each first attempt allows only a part of a retry.
///
/// Every first attempt pays in `percent` of a retry, and every retry takes one out. So when all attempts fail, the
/// load grows by `percent`, not by the number of attempts. Share one budget among all callers of the same service; it
/// must outlive them.
///
/// Source: the retry budgets of Finagle and of gRPC (gRFC A6).
/// Threads: any, all members, at once. Allocates: never.
class retry_budget {
 public:
  struct options {
    std::uint32_t percent = 20;  ///< of a retry that each first attempt pays in; 0 to 1000
    std::uint32_t reserve = 10;  ///< retries that are there at the start
    std::uint32_t most = 100;    ///< retries that can be saved up; at least `reserve`, at least 1
  };

  retry_budget() : retry_budget{options{}} {}
  /// Throws std::system_error, errc::invalid_argument.
  explicit retry_budget(const options& o);
  retry_budget(const retry_budget&) = delete;
  retry_budget& operator=(const retry_budget&) = delete;

  /// Pays in for one first attempt.
  void pay_in() noexcept;
  /// Takes one retry out, if there is one.
  [[nodiscard]] bool try_take() noexcept;
  /// The whole retries that are left.
  std::uint32_t left() const noexcept {
    return static_cast<std::uint32_t>(balance_.load(std::memory_order_relaxed) / 100);
  }

 private:
  std::atomic<std::uint64_t> balance_;  // in hundredths
  const std::uint64_t percent_;
  const std::uint64_t most_;
};

/// Says which failures are worth another attempt: a lambda without captures, of one of two forms.
///
///     .retry_if = [](const std::exception_ptr& e) { return is_temporary(e); }
///     .retry_if = [](const std::exception_ptr& e) -> std::optional<canigo::duration> { return retry_after(e); }
///
/// The second form returns nothing if the failure is not worth another attempt. Otherwise it returns the least delay,
/// such as the one that a server asked for. The backoff may make the delay longer.
class retry_condition {
 public:
  /// No condition: retry(), or the pool, uses its default.
  constexpr retry_condition(std::nullptr_t = nullptr) noexcept {}
  template <std::invocable<const std::exception_ptr&> F>
    requires std::is_empty_v<F> && std::default_initializable<F>
  constexpr retry_condition(F) noexcept : ask_{[](const std::exception_ptr& error) { return answer(F{}(error)); }} {}

  /// Does not compile: the compiler's message says what to write.
  template <class F>
    requires(!std::is_convertible_v<F, std::nullptr_t> && !std::is_same_v<F, retry_condition> &&
             !(std::invocable<F, const std::exception_ptr&> && std::is_empty_v<F> && std::default_initializable<F>))
  constexpr retry_condition(F) noexcept {
    static_assert(std::is_void_v<F>,
                  "retry_if: a lambda without captures is wanted: [](const std::exception_ptr& e) { return true; }");
  }

  constexpr explicit operator bool() const noexcept { return ask_ != nullptr; }

  /// The least delay before another attempt; nothing if there should be none. Not for an empty condition.
  std::optional<duration> operator()(const std::exception_ptr& error) const { return ask_(error); }

 private:
  static constexpr std::optional<duration> answer(bool is_worth_it) noexcept {
    return is_worth_it ? std::optional{duration::zero()} : std::nullopt;
  }
  static constexpr std::optional<duration> answer(std::optional<duration> least_delay) noexcept { return least_delay; }

  // A single pointer, because each task with options in a pool stores a retry_condition.
  std::optional<duration> (*ask_)(const std::exception_ptr& error) = nullptr;
};

/// Whether and when a failed operation is tried again: by retry(), or by a pool.
///
/// Trivially destructible on purpose, so that it can stand in a co_await expression under every compiler.
struct retry_policy {
  /// Attempts in all, the first one included. 0: retry() makes 3 attempts, a task takes the whole policy of its pool,
  /// and a pool makes one attempt.
  std::uint32_t attempts = 0;
  canigo::backoff backoff = {};    ///< between one attempt and the next
  retry_budget* budget = nullptr;  ///< shared by all callers of the same service; must outlive them
  /// Which failures are worth another attempt. Null: all but operation_aborted. It is called with the exception of the
  /// attempt. In a pool, an attempt that took too long gives errc::timed_out. It is not called once the operation is
  /// cancelled. No lock is held.
  retry_condition retry_if = {};
};

}  // namespace canigo
