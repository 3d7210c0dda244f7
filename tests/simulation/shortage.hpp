#pragma once

namespace simulated {

/// Leaves no block in the library's cache, as it is when a program starts.
void empty_the_cache() noexcept;

/// While it lives one allocation by operator new fails: the first if `k` is 0, and so on; none if it is negative.
///
/// One that begins inside another one takes its place, to the end of both. There is one thread. What Asio takes by
/// aligned_alloc does not count: it does not survive that.
class shortage {
 public:
  explicit shortage(int k) noexcept;
  ~shortage();
  shortage(const shortage&) = delete;
  shortage& operator=(const shortage&) = delete;
  bool has_struck() const noexcept;
  /// How many allocations have failed so far, in all.
  static unsigned long strikes() noexcept;

 private:
  bool is_active_;
  unsigned long strikes_before_;
};

/// While it lives allocations succeed, and do not count.
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
