#include "shortage.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace simulated {

namespace {

int before_failure = -1;  // allocations that succeed before the one that fails; negative: none will
bool has_failed = false;

void* take(std::size_t size) noexcept {
  if (before_failure >= 0 && before_failure-- == 0) {
    has_failed = true;
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

shortage::shortage(int k) noexcept {
  before_failure = k;
  has_failed = false;
}

shortage::~shortage() { before_failure = -1; }

bool shortage::has_struck() const noexcept { return has_failed; }

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
