#include "slots.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

/// Returns the CRC-16/XMODEM of a key, as the Redis Cluster specification demands.
unsigned crc16(std::string_view bytes) noexcept {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
  }
  return crc;
}

std::optional<unsigned> number(std::string_view text, unsigned most) noexcept {
  unsigned n = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
  if (end.ec != std::errc{} || end.ptr != text.data() + text.size() || n > most) return std::nullopt;
  return n;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Commands without a key. They belong to no slot of the cluster.
constexpr std::string_view without_keys[] = {
    "ACL",      "AUTH",      "BGREWRITEAOF", "BGSAVE",   "CLIENT",  "CLUSTER",  "COMMAND", "CONFIG", "DBSIZE",
    "DEBUG",    "ECHO",      "FAILOVER",     "FLUSHALL", "FLUSHDB", "FUNCTION", "HELLO",   "INFO",   "KEYS",
    "LASTSAVE", "LATENCY",   "LOLWUT",       "MODULE",   "PING",    "PUBLISH",  "PUBSUB",  "QUIT",   "RANDOMKEY",
    "READONLY", "READWRITE", "REPLICAOF",    "ROLE",     "SAVE",    "SCAN",     "SCRIPT",  "SELECT", "SHUTDOWN",
    "SLAVEOF",  "SLOWLOG",   "SWAPDB",       "TIME",     "WAIT",    "WAITAOF"};

/// Commands that have one other argument before their first key.
constexpr std::string_view of_second[] = {"BITOP", "LMPOP", "MEMORY", "OBJECT",     "SINTERCARD", "XGROUP",
                                          "XINFO", "ZDIFF", "ZINTER", "ZINTERCARD", "ZMPOP",      "ZUNION"};

/// Returns the host that a node reported for a slot. A "?" means that the node does not know its host: then the result
/// is empty, and the caller uses the host of the node that was asked.
std::string host_of(std::string_view said) { return said == "?" ? std::string{} : std::string{said}; }

std::optional<endpoint::address> address_of(const reply& node) {
  const auto& parts = node.elements();
  if (parts.size() < 2 || parts[1].integer() < 1 || parts[1].integer() > 65535) return std::nullopt;
  return endpoint::address{host_of(parts[0].text()), std::to_string(parts[1].integer())};
}

}  // namespace

unsigned slot_of(std::string_view key) noexcept {
  if (const auto open = key.find('{'); open != key.npos) {
    const auto close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) % cluster_slots;
}

std::optional<unsigned> slot_of(const command& c) {
  const auto& words = c.arguments();
  std::string name = words.front();
  for (char& l : name) l = l >= 'a' && l <= 'z' ? static_cast<char>(l - ('a' - 'A')) : l;
  if (std::ranges::find(without_keys, name) != std::end(without_keys)) return std::nullopt;
  const bool is_counted = name.starts_with("EVAL") || name.starts_with("FCALL");
  const bool is_second = std::ranges::find(of_second, name) != std::end(of_second);
  const std::size_t at = is_counted ? 3 : is_second ? 2 : 1;
  if (at >= words.size() || (is_counted && words[2] == "0")) return std::nullopt;
  return slot_of(words[at]);
}

std::optional<redirection> redirection_of(std::string_view text) {
  redirection r;
  r.is_once = take_word(text, "ASK ");
  if (!r.is_once && !take_word(text, "MOVED ")) return std::nullopt;
  const auto space = text.find(' ');
  const auto colon = text.rfind(':');  // the last colon: an IPv6 address has colons, too, and Redis sends no brackets
  if (space == text.npos || colon == text.npos || colon < space) return std::nullopt;
  const auto slot = number(text.substr(0, space), cluster_slots - 1);
  const auto port = number(text.substr(colon + 1), 65535);
  if (!slot || !port) return std::nullopt;
  r.slot = *slot;
  r.where = {host_of(text.substr(space + 1, colon - space - 1)), std::to_string(*port)};
  return r;
}

std::vector<slot_range> slot_ranges(const reply& r) {
  std::vector<slot_range> ranges;
  for (const auto& range : r.elements()) {
    const auto& parts = range.elements();
    if (parts.size() < 3) continue;
    const auto first = parts[0].integer();
    const auto last = parts[1].integer();
    const auto master = address_of(parts[2]);
    if (first < 0 || last < first || last >= cluster_slots || !master) continue;
    slot_range found{static_cast<unsigned>(first), static_cast<unsigned>(last), *master};
    for (std::size_t i = 3; i < parts.size(); ++i) {
      if (auto replica = address_of(parts[i])) found.replicas.push_back(std::move(*replica));
    }
    ranges.push_back(std::move(found));
  }
  return ranges;
}

}  // namespace canigo::redis::detail
