#pragma once

#include "canigo/algorithms/circuit.hpp"
#include "canigo/detail/context/counted_member.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace canigo::detail {

/// The counts of a circuit breaker since its construction.
struct circuit_counts {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t slow = 0;
  std::uint64_t unreported = 0;
  std::uint64_t refused = 0;
  std::uint64_t would_refuse = 0;
  std::uint64_t opened = 0;
};

/// A `circuit` with a lock, a clock and an observer. It lives as long as its handle or one of its calls exists.
class breaker_core final : public counted_member {
 public:
  /// How a call ended.
  enum class end { succeeded, failed, unreported };
  struct entry {
    bool goes;
    circuit::epoch epoch;
    time_point since;   // when the call began; set only if slow calls count
    duration open_for;  // for how long calls are refused; set only if this call is refused
  };

  /// Returns a new core with one reference, which the caller must release.
  static breaker_core* open(const net::any_io_executor& executor, const circuit_breaker_options& options);

  entry enter() noexcept;
  void leave(circuit::epoch e, time_point since, end how) noexcept;
  time_point now() const noexcept { return clock(); }
  const std::string& name() const noexcept { return name_; }
  bool is_failure(const std::exception_ptr& error) const { return failed_if_(error); }

  /// Locks this core and calls `f`, which may read or change the circuit. If the circuit's state has changed, tells the
  /// observer afterwards.
  template <class Function>
  auto change(Function&& f) {
    const time_point now = clock();
    const telling t{*this};
    return f(circuit_, now);
  }
  template <class Function>
  auto look(Function&& f) const noexcept {
    const time_point now = clock();
    mutex_.lock();
    const auto seen = f(circuit_, counts_, now);
    mutex_.unlock();
    return seen;
  }
  void set_mode(enforcement mode) noexcept;

 private:
  /// Holds the lock of the core. The destructor releases the lock. If the circuit's state has changed while the lock
  /// was held, the destructor also tells the observer, after the release.
  class telling {
   public:
    explicit telling(breaker_core& c) noexcept : core_{c} {
      core_.mutex_.lock();
      before_ = core_.circuit_.last_change().number;
    }
    telling(const telling&) = delete;
    telling& operator=(const telling&) = delete;
    ~telling() {
      if (core_.circuit_.last_change().number != before_) [[unlikely]] {
        core_.tell();
      } else {
        core_.mutex_.unlock();
      }
    }

   private:
    breaker_core& core_;
    std::uint64_t before_;
  };

  breaker_core(const net::any_io_executor& executor, const circuit_breaker_options& options);
  ~breaker_core() override = default;
  void let_go_of_context() noexcept override { time_ = nullptr; }
  void end_with_context() noexcept override;
  void tell() noexcept;

  circuit circuit_;
  circuit_counts counts_;
  const duration slow_;
  bool (*const failed_if_)(const std::exception_ptr&);
  circuit_observer* const observer_;
  enforcement mode_;
  const std::string name_;
};

}  // namespace canigo::detail
