#include "canigo/detail/block_cache.hpp"

#include "canigo/detail/mutex.hpp"

#include <mutex>

namespace canigo::detail {

namespace {

// Under AddressSanitizer a block that is used again would hide a use after free: there only what is reserved is kept.
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

constexpr unsigned batch = 32;
constexpr unsigned most_batches = 64;

struct block {
  block* next;
  block* next_batch;
};

void free_all(block* b) noexcept {
  while (b != nullptr) {
    block* next = b->next;
    ::operator delete(b);
    b = next;
  }
}

/// What all threads share. Never destroyed: threads may end after it would be.
struct depot {
  mutex lock;
  block* batches = nullptr;
  unsigned count = 0;

  bool give(block* first) noexcept {
    const std::lock_guard guard{lock};
    if (count == most_batches) return false;
    first->next_batch = batches;
    batches = first;
    ++count;
    return true;
  }

  block* take() noexcept {
    const std::lock_guard guard{lock};
    block* first = batches;
    if (first != nullptr) {
      batches = first->next_batch;
      --count;
    }
    return first;
  }
};

constinit depot shared;

/// What a thread keeps. Trivial, so that it can be used as long as the thread runs.
struct store {
  block* first;
  unsigned room;  // for so many more; 0 also before the first one and after the end
  bool cleared_at_exit;
  bool is_over;
};

constinit thread_local store mine{};

unsigned count() noexcept { return mine.cleared_at_exit ? 2 * batch - mine.room : 0; }

struct clear_at_exit {
  clear_at_exit() noexcept {
    mine.cleared_at_exit = true;
    mine.room = 2 * batch;
  }
  ~clear_at_exit() {
    mine.is_over = true;
    free_all(mine.first);
    mine.first = nullptr;
    mine.room = 0;
  }
};

void register_thread() noexcept {
  thread_local const clear_at_exit at_exit;
  (void)at_exit;
}

bool refill() noexcept {
  block* first = shared.take();
  if (first == nullptr) return false;
  if (!mine.cleared_at_exit) register_thread();
  mine.first = first;
  mine.room -= batch;
  return true;
}

void hand_over_a_batch() noexcept {
  block* first = mine.first;
  block* last = first;
  for (unsigned i = 1; i < batch; ++i) last = last->next;
  mine.first = last->next;
  mine.room += batch;
  last->next = nullptr;
  if (!shared.give(first)) free_all(first);
}

void keep(void* p) noexcept {
  mine.first = ::new (p) block{mine.first, nullptr};
  --mine.room;
}

/// Where the thread has no room: yet, any more, or just now.
void keep_or_free(void* p) noexcept {
  if (mine.is_over) return ::operator delete(p);
  if (!mine.cleared_at_exit) register_thread();
  if (mine.room == 0) hand_over_a_batch();
  keep(p);
}

void* allocate_without_cache(std::size_t size) {
  if (size > block_size) return ::operator new(size);
  // Of a block's size in any case where another thread may keep it.
  if (!enabled || mine.is_over || !refill()) return ::operator new(enabled ? block_size : size);
  return allocate_block(size);
}

}  // namespace

void* allocate_block(std::size_t size) {
  block* b = mine.first;
  if (size > block_size || b == nullptr) [[unlikely]]
    return allocate_without_cache(size);
  mine.first = b->next;
  __builtin_prefetch(b->next, 1);  // it may be in the cache of who freed it
  ++mine.room;
  return b;
}

void deallocate_block(void* p, std::size_t size) noexcept {
  if (!enabled || size > block_size) [[unlikely]]
    return ::operator delete(p);
  if (mine.room == 0) [[unlikely]]
    return keep_or_free(p);
  keep(p);
}

void reserve_blocks(std::size_t n) {
  while (count() < n) {  // a thread that is ending has no room left to fill
    void* p = ::operator new(block_size);
    if (mine.room == 0) {
      keep_or_free(p);
    } else {
      keep(p);
    }
  }
}

}  // namespace canigo::detail
