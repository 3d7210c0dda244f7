#pragma once

#include "canigo/detail/time/timing_wheel.hpp"

namespace canigo {

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
