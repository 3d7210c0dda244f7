#pragma once

#include <cstddef>

namespace canigo::detail {

/// Makes the processor load `size` bytes at `p` into its cache for writing. Use it for memory to which another core has
/// written last.
inline void fetch(const void* p, std::size_t size) noexcept {
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < size; i += line) __builtin_prefetch(static_cast<const std::byte*>(p) + i, 1);
}

}  // namespace canigo::detail
