#pragma once

#include <optional>
#include <utility>

namespace canigo::detail {

/// Where a coroutine on another executor leaves its result for the one that waits for it.
///
/// It is in the frame of the one that waits. Asio's co_spawn hands a result on only if T has a default constructor, and
/// would let an exception of a move out of the loop. The coroutine that waits lives until the other one has ended, as
/// the completion handler owns it.
template <class T>
class left_result {
 public:
  void leave(T&& value) { value_.emplace(std::move(value)); }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class left_result<void> {
 public:
  void take() const noexcept {}
};

}  // namespace canigo::detail
