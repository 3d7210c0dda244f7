#pragma once

namespace canigo::detail {

/// Pauses a thread that polls a value, for some tens of processor cycles.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace canigo::detail
