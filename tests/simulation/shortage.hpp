#pragma once

namespace simulated {

/// While it lives one allocation by operator new fails: the first if `k` is 0, and so on; none if it is negative.
///
/// There is one at a time, and one thread. What Asio takes by aligned_alloc does not count: it does not survive that.
class shortage {
 public:
  explicit shortage(int k) noexcept;
  ~shortage();
  shortage(const shortage&) = delete;
  shortage& operator=(const shortage&) = delete;
  bool has_struck() const noexcept;
};

}  // namespace simulated
