#pragma once

#include "canigo/redis/command.hpp"
#include "canigo/redis/endpoint.hpp"
#include "canigo/redis/reply.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace canigo::redis::detail {

/// The number of slots among which a Redis Cluster distributes its keys.
inline constexpr unsigned cluster_slots = 16384;

/// Returns the slot of a key: a hash of the key. If there is text between the first { and the next }, only that text is
/// hashed.
unsigned slot_of(std::string_view key) noexcept;

/// Returns the slot of a command's first key. For most commands, the key is taken to be the first argument; the
/// function knows some exceptions, such as EVAL and BITOP. Returns nothing for a command without keys.
std::optional<unsigned> slot_of(const command& c);

/// The parsed MOVED or ASK reply by which one node names the node that has a slot.
struct redirection {
  unsigned slot = 0;
  // the address of the node that has the slot; an empty host means the host of the node that has sent this error reply
  endpoint::address where;
  bool is_once = false;  // true for ASK: the node serves only this command, after the command ASKING
};

/// Parses an error reply such as "MOVED 3999 127.0.0.1:6381" or "ASK 3999 …". Returns nothing for any other text.
std::optional<redirection> redirection_of(std::string_view text);

/// The slots from `first` to `last`, and the node that has them.
struct slot_range {
  unsigned first = 0;
  unsigned last = 0;
  endpoint::address where;  // the address of the node that has the slots
  std::vector<endpoint::address> replicas = {};
};

/// Parses the reply to CLUSTER SLOTS. Malformed parts are left out.
std::vector<slot_range> slot_ranges(const reply& r);

}  // namespace canigo::redis::detail
