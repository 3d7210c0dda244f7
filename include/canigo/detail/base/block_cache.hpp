#pragma once

#include <cstddef>
#include <new>

namespace canigo::detail {

/// Memory blocks of one size. The thread that frees a block caches it, so objects that are made and freed often need no
/// malloc.
///
/// A thread caches up to 64 blocks. It moves further blocks, in batches, to a store of up to 2048 blocks that all
/// threads share. A thread without blocks takes a batch from the store. So allocation stays cheap if one thread makes
/// objects that another thread frees.
inline constexpr std::size_t block_size = 256;

/// Returns a block from the cache if `size` bytes fit into one block, otherwise memory from the heap. Throws
/// std::bad_alloc.
void* allocate_block(std::size_t size);
void deallocate_block(void* p, std::size_t size) noexcept;

/// Makes sure that this thread can allocate its next `n` blocks (1 to 16) without failure. Throws std::bad_alloc.
void reserve_blocks(std::size_t n);

/// A standard allocator that uses the block cache. It has no state, so its lifetime does not matter.
template <class T>
struct block_allocator {
  using value_type = T;
  block_allocator() = default;
  template <class U>
  block_allocator(const block_allocator<U>&) noexcept {}
  T* allocate(std::size_t n) { return static_cast<T*>(allocate_block(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { deallocate_block(p, n * sizeof(T)); }
  template <class U>
  bool operator==(const block_allocator<U>&) const noexcept {
    return true;
  }
};

}  // namespace canigo::detail
