#pragma once

#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <typeinfo>
#include <utility>

namespace canigo::detail {

/// Memory for one operation that is posted again and again. With this memory, posting it never allocates and never
/// fails.
template <std::size_t Size>
class fixed_memory {
 public:
  void* take(std::size_t size) noexcept {
    if (size > Size || in_use_.exchange(true, std::memory_order_acquire)) return nullptr;
    return storage_;
  }

  bool give_back(void* p) noexcept {
    if (p != storage_) return false;
    in_use_.store(false, std::memory_order_release);
    return true;
  }

 private:
  alignas(std::max_align_t) std::byte storage_[Size];
  std::atomic<bool> in_use_{false};
};

/// An allocator that uses a fixed_memory. If the requested size is too large for that memory, or the memory is in use,
/// it allocates from the heap.
template <class T, std::size_t Size>
class fixed_allocator {
 public:
  using value_type = T;
  template <class U>
  struct rebind {
    using other = fixed_allocator<U, Size>;
  };

  explicit fixed_allocator(fixed_memory<Size>& memory) noexcept : memory_{&memory} {}
  template <class U>
  fixed_allocator(const fixed_allocator<U, Size>& other) noexcept : memory_{other.memory_} {}

  T* allocate(std::size_t n) {
    void* p = memory_->take(n * sizeof(T));
    return static_cast<T*>(p != nullptr ? p : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t) noexcept {
    if (!memory_->give_back(p)) ::operator delete(p);
  }

  template <class U>
  bool operator==(const fixed_allocator<U, Size>& other) const noexcept {
    return memory_ == other.memory_;
  }

 private:
  template <class, std::size_t>
  friend class fixed_allocator;
  fixed_memory<Size>* memory_;
};

/// A pointer to the concrete executor inside `executor` if it is an `Executor`, otherwise nullptr.
///
/// In Asio 1.22, any_executor::target() does not check the type, and returns a pointer to any executor. So this
/// function checks the type. With ASIO_NO_TYPEID the type is unknown. Then this function returns nullptr, and callers
/// use the slower path for all executors.
template <class Executor>
const Executor* target_of(const net::any_io_executor& executor) noexcept {
#if defined(ASIO_NO_TYPEID)
  static_cast<void>(executor);
  return nullptr;
#else
  return executor.target_type() == typeid(Executor) ? executor.target<Executor>() : nullptr;
#endif
}

/// Posts to `executor`. If `executor` contains the executor of an io_context, posts directly to the executor of the
/// io_context.
///
/// Asio's any_executor allocates for each function and does not use the function's allocator. The executor of an
/// io_context uses the function's allocator.
template <class Function>
void post(const net::any_io_executor& executor, Function&& function) {
  if (const auto* io = target_of<net::io_context::executor_type>(executor)) {
    net::post(*io, std::forward<Function>(function));
  } else {
    // With an empty executor some versions of Asio crash, and others throw bad_executor. So this function always
    // throws.
    if (!executor) throw net::execution::bad_executor{};
    net::post(executor, std::forward<Function>(function));
  }
}

/// If `executor` is a strand or a marked executor, returns the executor of the execution context below it. Returns any
/// other executor unchanged.
net::any_io_executor context_executor(const net::any_io_executor& executor);

}  // namespace canigo::detail
