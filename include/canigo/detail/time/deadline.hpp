#pragma once

#include <cstdint>

namespace canigo {

namespace detail {

/// A place in a timing_wheel: the base of whatever is due at an instant.
///
/// Not an aggregate on purpose: a derived class may then use the bytes behind `place_`.
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

/// Why a deadline calls its function.
enum class due {
  expired,   ///< its instant has come
  shutdown,  ///< its execution context is being destroyed; the instant will never come
};

/// A call at an instant: an intrusive node of a time_source, 40 bytes.
///
/// The function runs on a thread that runs the context, with no lock held. It must not run user code: it posts.
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
