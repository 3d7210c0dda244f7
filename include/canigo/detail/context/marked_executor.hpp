#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// It says whose work runs on an executor. Its maker derives from it.
///
/// A copy of an executor may be kept for long, so a mark may outlive the work. Its maker knows, under a lock of its
/// own, whether the work still goes on.
struct executor_mark {
  executor_mark(const void* whose, const net::any_io_executor& executor)
      : maker{whose}, inner{executor}, posting{net::require(executor, net::execution::blocking.never)} {}
  virtual ~executor_mark() = default;
  const void* const maker;
  const net::any_io_executor inner;    // where the work runs
  const net::any_io_executor posting;  // `inner`, never from inside execute()

  /// Whether the work holds a place. Then that is not given back before let_go(), though the work may end meanwhile.
  virtual bool keep() noexcept { return false; }
  virtual void let_go() noexcept {}
};

/// The executor of a mark, so that whatever a coroutine starts inside of its work can find out where it is.
///
/// It adds nothing but the mark: it is a strand only if the one below is.
class marked_executor {
 public:
  explicit marked_executor(std::shared_ptr<executor_mark> mark) noexcept : mark_{std::move(mark)} {}

  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(mark_->inner, net::execution::context);
  }
  /// A strand above this executor asks: it runs a post at once unless it is told that nothing may run at once.
  net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    return never_blocks_ ? net::execution::blocking_t{net::execution::blocking.never}
                         : net::execution::blocking_t{net::execution::blocking.possibly};
  }
  marked_executor require(net::execution::blocking_t::never_t) const noexcept { return {mark_, true}; }
  marked_executor require(net::execution::blocking_t::possibly_t) const noexcept { return {mark_, false}; }

  template <class Function>
  void execute(Function&& f) const {
    (never_blocks_ ? mark_->posting : mark_->inner).execute(std::forward<Function>(f));
  }

  bool operator==(const marked_executor& other) const noexcept {
    return mark_ == other.mark_ && never_blocks_ == other.never_blocks_;
  }
  bool operator!=(const marked_executor& other) const noexcept { return !(*this == other); }

  const std::shared_ptr<executor_mark>& mark() const noexcept { return mark_; }

 private:
  marked_executor(std::shared_ptr<executor_mark> mark, bool never_blocks) noexcept
      : mark_{std::move(mark)}, never_blocks_{never_blocks} {}

  std::shared_ptr<executor_mark> mark_;
  bool never_blocks_ = false;
};

/// Keeps the places of all work that an executor is marked with, if they have not been given back.
class kept_places {
 public:
  explicit kept_places(const net::any_io_executor& executor);
  ~kept_places();
  kept_places(const kept_places&) = delete;
  kept_places& operator=(const kept_places&) = delete;

 private:
  std::vector<std::shared_ptr<executor_mark>> marks_;
};

/// The innermost mark of `maker` on `executor` or on an executor below it; null if there is none.
std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker);

}  // namespace canigo::detail
