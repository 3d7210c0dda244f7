#pragma once

#include <cstdint>
#include <string>

namespace conversations {

struct run_options {
  std::string gateway;
  std::uint64_t seed = 1;
  std::uint64_t count = 1000;
  std::uint64_t from = 0;  // the number of the first conversation
  std::uint64_t parallel = 100;
  // The number of conversations with one gateway process; then it drains, and another one starts.
  std::uint64_t life = 4000;
  std::uint64_t seconds = 0;  // if it is more than 0, the run ends after this time
  bool with_tls = false;
  bool stops_at_first = false;
  bool shows = false;    // only prints the plans
  std::string expected;  // a part of the kind of failure that the run must find
};

/// Runs all conversations. Returns true if the result is as expected.
bool play(const run_options& o);

}  // namespace conversations
