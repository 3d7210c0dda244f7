#include "slots.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

namespace canigo::redis::detail {
namespace {

/// CRC-16/XMODEM, as the Redis Cluster specification has it.
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

/// A node that has no name yet is at the address that was asked.
std::string host_of(std::string_view said) { return said == "?" ? std::string{} : std::string{said}; }

}  // namespace

unsigned slot_of(std::string_view key) noexcept {
  if (const auto open = key.find('{'); open != key.npos) {
    const auto close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) % cluster_slots;
}

unsigned slot_of(const command& c) noexcept {
  const auto& words = c.arguments();
  const std::size_t at = words.front().starts_with("EVAL") || words.front().starts_with("eval") ? 3 : 1;
  return at < words.size() ? slot_of(words[at]) : 0;
}

std::optional<redirection> redirection_of(std::string_view text) {
  redirection r;
  r.is_once = take_word(text, "ASK ");
  if (!r.is_once && !take_word(text, "MOVED ")) return std::nullopt;
  const auto space = text.find(' ');
  const auto colon = text.rfind(':');  // an IPv6 address stands there without brackets
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
    if (parts.size() < 3 || parts[2].elements().size() < 2) continue;
    const auto first = parts[0].integer();
    const auto last = parts[1].integer();
    const auto& node = parts[2].elements();
    const auto port = node[1].integer();
    if (first < 0 || last < first || last >= cluster_slots || port < 1 || port > 65535) continue;
    ranges.push_back(
        {static_cast<unsigned>(first), static_cast<unsigned>(last), {host_of(node[0].text()), std::to_string(port)}});
  }
  return ranges;
}

}  // namespace canigo::redis::detail
