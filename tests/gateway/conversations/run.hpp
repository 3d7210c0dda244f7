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
  // The number of conversations with one gateway process. Afterwards this process drains, and another one starts.
  std::uint64_t life = 4000;
  std::uint64_t seconds = 0;  // if it is more than 0, the run ends after this time
  bool with_tls = false;
  bool stops_at_first = false;
  bool shows = false;    // whether to print the plans only, instead of running them
  std::string expected;  // the run must find a failure whose kind contains this text; empty: it must find none
};

/// Runs all conversations. Returns true if the result is as expected.
bool play(const run_options& o);

}  // namespace conversations
