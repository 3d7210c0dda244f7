// A program that links the library for standalone Asio and the one for Boost.Asio, and uses both.
#include "halves.hpp"

#include <cstdio>

int main() {
  const half_result standalone = standalone_half();
  const half_result boost = boost_half();
  std::printf("%s: %d, %s: %d\n", standalone.name.c_str(), standalone.granted, boost.name.c_str(), boost.granted);
  const bool are_right = standalone.granted == 3 && boost.granted == 3 && standalone.is_refused && boost.is_refused;
  return are_right && standalone.name != boost.name ? 0 : 1;
}
