#pragma once

#include <cstdint>

namespace canigo {

namespace detail {

/// The base of objects in a timing_wheel, which are due at an instant.
///
/// It has constructors, so it is not an aggregate, and a derived class may use the padding after `place_`.
class timer_node {
 public:
  timer_node() noexcept = default;
  timer_node(const timer_node&) = delete;
  timer_node& operator=(const timer_node&) = delete;

  bool linked() const noexcept { return place_ != nowhere; }

 private:
  friend class timing_wheel;

  static constexpr std::uint16_t nowhere = 0xffff;

  timer_node* previous_ = nullptr;
  timer_node* next_ = nullptr;
  std::uint64_t when_ = 0;
  std::uint16_t place_ = nowhere;
};

}  // namespace detail

/// The reason for which a deadline calls its function.
enum class due {
  expired,   ///< the deadline's instant has come
  shutdown,  ///< the execution context is being destroyed, so the instant will never come
};

/// A function call at an instant. It is an intrusive node of a time_source, 40 bytes.
///
/// The function runs on a thread that runs the context, with no lock held. It must not run user code, but only post it.
class deadline : private detail::timer_node {
 public:
  using function = void (*)(deadline&, due) noexcept;

  explicit deadline(function f) noexcept : function_{f} {}
  deadline(const deadline&) = delete;
  deadline& operator=(const deadline&) = delete;

 private:
  friend class time_source;
  function function_;
};

}  // namespace canigo
