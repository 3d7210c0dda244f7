#pragma once

#include <cstdint>
#include <string>

namespace conversations {

struct run_options {
  std::string gateway;
  std::uint64_t seed = 1;
  std::uint64_t count = 1000;
  std::uint64_t from = 0;  // the first conversation
  std::uint64_t parallel = 100;
  std::uint64_t life = 4000;  // conversations with one gateway; then it drains, and a new one begins
  std::uint64_t seconds = 0;  // ends after this time, if it is more than 0
  bool with_tls = false;
  bool stops_at_first = false;
  bool shows = false;    // only what would be played
  std::string expected;  // a part of the kind of failure that there is to be
};

/// Plays all conversations. True: all is as it should be.
bool play(const run_options& o);

}  // namespace conversations
