#pragma once

#include <cstddef>
#include <new>

namespace canigo::detail {

/// Blocks of one size. The thread that frees a block keeps it, so an object that is made and freed often costs no
/// malloc.
///
/// A thread keeps up to 64 blocks. It gives a surplus, in batches, to a store that all threads share, up to 2048
/// blocks. A thread without blocks takes a batch from there. So allocation stays cheap if one thread makes the objects
/// that another one frees.
inline constexpr std::size_t block_size = 256;

/// A block from the cache if `size` fits one, else memory from the heap. Throws std::bad_alloc.
void* allocate_block(std::size_t size);
void deallocate_block(void* p, std::size_t size) noexcept;

/// Makes sure that the next `n` blocks, 1 to 16, that this thread allocates are there. Throws std::bad_alloc.
void reserve_blocks(std::size_t n);

/// A standard allocator over the cache. It has no state, so it may outlive anything.
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
