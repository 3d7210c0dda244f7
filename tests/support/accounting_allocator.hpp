#pragma once

#include <cstddef>
#include <memory>
#include <new>

/// The statistics of an accounting allocator.
struct account {
  std::size_t allocations = 0;
  std::size_t balance = 0;
  bool refuses = false;
};

template <class T>
struct accounting_allocator {
  using value_type = T;
  explicit accounting_allocator(account& a) noexcept : books{&a} {}
  template <class U>
  accounting_allocator(const accounting_allocator<U>& other) noexcept : books{other.books} {}
  T* allocate(std::size_t n) {
    if (books->refuses) throw std::bad_alloc{};
    T* p = std::allocator<T>{}.allocate(n);
    ++books->allocations;
    books->balance += n * sizeof(T);
    return p;
  }
  void deallocate(T* p, std::size_t n) noexcept {
    books->balance -= n * sizeof(T);
    std::allocator<T>{}.deallocate(p, n);
  }
  template <class U>
  bool operator==(const accounting_allocator<U>& other) const noexcept {
    return books == other.books;
  }
  account* books;
};
