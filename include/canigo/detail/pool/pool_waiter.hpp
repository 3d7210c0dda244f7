#pragma once

#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/detail/pool/pool_waiter_list.hpp"
#include "canigo/detail/pool/self_wait.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <cstdint>
#include <exception>
#include <tuple>
#include <utility>

namespace canigo::detail {

/// A caller that waits for an event of a pool.
class pool_waiter : public suspended, public pool_waiter_link, public self_wait::waiter {
 public:
  enum class purpose : std::uint8_t {
    run,     // the caller owns the task: a cancelled wait cancels the task, and ends when the task has ended
    result,  // the caller waits for the result of a task; a cancelled wait does not cancel the task
    group,
    closed,
  };

  pool_waiter(pool_core& home, purpose p, bool at_home) noexcept : home_{&home}, purpose_{p}, at_home_{at_home} {}

  bool is_for(purpose p) const noexcept { return purpose_ == p; }
  void request_cancel() noexcept;
  void abandon() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// If the waiting coroutine is an operation of the same pool, records the operation's worker. The executor of the
  /// coroutine tells which worker that is.
  void comes_from_coroutine(const net::any_io_executor& executor) noexcept {
    if (!at_home_) find_worker(executor);  // a worker's strand is never the executor of its pool
  }

 protected:
  ~pool_waiter() = default;
  /// The error of the wait; no error if it ended normally.
  std::error_code take_error() noexcept;

 private:
  friend class pool_core;
  void find_worker(const net::any_io_executor& executor) noexcept;
  void wait_in(pool_waiter_list& list) noexcept {
    state_ = state::waiting;
    list.push(*this);
  }
  int take_code() noexcept;
  enum class state : std::uint8_t { fresh, waiting, ending };

  pool_core* home_;
  pool_task* task_ = nullptr;  // the task, for purpose::run and purpose::result
  int code_ = 0;
  state state_ = state::fresh;
  purpose purpose_;
  bool at_home_;  // whether the handler's executor is the executor of the pool
};

/// The waiter of a coroutine that waits for an event of a pool. The coroutine reads the result after it is resumed.
class parked_waiter : public pool_waiter {
 public:
  using pool_waiter::pool_waiter;
  using results = std::tuple<std::error_code>;
  results take_results() noexcept;
};

/// A handler that receives the result of a task.
class task_waiter : public pool_waiter {
 public:
  task_waiter(pool_core& home, purpose p, bool at_home, task_ref<> task) noexcept
      : pool_waiter{home, p, at_home}, wanted_{std::move(task)}, is_only_one_{p == purpose::run} {}

 protected:
  ~task_waiter() = default;
  std::exception_ptr take_failure() noexcept;
  template <class T>
  T take_value() {
    auto& t = static_cast<result_task<T>&>(*wanted_);
    return is_only_one_ ? t.take() : t.share();
  }

 private:
  task_ref<> wanted_;
  bool is_only_one_;
};

template <class T>
class value_waiter : public task_waiter {
 public:
  using task_waiter::task_waiter;
  using results = std::tuple<std::exception_ptr, T>;
  results take_results() noexcept {
    std::exception_ptr e = this->take_failure();
    if (!e) {
      try {
        return {nullptr, this->template take_value<T>()};
      } catch (...) {
        e = std::current_exception();
      }
    }
    return {std::move(e), T()};
  }
  static results failed(errc code) noexcept { return {to_exception(code), T()}; }
};

template <>
class value_waiter<void> : public task_waiter {
 public:
  using task_waiter::task_waiter;
  using results = std::tuple<std::exception_ptr>;
  results take_results() noexcept { return {take_failure()}; }
  static results failed(errc code) noexcept { return {to_exception(code)}; }
};

}  // namespace canigo::detail
