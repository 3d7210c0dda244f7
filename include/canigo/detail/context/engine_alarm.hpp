#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

namespace canigo::detail {

class delivery;

/// A deadline of an engine. An armed alarm holds a reference to the engine. Used only under the engine's lock.
class engine_alarm : public deadline {
 public:
  using function_type = void (*)(delivery&, engine_alarm&) noexcept;

  /// At the alarm's instant, `f` is called under the engine's lock, unless the context is destroyed first.
  engine_alarm(delivery& engine, function_type f) noexcept;

  bool is_armed() const noexcept { return is_armed_; }
  void arm(time_point when) noexcept;
  void disarm() noexcept;

 private:
  void rang(due why) noexcept;

  delivery* engine_;
  function_type function_;
  time_point when_{};
  bool is_armed_ = false;
};

}  // namespace canigo::detail
