#pragma once

#include "machine_context.hpp"

#include <cstddef>
#include <memory>

namespace interleaving {

/// A stack of its own for one thread of a model. All fibers run on the thread that made them, one at a time, and give
/// way only by switch_to().
class fiber {
 public:
  /// What it runs; returns the fiber that goes on when that is over.
  using function = fiber& (*)(void* argument);

  /// The one that the calling thread is in already, until begin().
  fiber() noexcept;
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// The next switch to it calls f(argument). What it ran before is over, or is left for good where it is.
  void begin(function f, void* argument);
  /// Leaves the running fiber, which is this one, for `other`; returns when somebody switches back.
  void switch_to(fiber& other) noexcept;

 private:
  struct stack;
  /// What the C++ runtime keeps for each thread about exceptions under way.
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
  void* fake_stack_ = nullptr;              // the address sanitizer's
  const void* sanitizer_bottom_ = nullptr;  // of a stack that the thread had before
  std::size_t sanitizer_size_ = 0;
};

}  // namespace interleaving
