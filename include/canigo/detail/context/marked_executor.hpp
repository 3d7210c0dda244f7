#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The base class of a mark on an executor. The work on the executor runs on behalf of an object, such as a policy. The
/// mark stores the address of this object in `maker`.
///
/// A program may keep a copy of the executor after the work has ended, so the mark may outlive the work. Hold the
/// maker's lock while you check whether the work has ended.
struct executor_mark {
  executor_mark(const void* whose, const net::any_io_executor& executor)
      : maker{whose}, inner{executor}, posting{net::require(executor, net::execution::blocking.never)} {}
  virtual ~executor_mark() = default;
  const void* const maker;
  const net::any_io_executor inner;    // the executor on which the work runs
  const net::any_io_executor posting;  // `inner` with blocking.never: it never runs functions inside execute()

  /// Returns whether the work holds a permit. If so, the permit is not released before let_go(), even if the work ends
  /// earlier.
  virtual bool keep() noexcept { return false; }
  virtual void let_go() noexcept {}
};

/// An executor with a mark. Operations that a coroutine starts on it can use mark_of() to find out that they run inside
/// the marked work.
///
/// All other properties are those of the inner executor: it is a strand only if the inner executor is one.
class marked_executor {
 public:
  explicit marked_executor(std::shared_ptr<executor_mark> mark) noexcept : mark_{std::move(mark)} {}

  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(mark_->inner, net::execution::context);
  }
  /// Returns blocking.never if require() has requested it; otherwise blocking.possibly. A strand on top of this
  /// executor queries this property. With blocking.possibly, the strand runs a function immediately if the function is
  /// posted inside the strand.
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

/// Keeps the permits of all work whose mark is on `executor`, or on an executor that `executor` wraps. While this
/// object exists, these permits are not released, even after the work has ended.
class kept_places {
 public:
  explicit kept_places(const net::any_io_executor& executor);
  ~kept_places();
  kept_places(const kept_places&) = delete;
  kept_places& operator=(const kept_places&) = delete;

 private:
  std::vector<std::shared_ptr<executor_mark>> marks_;
};

/// Returns the mark of `maker` on `executor`, or on an executor that `executor` wraps; null if there is none. If there
/// are several such marks, returns the outermost one, which was added last.
std::shared_ptr<executor_mark> mark_of(const net::any_io_executor& executor, const void* maker);

}  // namespace canigo::detail
