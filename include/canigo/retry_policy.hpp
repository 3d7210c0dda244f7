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

/// A budget that limits the number of retries, so that retries do not overload a service that is down.
///
/// Each first attempt adds `percent` of a retry to the budget. Each retry takes one whole retry out. So with 20
/// percent, retries add at most 20 % to the load in the long run, even if all attempts fail. All callers of the same
/// service should share one budget. The budget must outlive these callers.
///
/// Source: the retry budgets of Finagle and of gRPC (gRFC A6).
/// Threads: any thread may call any member at any time. Allocates: never.
class retry_budget {
 public:
  struct options {
    std::uint32_t percent = 20;  ///< how much each first attempt adds to the budget, in percent of a retry; 0 to 1000
    std::uint32_t reserve = 10;  ///< number of retries in the budget at the start
    std::uint32_t most = 100;    ///< max number of retries in the budget; at least `reserve`, at least 1
  };

  retry_budget() : retry_budget{options{}} {}
  /// Throws std::system_error (errc::invalid_argument) for an option out of range.
  explicit retry_budget(const options& o);
  retry_budget(const retry_budget&) = delete;
  retry_budget& operator=(const retry_budget&) = delete;

  /// Call it for each first attempt. Adds `percent` of a retry to the budget.
  void pay_in() noexcept;
  /// Takes one retry out of the budget. Returns false if the budget has no whole retry.
  [[nodiscard]] bool try_take() noexcept;
  /// The number of whole retries in the budget.
  std::uint32_t left() const noexcept {
    return static_cast<std::uint32_t>(balance_.load(std::memory_order_relaxed) / 100);
  }

 private:
  std::atomic<std::uint64_t> balance_;  // the content of the budget, in hundredths of a retry
  const std::uint64_t percent_;
  const std::uint64_t most_;
};

/// Decides which failures are worth another attempt: a lambda without captures, in one of two forms.
///
///     .retry_if = [](const std::exception_ptr& e) { return is_temporary(e); }
///     .retry_if = [](const std::exception_ptr& e) -> std::optional<canigo::duration> { return retry_after(e); }
///
/// The second form returns std::nullopt if the failure is not worth another attempt. Otherwise it returns the minimum
/// delay, such as the one that a server requested. The backoff may make the delay longer.
class retry_condition {
 public:
  /// No condition: retry(), or the pool, uses its default condition.
  constexpr retry_condition(std::nullptr_t = nullptr) noexcept {}
  template <std::invocable<const std::exception_ptr&> F>
    requires std::is_empty_v<F> && std::default_initializable<F>
  constexpr retry_condition(F) noexcept : ask_{[](const std::exception_ptr& error) { return answer(F{}(error)); }} {}

  /// Rejects all conditions except lambdas without captures, at compile time. The compiler's message shows the right
  /// form.
  template <class F>
    requires(!std::is_convertible_v<F, std::nullptr_t> && !std::is_same_v<F, retry_condition> &&
             !(std::invocable<F, const std::exception_ptr&> && std::is_empty_v<F> && std::default_initializable<F>))
  constexpr retry_condition(F) noexcept {
    static_assert(std::is_void_v<F>,
                  "retry_if: a lambda without captures is wanted: [](const std::exception_ptr& e) { return true; }");
  }

  constexpr explicit operator bool() const noexcept { return ask_ != nullptr; }

  /// Returns the minimum delay before another attempt; std::nullopt if there should be no other attempt. Precondition:
  /// this object was made with a function.
  std::optional<duration> operator()(const std::exception_ptr& error) const { return ask_(error); }

 private:
  static constexpr std::optional<duration> answer(bool is_worth_it) noexcept {
    return is_worth_it ? std::optional{duration::zero()} : std::nullopt;
  }
  static constexpr std::optional<duration> answer(std::optional<duration> least_delay) noexcept { return least_delay; }

  // A plain function pointer, to save memory: each pool task with options stores a retry_condition.
  std::optional<duration> (*ask_)(const std::exception_ptr& error) = nullptr;
};

/// Whether and when retry() or a pool repeats a failed operation.
///
/// The struct is trivially destructible, because some compilers mishandle other types inside a co_await expression.
struct retry_policy {
  /// Max number of attempts, including the first. 0: retry() makes 3 attempts, a task uses the whole policy of its
  /// pool, and a pool makes one attempt.
  std::uint32_t attempts = 0;
  canigo::backoff backoff = {};  ///< the delay between two attempts
  /// the budget that all callers of the same service share, and that must outlive these callers; null: no budget
  retry_budget* budget = nullptr;
  /// Decides which failures are worth another attempt. Null: all except operation_aborted. The condition is called with
  /// the exception of the attempt and with no lock held. In a pool, an attempt that exceeded its time limit has
  /// errc::timed_out. After the operation is cancelled, the condition is not called.
  retry_condition retry_if = {};
};

}  // namespace canigo
