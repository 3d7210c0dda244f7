// Blocks for the pools, in place of the library's: what is kept from one run would make the next one another, as the
// lock of those that all threads share is taken only when a thread's own are used up.

#include "canigo/detail/base/block_cache.hpp"

#include <cstddef>
#include <new>

namespace canigo::detail {

void* allocate_block(std::size_t size) { return ::operator new(size); }

void deallocate_block(void* p, std::size_t) noexcept { ::operator delete(p); }

void reserve_blocks(std::size_t) {}

}  // namespace canigo::detail
