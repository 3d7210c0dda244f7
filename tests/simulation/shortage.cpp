#include "shortage.hpp"

#include "canigo/detail/base/block_cache.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace simulated {

namespace {

int before_failure = -1;  // allocations that succeed before the one that fails; negative: none will
unsigned long failed = 0;
unsigned long taken = 0;

void* take(std::size_t size) noexcept {
  ++taken;
  if (before_failure >= 0 && before_failure-- == 0) {
    ++failed;
    return nullptr;
  }
  return std::malloc(size);
}

void* take_or_throw(std::size_t size) {
  void* p = take(size);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}

}  // namespace

void empty_the_cache() noexcept {
  for (bool is_empty = false; !is_empty;) {
    const unsigned long before = taken;
    ::operator delete(canigo::detail::allocate_block(canigo::detail::block_size));
    is_empty = taken != before;
  }
}

shortage::shortage(int k) noexcept : is_active_{k >= 0}, strikes_before_{failed} {
  if (!is_active_) return;
  before_failure = -1;
  empty_the_cache();  // or what was played before would decide which allocation is the k-th
  before_failure = k;
}

shortage::~shortage() {
  if (is_active_) before_failure = -1;
}

bool shortage::has_struck() const noexcept { return is_active_ && failed != strikes_before_; }

unsigned long shortage::strikes() noexcept { return failed; }

plenty::plenty() noexcept : before_failure_{before_failure} { before_failure = -1; }

plenty::~plenty() { before_failure = before_failure_; }

}  // namespace simulated

void* operator new(std::size_t size) { return simulated::take_or_throw(size); }
void* operator new[](std::size_t size) { return simulated::take_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return simulated::take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return simulated::take(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
