#pragma once

namespace simulated {

/// Empties the library's cache of memory blocks, so that it is as at a program's start.
void empty_the_cache() noexcept;

/// During its lifetime one allocation by operator new fails: the first one if `k` is 0, and so on; none if `k` is
/// negative.
///
/// A second object replaces the first one until both are destroyed. Precondition: there is one thread. Allocations by
/// aligned_alloc do not count, because Asio does not survive their failure.
class shortage {
 public:
  explicit shortage(int k) noexcept;
  ~shortage();
  shortage(const shortage&) = delete;
  shortage& operator=(const shortage&) = delete;
  bool has_struck() const noexcept;
  /// Returns how many allocations have failed so far.
  static unsigned long strikes() noexcept;

 private:
  bool is_active_;
  unsigned long strikes_before_;
};

/// During its lifetime allocations succeed, and do not count.
class plenty {
 public:
  plenty() noexcept;
  ~plenty();
  plenty(const plenty&) = delete;
  plenty& operator=(const plenty&) = delete;

 private:
  int before_failure_;
};

}  // namespace simulated
