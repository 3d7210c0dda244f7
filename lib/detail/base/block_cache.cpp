#include "canigo/detail/base/block_cache.hpp"

#include "canigo/detail/base/fetch.hpp"
#include "canigo/detail/base/mutex.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace canigo::detail {

namespace {

// Under AddressSanitizer, reusing blocks would hide a use after free. So the cache then keeps only reserved blocks.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool enabled = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool enabled = false;
#else
constexpr bool enabled = true;
#endif
#else
constexpr bool enabled = true;
#endif

constexpr std::size_t batch = 32;
constexpr std::size_t most_batches = 64;

// Arrays store the addresses of blocks. A linked list through the blocks would be slow: to find the next block, the
// allocating core would read a block that may be in the cache of another core. A block is prefetched shortly before it
// is allocated.
constexpr std::size_t fetched_ahead = 2;
// the number of bytes of a block to prefetch: all cache lines but the last, which may contain the beginning of another
// block
constexpr std::size_t fetched_size = block_size - 64;

/// The store of blocks that all threads share. It is never destroyed, because a thread may still run after the
/// destruction of static objects.
struct depot {
  mutex lock;
  std::size_t count = 0;
  void* blocks[most_batches * batch]{};

  /// Adds a batch of blocks. Returns false if the store is full.
  bool give(void* const* from) noexcept {
    const std::lock_guard guard{lock};
    if (count == std::size(blocks)) return false;
    std::copy_n(from, batch, blocks + count);
    count += batch;
    return true;
  }

  bool take(void** to) noexcept {
    const std::lock_guard guard{lock};
    if (count == 0) return false;
    count -= batch;
    std::copy_n(blocks + count, batch, to);
    return true;
  }
};

constinit depot shared;

/// The blocks of one thread. The type is trivial, so that it can be used as long as the thread runs.
struct store {
  std::size_t count;
  std::size_t most;  // max number of kept blocks; 0 before the thread's first block and after the thread's end
  bool cleared_at_exit;
  bool is_over;
  void* blocks[2 * batch];
};

constinit thread_local store mine{};

void free_all(void* const* blocks, std::size_t n) noexcept {
  std::for_each_n(blocks, n, [](void* p) { ::operator delete(p); });
}

struct clear_at_exit {
  clear_at_exit() noexcept {
    mine.cleared_at_exit = true;
    mine.most = 2 * batch;
  }
  ~clear_at_exit() {
    mine.is_over = true;
    free_all(mine.blocks, std::exchange(mine.count, 0));
    mine.most = 0;
  }
};

void register_thread() noexcept {
  thread_local const clear_at_exit at_exit;
  (void)at_exit;
}

bool refill() noexcept {
  if (!shared.take(mine.blocks)) return false;
  if (!mine.cleared_at_exit) register_thread();
  mine.count = batch;
  return true;
}

void hand_over_a_batch() noexcept {
  mine.count -= batch;
  void* const* last = mine.blocks + mine.count;
  if (!shared.give(last)) free_all(last, batch);
}

void keep(void* p) noexcept { mine.blocks[mine.count++] = p; }

/// Called if the thread's store can't take a block now. This function and the next function are not inline, because
/// inlining would slow down the usual path.
[[gnu::noinline]] void keep_or_free(void* p) noexcept {
  if (mine.is_over) return ::operator delete(p);
  if (!mine.cleared_at_exit) register_thread();
  if (mine.count == mine.most) hand_over_a_batch();
  keep(p);
}

[[gnu::noinline]] void* allocate_without_cache(std::size_t size) {
  if (size > block_size) return ::operator new(size);
  // The memory has a block's size even for a smaller request, because the thread that frees it may keep it as a block.
  if (!enabled || mine.is_over || !refill()) return ::operator new(enabled ? block_size : size);
  return allocate_block(size);
}

}  // namespace

void* allocate_block(std::size_t size) {
  store& m = mine;
  if (size > block_size || m.count == 0) [[unlikely]]
    return allocate_without_cache(size);
  void* p = m.blocks[--m.count];
  if (m.count >= fetched_ahead) fetch(m.blocks[m.count - fetched_ahead], fetched_size);
  return p;
}

void deallocate_block(void* p, std::size_t size) noexcept {
  if (!enabled || size > block_size) [[unlikely]]
    return ::operator delete(p);
  if (mine.count == mine.most) [[unlikely]]
    return keep_or_free(p);
  keep(p);
}

void reserve_blocks(std::size_t n) {
  while (mine.count < n && !mine.is_over) {  // a thread that is ending keeps no blocks
    void* p = ::operator new(block_size);
    if (mine.count == mine.most) {
      keep_or_free(p);
    } else {
      keep(p);
    }
  }
}

}  // namespace canigo::detail
