// Messages as they come from a socket: heads, bodies and chunks. The pieces that they come in make no difference, every
// bound holds, and the body of a request in chunks is what a second, strict reader takes it for.

#include "canigo/net.hpp"

#include "gateway/policy/head_rules.hpp"
#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/read_buffer.hpp"
#include "target.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

namespace {

constexpr gateway::parser_limits bounds{.head = 1024, .body = 2048, .fields = 10};

struct result {
  gateway::message_head head;
  bool has_head = false;
  bool is_done = false;
  bool has_failed = false;
  std::size_t head_size = 0;  ///< bytes up to the end of the head
  std::size_t used = 0;       ///< bytes up to the end of the message
  std::string body;
};

gateway::message_parser parser_of(std::uint8_t kind) {
  return kind % 3 == 0 ? gateway::message_parser::of_request(bounds)
                       : gateway::message_parser::of_response(bounds, kind % 3 == 1);
}

/// Reads a message, of which the first `first` bytes come at once, and then `step` bytes each time.
result read(std::uint8_t kind, std::string_view text, std::size_t first, std::size_t step) {
  gateway::message_parser parser = parser_of(kind);
  result r;
  gateway::read_buffer buffer;
  std::size_t there = 0;
  const auto give = [&](std::size_t most) {
    const std::size_t n = std::min(most, text.size() - there);
    const canigo::net::mutable_buffer room = buffer.prepare(buffer.size() + n);
    std::copy_n(text.data() + there, n, static_cast<char*>(room.data()));
    buffer.commit(n);
    there += n;
  };
  give(first);
  while (!parser.is_done() && parser.failure() == gateway::parse_failure::none) {
    const std::size_t before = buffer.size();
    const auto s = parser.read(buffer);
    fuzz::require(buffer.size() <= before, "no more is used than there is");
    const std::size_t used = before - buffer.size();
    r.used += used;
    r.body.append(s.piece.data(), s.piece.size());
    if (parser.has_head() && !r.has_head) {
      r.has_head = true;
      r.head_size = r.used;
      r.head = parser.head();
    }
    if (used > 0 && !s.wants_more) continue;
    if (there == text.size()) break;
    give(step);
  }
  r.is_done = parser.is_done();
  r.has_failed = parser.failure() != gateway::parse_failure::none;
  return r;
}

/// A body in chunks as RFC 9112, 7.1 has it; none if it is anything else, or is not all there.
std::optional<std::string> strict_chunks(std::string_view text) {
  std::string body;
  for (;;) {
    const auto end = text.find("\r\n");
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    std::uint64_t size = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
    if (error != std::errc{} || line.front() == '-') return std::nullopt;
    if (line.find_first_of("\r\n") != line.npos) return std::nullopt;
    const auto after = line.substr(static_cast<std::size_t>(rest - line.data())).find_first_not_of(" \t");
    const std::string_view extension =
        after == line.npos ? std::string_view{} : line.substr(static_cast<std::size_t>(rest - line.data()) + after);
    if (!extension.empty() && extension.front() != ';') return std::nullopt;
    text.remove_prefix(end + 2);
    if (size == 0) break;
    if (text.size() < size + 2 || text.substr(size, 2) != "\r\n") return std::nullopt;
    body += text.substr(0, size);
    text.remove_prefix(size + 2);
  }
  for (;;) {  // the trailer
    const auto end = text.find("\r\n");
    if (end == text.npos || text.substr(0, end).find('\n') != text.npos) return std::nullopt;
    if (end == 0) return body;
    text.remove_prefix(end + 2);
  }
}

void check_request(const result& r, std::string_view text) {
  const auto j = gateway::judge_head(r.head, gateway::listen_mode::both, {});
  if (j.refused || !r.is_done) return;
  const std::string_view rest = text.substr(r.head_size, r.used - r.head_size);
  if (j.plan.is_chunked) {
    const auto body = strict_chunks(rest);
    fuzz::require(body.has_value(), "what is taken for chunks is chunks");
    fuzz::require(*body == r.body, "and has the same body");
  } else {
    fuzz::require(rest == r.body && r.body.size() == j.plan.length, "a body is as long as its head says");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  const std::uint8_t kind = in.byte();
  const std::size_t first = in.byte(), step = in.byte() % 16 + 1u;
  const std::string_view text = in.text();
  const result whole = read(kind, text, text.size(), 1);
  const result pieces = read(kind, text, first, step);
  // Of a message that is not all there a mistake may be seen sooner or later.
  fuzz::require(pieces.is_done == whole.is_done, "pieces make no difference");
  if (whole.is_done) {
    fuzz::require(!pieces.has_failed && !whole.has_failed, "a message is done, or has failed");
    fuzz::require(pieces.body == whole.body && pieces.used == whole.used, "pieces make no difference to what is read");
  }
  for (const result* r : {&whole, &pieces}) {
    fuzz::require(r->head_size <= bounds.head && r->head.fields.size() <= bounds.fields, "a head is bounded");
    fuzz::require(r->body.size() <= bounds.body, "a body is bounded");
  }
  if (kind % 3 == 0 && whole.has_head && !whole.has_failed) check_request(whole, text);
  return 0;
}
