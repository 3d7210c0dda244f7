#pragma once

#include <string>

/// What one flavour of the library did in a program that has both.
struct half_result {
  std::string name;  // of canigo::scheduler, as the linker knows it
  int granted = 0;
  bool is_refused = false;  // an option out of range, with the flavour's own system_error
};

half_result standalone_half();
half_result boost_half();
