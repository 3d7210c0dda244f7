#pragma once

namespace canigo::detail {

/// A pause of a thread that looks at a value again and again: some tens of cycles of the processor.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace canigo::detail
