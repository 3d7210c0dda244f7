#pragma once

// Counts the heap allocations of a program, and can make one of them fail. Include it in one source file of a program
// only: it replaces operator new and, with glibc and without a sanitizer, malloc and related functions.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define CANIGO_TESTS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CANIGO_TESTS_SANITIZED
#endif
#endif

#if defined(__GLIBC__) && !defined(CANIGO_TESTS_SANITIZED)
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
void __libc_free(void*) noexcept;
}
#endif

namespace allocations {

#ifdef CANIGO_TESTS_SANITIZED
/// With a sanitizer the library caches no blocks, so that the sanitizer sees every allocation.
inline constexpr bool blocks_are_cached = false;
#else
inline constexpr bool blocks_are_cached = true;
#endif

inline std::atomic<std::int64_t> made{0};
inline std::atomic<std::int64_t> live{0};
inline std::atomic<std::int64_t> turn{0};  // the number of allocations that could fail so far
inline std::atomic<std::int64_t> fails_at{-1};
inline std::atomic<std::int64_t> fail_in_a_row{1};

/// The kinds of allocations that may fail.
enum victims : unsigned {
  none = 0,
  by_new = 1,
  by_malloc = 2,
  aligned = 4,  // allocations whose memory Asio recycles
  // all but aligned allocations, because a strand of Asio does not survive their failure
  unaligned = by_new | by_malloc,
  cplusplus = by_new | aligned,  // all but malloc(), for a C library that does not survive its failure
  all = unaligned | aligned,
};
inline std::atomic<victims> may_fail{all};

// tells which sizes operator new always provides without a failure
inline std::atomic<bool (*)(std::size_t size)> spares{nullptr};

inline thread_local char here = 0;  // a variable of each thread, whose address identifies the thread
inline std::atomic<const char*> may_fail_in{nullptr};

/// Counts an allocation, and returns whether it must fail.
inline bool fails(victims kind = by_malloc) noexcept {
  made.fetch_add(1, std::memory_order_relaxed);
  if ((kind & may_fail.load(std::memory_order_relaxed)) == 0) return false;
  if (const char* thread = may_fail_in; thread != nullptr && thread != &here) return false;
  const std::int64_t first = fails_at.load(std::memory_order_relaxed);
  const std::int64_t this_one = turn.fetch_add(1, std::memory_order_relaxed);
  return first >= 0 && this_one >= first && this_one - first < fail_in_a_row.load(std::memory_order_relaxed);
}

inline void* note(void* p) noexcept {
  if (p != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return p;
}

inline void* take(std::size_t size, victims kind = by_malloc) noexcept {
  if (fails(kind)) return nullptr;
#if defined(__GLIBC__) && !defined(CANIGO_TESTS_SANITIZED)
  return note(__libc_malloc(size));
#else
  return note(std::malloc(size));
#endif
}

inline void* take_for_new(std::size_t size) noexcept {
  const auto is_spared = spares.load(std::memory_order_relaxed);
  return take(size, is_spared != nullptr && is_spared(size) ? none : by_new);
}

inline void* take_aligned(std::size_t alignment, std::size_t size) noexcept {
  if (fails(aligned)) return nullptr;
#if defined(__GLIBC__) && !defined(CANIGO_TESTS_SANITIZED)
  return note(__libc_memalign(alignment, size));
#else
  void* p = nullptr;
  return ::posix_memalign(&p, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) == 0 ? note(p) : nullptr;
#endif
}

inline void give_back(void* p) noexcept {
  if (p != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
#if defined(__GLIBC__) && !defined(CANIGO_TESTS_SANITIZED)
  __libc_free(p);
#else
  std::free(p);
#endif
}

inline void* or_throw(void* p) {
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}

/// Counts the allocations since its construction.
class counted {
 public:
  std::int64_t so_far() const { return made - start_; }

 private:
  std::int64_t start_ = made;
};

/// Makes the k-th allocation, or several from there on, fail: those of all threads, or of the thread that passes &here.
/// It ends with stop() or the destructor. Catch may allocate for a check, so no check is made before that.
class failing {
 public:
  explicit failing(std::int64_t k, victims kind = all, std::int64_t in_a_row = 1, const char* thread = nullptr) {
    may_fail = kind;
    may_fail_in = thread;
    fail_in_a_row = in_a_row;
    turn = 0;
    fails_at = k;
  }
  ~failing() { stop(); }
  failing(const failing&) = delete;
  failing& operator=(const failing&) = delete;
  /// Returns whether an allocation has failed.
  bool stop() noexcept {
    const std::int64_t first = fails_at.exchange(-1);
    may_fail_in = nullptr;
    return first >= 0 && turn > first;
  }
};

/// Calls `scenario(k)`, in which the k-th allocation fails, for every k until it returns that it needed no more than k.
/// Returns how many allocations have failed. A test must check this number, because it may be 0.
template <class Scenario>
[[nodiscard]] std::int64_t for_every_allocation(Scenario scenario) {
  std::int64_t k = 0;
  while (scenario(k)) ++k;
  return k;
}

/// Calls `f` and catches exceptions, which Asio may throw here. Returns whether none was thrown.
template <class Function>
bool attempt(Function f) {
  try {
    f();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace allocations

#if defined(__GLIBC__) && !defined(CANIGO_TESTS_SANITIZED)
extern "C" {
void* malloc(std::size_t size) noexcept { return allocations::take(size); }
void* calloc(std::size_t n, std::size_t size) noexcept {
  return allocations::fails() ? nullptr : allocations::note(__libc_calloc(n, size));
}
void* realloc(void* p, std::size_t size) noexcept {
  if (allocations::fails()) return nullptr;
  void* q = __libc_realloc(p, size);
  return p == nullptr ? allocations::note(q) : q;
}
void* memalign(std::size_t alignment, std::size_t size) noexcept { return allocations::take_aligned(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return allocations::take_aligned(alignment, size);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t size) noexcept {
  void* q = allocations::take_aligned(alignment, size);
  if (q == nullptr) return ENOMEM;
  *p = q;
  return 0;
}
void free(void* p) noexcept { allocations::give_back(p); }
}
#else
// The memory that Asio allocates. It is not counted as live, because free() does not tell that it is Asio's.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* p = allocations::take_aligned(alignment, size);
  if (p != nullptr) allocations::live.fetch_sub(1, std::memory_order_relaxed);
  return p;
}
#endif

void* operator new(std::size_t size) { return allocations::or_throw(allocations::take_for_new(size)); }
void* operator new[](std::size_t size) { return allocations::or_throw(allocations::take_for_new(size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocations::or_throw(allocations::take_aligned(static_cast<std::size_t>(alignment), size));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocations::take_for_new(size); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocations::take_aligned(static_cast<std::size_t>(alignment), size);
}
void operator delete(void* p) noexcept { allocations::give_back(p); }
void operator delete(void* p, std::size_t) noexcept { allocations::give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { allocations::give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { allocations::give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { allocations::give_back(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { allocations::give_back(p); }
void operator delete[](void* p) noexcept { allocations::give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { allocations::give_back(p); }
