#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tools {
namespace {

unsigned byte(char c) { return static_cast<unsigned char>(c); }

struct character {
  char32_t code;
  std::size_t size;
};

/// Decodes the first character of a text. Returns nothing if the text does not begin with a character in UTF-8.
/// Precondition: the text is not empty. Source: RFC 3629.
std::optional<character> first_of(std::string_view text) {
  const unsigned lead = byte(text.front());
  if (lead < 0x80) return character{lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return std::nullopt;
  char32_t code = lead & (0xffu >> (size + 1));
  for (const char c : text.substr(1, size - 1)) {
    if ((byte(c) & 0xc0) != 0x80) return std::nullopt;
    code = (code << 6) | (byte(c) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[size] || code > 0x10ffff || is_surrogate) return std::nullopt;
  return character{code, size};
}

/// Whether the character controls a terminal or the direction of writing. A text with such a character can look like a
/// different text when it is printed.
bool steers(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto c = first_of(text);
    if (!c || (c->code < 0x80 && steers(c->code))) {
      out += fmt::format("\\x{:02x}", byte(text.front()));
    } else if (steers(c->code)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c->code));
    } else {
      out += text.substr(0, c->size);
    }
    text.remove_prefix(c ? c->size : 1);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto c = first_of(text);
    if (!c) return false;
    text.remove_prefix(c->size);
  }
  return true;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 3))) {
    const auto at = [&](std::size_t i) { return i < bytes.size() ? byte(bytes[i]) : 0U; };
    const unsigned bits = at(0) << 16 | at(1) << 8 | at(2);
    for (std::size_t i = 0; i < 4; ++i) out += i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto c = first_of(text);
    if (!c) {
      out += "\\ufffd";
    } else if (c->code == '"' || c->code == '\\') {
      out += '\\';
      out += text.front();
    } else if (steers(c->code)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c->code));
    } else {
      out += text.substr(0, c->size);
    }
    text.remove_prefix(c ? c->size : 1);
  }
  return out + '"';
}

}  // namespace tools
