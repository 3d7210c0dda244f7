// Plays conversations with canigo-gateway at random, and judges what its clients and its upstreams see. [realtime]
//
// conversations --gateway PROGRAM [--seed N|random] [--count N] [--from N] [--tls] [--parallel N] [--life N]
//               [--seconds N] [--first] [--expect PART_OF_A_KIND]
// conversations --show [--seed N] [--count N] [--from N] [--tls]
//
// Many clients, the upstreams, an operator and the judge are one process of one thread. What each of them says follows
// from the seed and the number of the conversation; when it says so also from the machine. Ends with 0 if nothing was
// wrong, or if a failure of the expected kind was found.

#include "plan.hpp"
#include "run.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  conversations::run_options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--tls") {
      o.with_tls = true;
    } else if (name == "--first") {
      o.stops_at_first = true;
    } else if (name == "--show") {
      o.shows = true;
    } else if (i + 1 == argc) {
      std::fprintf(stderr, "conversations: not an option, or without its value: %s\n", argv[i]);
      return 2;
    } else if (name == "--gateway") {
      o.gateway = argv[++i];
    } else if (name == "--seed") {
      const std::string_view text = argv[++i];
      o.seed = text == "random" ? std::random_device{}() : std::strtoull(argv[i], nullptr, 10);
    } else if (name == "--count") {
      o.count = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--from") {
      o.from = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--parallel") {
      o.parallel = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--life") {
      o.life = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--seconds") {
      o.seconds = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--expect") {
      o.expected = argv[++i];
      o.stops_at_first = true;
    } else {
      std::fprintf(stderr, "conversations: not an option: %s\n", argv[i]);
      return 2;
    }
  }
  if (o.shows) {
    for (std::uint64_t i = o.from; i < o.from + o.count; ++i) {
      const auto p = conversations::plan_conversation(o.seed, i, o.with_tls);
      std::printf("%s\n", conversations::text_of(o.seed, p).c_str());
    }
    return 0;
  }
  if (o.gateway.empty()) {
    std::fprintf(stderr, "conversations: --gateway PROGRAM is missing\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return conversations::play(o) ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "conversations: %s\n", e.what());
    return 1;
  }
}
