#pragma once

#include "canigo/redis/command.hpp"
#include "canigo/redis/endpoint.hpp"
#include "canigo/redis/reply.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace canigo::redis::detail {

/// How many slots a Redis Cluster deals its keys into.
inline constexpr unsigned cluster_slots = 16384;

/// The slot of a key. If there is text between its first { and the next }, only that text counts.
unsigned slot_of(std::string_view key) noexcept;

/// The slot of the first key of a command, if the key is in the place where most commands have it. Nothing for a
/// command without keys.
std::optional<unsigned> slot_of(const command& c);

/// The node that has a slot, as another node names it.
struct redirection {
  unsigned slot = 0;
  endpoint::address where;  // without a host: the host of the node that says so
  bool is_once = false;     // only for this one command, which is to follow ASKING
};

/// The meaning of an error reply such as "MOVED 3999 127.0.0.1:6381" or "ASK 3999 …"; nothing for any other text.
std::optional<redirection> redirection_of(std::string_view text);

/// The slots from `first` to `last`, and which node has them.
struct slot_range {
  unsigned first = 0;
  unsigned last = 0;
  endpoint::address where;  // the address of the node
  std::vector<endpoint::address> replicas = {};
};

/// The answer to CLUSTER SLOTS, without its malformed parts.
std::vector<slot_range> slot_ranges(const reply& r);

}  // namespace canigo::redis::detail
