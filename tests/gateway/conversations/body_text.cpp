#include "body_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace conversations {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

}  // namespace

std::string text_of(std::uint64_t id) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; id >>= 4) text[i] = digits[id & 15];
  return text;
}

std::uint64_t id_of(std::string_view text) noexcept {
  std::uint64_t id = 0;
  if (text.size() < 16) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 16, id, 16);
  return error == std::errc{} && end == text.data() + 16 ? id : 0;
}

body_text::body_text(kind k, std::uint64_t id, std::size_t phase)
    : first_{k == kind::requests ? "GET /plain/stolen/" + text_of(id) + "/0000000 HTTP/1.1\r\nHost: x\r\n\r\n"
                                 : "HTTP/1.1 200 OK\r\nX-Surplus: " + text_of(id) + "\r\nContent-Length: 0\r\n\r\n"},
      number_at_{k == kind::requests ? first_.rfind("/0000000") + 1 : std::string::npos},
      phase_{phase % first_.size()} {}

void body_text::write(std::size_t unit, char* to) const noexcept {
  std::memcpy(to, first_.data(), first_.size());
  if (number_at_ == std::string::npos) return;
  for (std::size_t i = 7; i-- > 0; unit >>= 4) to[number_at_ + i] = digits[unit & 15];
}

std::string body_text::part(std::size_t from, std::size_t size) const {
  const std::size_t length = first_.size();
  const std::size_t start = (from + phase_) / length, end = (from + phase_ + size + length - 1) / length;
  std::string text((end - start) * length, ' ');
  for (std::size_t unit = start; unit < end; ++unit) write(unit, text.data() + (unit - start) * length);
  text.erase(0, from + phase_ - start * length);
  text.resize(size);
  return text;
}

bool body_text::has(std::size_t from, std::string_view bytes) const { return part(from, bytes.size()) == bytes; }

}  // namespace conversations
