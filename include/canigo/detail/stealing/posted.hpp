#pragma once

#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/context/work_item.hpp"

#include <memory>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// A work item that calls a function which was passed to an executor.
template <class Function, class Allocator>
class posted final : public work_item {
 public:
  template <class F>
  posted(F&& f, const Allocator& allocator) : function_(std::forward<F>(f)), allocator_(allocator) {}

  void resume() override {
    Function f(std::move(function_));
    free();
    std::move(f)();
  }
  void destroy() noexcept override {
    [[maybe_unused]] const Function f(std::move(function_));
    free();
  }

 private:
  void free() noexcept {
    typename std::allocator_traits<Allocator>::template rebind_alloc<posted> allocator{allocator_};
    this->~posted();
    allocator.deallocate(this, 1);
  }

  Function function_;
  [[no_unique_address]] Allocator allocator_;
};

/// Returns the allocator for a posted function: the thread's block cache if `allocator` is a std::allocator, otherwise
/// `allocator` itself.
template <class Allocator>
auto allocator_of_posted(const Allocator& allocator) noexcept {
  if constexpr (std::is_same_v<typename std::allocator_traits<Allocator>::template rebind_alloc<char>,
                               std::allocator<char>>) {
    return block_allocator<char>{};
  } else {
    return allocator;
  }
}

/// Makes a work item that calls `function`. Throws the exceptions of the allocator and of the function's constructors.
template <class Function, class Allocator>
work_item* make_posted(Function&& function, const Allocator& wanted) {
  using allocator_type = decltype(allocator_of_posted(wanted));
  using op = posted<std::decay_t<Function>, allocator_type>;
  typename std::allocator_traits<allocator_type>::template rebind_alloc<op> allocator{allocator_of_posted(wanted)};
  op* const p = allocator.allocate(1);
  try {
    return ::new (static_cast<void*>(p)) op(std::forward<Function>(function), allocator_type{allocator});
  } catch (...) {
    allocator.deallocate(p, 1);
    throw;
  }
}

}  // namespace canigo::detail
