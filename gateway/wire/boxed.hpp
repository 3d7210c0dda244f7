#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace canigo::gateway {

/// A value that may be missing. It works like std::optional, but the value is on the heap, so this object has only the
/// size of a pointer. It is used for values that are missing while a call waits.
///
/// Allocates: when an empty object gets a value.
template <class T>
class boxed {
 public:
  boxed() noexcept = default;
  boxed& operator=(T value) {
    if (value_) {
      *value_ = std::move(value);
    } else {
      value_ = std::make_unique<T>(std::move(value));
    }
    return *this;
  }
  boxed& operator=(std::optional<T> value) {
    if (value) {
      *this = std::move(*value);
    } else {
      value_.reset();
    }
    return *this;
  }
  void reset() noexcept { value_.reset(); }

  explicit operator bool() const noexcept { return value_ != nullptr; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_.get(); }
  friend bool operator==(const boxed& b, const T& value) { return b && *b == value; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace canigo::gateway
