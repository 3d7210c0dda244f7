#pragma once

#include <string>

/// The results of one flavour of the library in a program that links both flavours.
struct half_result {
  std::string name;  // the name of the class canigo::scheduler as the linker knows it
  int granted = 0;
  bool is_refused = false;  // whether an option out of range threw this flavour's own system_error
};

half_result standalone_half();
half_result boost_half();
