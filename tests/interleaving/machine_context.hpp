#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace interleaving {

/// Where a flow of execution stands: its stack and the registers that a call has to keep.
///
/// On x86-64 a switch is a dozen instructions. What <ucontext.h> has, and is used elsewhere, asks the kernel for the
/// signal mask each time, which takes ten times as long.
class machine_context {
 public:
  /// That of the flow which calls switch_to() first.
  machine_context() = default;
  machine_context(const machine_context&) = delete;
  machine_context& operator=(const machine_context&) = delete;

  /// From here on, the first switch to this calls `function(argument)`, which must not return.
  void begin(void* stack, std::size_t size, void (*function)(void*), void* argument) noexcept;
  /// Leaves this, which is where the caller is, for `other`; returns when somebody switches back.
  void switch_to(machine_context& other) noexcept;

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  static void call(unsigned int function_high, unsigned int function_low, unsigned int argument_high,
                   unsigned int argument_low);
  ucontext_t context_{};
#endif
};

}  // namespace interleaving
