#pragma once

#include "machine_context.hpp"

#include <cstddef>
#include <memory>

namespace interleaving {

/// A thread of a model with its own stack. All fibers run on the thread that made them, one at a time, and yield only
/// in switch_to().
class fiber {
 public:
  /// The function of a fiber. It returns the fiber that continues when it has ended.
  using function = fiber& (*)(void* argument);

  /// Represents the calling thread's own stack, until begin().
  fiber() noexcept;
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// The next switch to this fiber calls f(argument). A function that the fiber ran before has ended, or is abandoned.
  void begin(function f, void* argument);
  /// Suspends this fiber, which is running, and continues `other`. Returns when another fiber switches back.
  void switch_to(fiber& other) noexcept;

 private:
  struct stack;
  /// The state of the C++ runtime about a thread's exceptions.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static void run(void* of);
  void arrive() noexcept;
  void announce(void** leaving) const noexcept;

  machine_context context_;
  std::unique_ptr<stack> stack_;
  function function_ = nullptr;
  void* argument_ = nullptr;
  exceptions* const of_thread_;
  exceptions exceptions_;
  void* fake_stack_ = nullptr;              // the fake stack of the address sanitizer
  const void* sanitizer_bottom_ = nullptr;  // the bottom of the stack that the thread had before
  std::size_t sanitizer_size_ = 0;
};

}  // namespace interleaving
