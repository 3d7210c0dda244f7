#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace interleaving {

/// The state of a suspended flow of execution: its stack, and the registers that a call must preserve.
///
/// On x86-64 a switch takes a dozen instructions. The alternative <ucontext.h>, which is used on other machines, asks
/// the kernel for the signal mask each time, which takes ten times as long.
class machine_context {
 public:
  /// Represents the flow that calls switch_to() first.
  machine_context() = default;
  machine_context(const machine_context&) = delete;
  machine_context& operator=(const machine_context&) = delete;

  /// After this, the first switch to this context calls `function(argument)`, which must not return.
  void begin(void* stack, std::size_t size, void (*function)(void*), void* argument) noexcept;
  /// Suspends the caller, whose context this is, and continues `other`. Returns when another flow switches back.
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
