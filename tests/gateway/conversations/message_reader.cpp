#include "message_reader.hpp"

#include <algorithm>
#include <charconv>

namespace conversations {
namespace {

std::optional<std::size_t> number_of(std::string_view text, int base) {
  std::size_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string lower(std::string_view text) {
  std::string small{text};
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return small;
}

}  // namespace

std::optional<std::string> message_head::value_of(std::string_view name) const {
  if (count_of(name) != 1) return std::nullopt;
  return std::ranges::find(fields, name, [](const auto& f) { return f.first; })->second;
}

std::size_t message_head::count_of(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::count(fields, name, [](const auto& f) { return f.first; }));
}

int message_head::status() const noexcept {
  if (!first_line.starts_with("HTTP/1.1 ") || first_line.size() < 12) return 0;
  return static_cast<int>(number_of(std::string_view{first_line}.substr(9, 3), 10).value_or(0));
}

std::string message_head::target() const {
  const auto from = first_line.find(' ');
  const auto to = first_line.rfind(' ');
  return from == to || from == std::string::npos ? "" : first_line.substr(from + 1, to - from - 1);
}

bool message_reader::fail(std::string_view why) {
  wrong_ = std::string{why} + ": " + waiting_.substr(at_, 100);
  return false;
}

bool message_reader::read(std::string_view bytes) {
  if (tunnel_) {
    tunnel_(bytes);
    return true;
  }
  waiting_.append(bytes);
  bool goes_on = true;
  while (goes_on && at_ < waiting_.size() && wrong_.empty()) {
    if (tunnel_) {
      const std::string rest = waiting_.substr(std::exchange(at_, 0));
      waiting_.clear();
      tunnel_(rest);
      return true;
    }
    goes_on = step();
  }
  waiting_.erase(0, std::exchange(at_, 0));
  return wrong_.empty();
}

/// False: it needs more bytes, or something is wrong.
bool message_reader::step() {
  std::string line;
  switch (stage_) {
    case stage::head:
      return read_head();
    case stage::body:
    case stage::chunk: {
      const std::size_t n =
          framing_ == framing::until_end ? waiting_.size() - at_ : std::min(left_, waiting_.size() - at_);
      if (user_.body) user_.body(std::string_view{waiting_}.substr(at_, n));
      at_ += n;
      if (framing_ == framing::until_end) return true;
      left_ -= n;
      if (left_ == 0 && stage_ == stage::body) finish();
      if (left_ == 0 && stage_ == stage::chunk) stage_ = stage::chunk_end;
      return true;
    }
    case stage::chunk_size: {
      if (!read_line(line)) return false;
      const auto n = number_of(line, 16);
      if (!n) return fail("no size of a chunk");
      left_ = *n;
      stage_ = left_ == 0 ? stage::trailer : stage::chunk;
      return true;
    }
    case stage::chunk_end:
      if (!read_line(line)) return false;
      if (!line.empty()) return fail("no end of a chunk");
      stage_ = stage::chunk_size;
      return true;
    case stage::trailer:
      if (!read_line(line)) return false;
      if (!line.empty()) return fail("a trailer");
      finish();
      return true;
  }
  return false;
}

bool message_reader::read_line(std::string& line) {
  const auto end = waiting_.find("\r\n", at_);
  if (end == std::string::npos) return waiting_.size() - at_ > 100 ? fail("no end of a line") : false;
  line = waiting_.substr(at_, end - at_);
  at_ = end + 2;
  return true;
}

bool message_reader::read_head() {
  const auto end = waiting_.find("\r\n\r\n", at_);
  if (end == std::string::npos) return waiting_.size() - at_ > 65536 ? fail("a head without an end") : false;
  message_head head;
  for (std::size_t from = at_; from < end + 2;) {
    const auto to = waiting_.find("\r\n", from);
    const std::string_view line = std::string_view{waiting_}.substr(from, to - from);
    from = to + 2;
    if (head.first_line.empty()) {
      head.first_line = line;
      continue;
    }
    const auto colon = line.find(": ");
    if (colon == line.npos) return fail("no field");
    head.fields.emplace_back(lower(line.substr(0, colon)), line.substr(colon + 2));
  }
  const bool is_answer = head.first_line.starts_with("HTTP/1.1 ");
  if (!is_answer && !head.first_line.ends_with(" HTTP/1.1")) return fail("no first line");
  if (is_answer && head.status() == 0) return fail("no status");
  const auto lengths = head.count_of("content-length");
  const auto codings = head.count_of("transfer-encoding");
  framing f = is_answer ? framing::until_end : framing::none;
  std::size_t length = 0;
  if (lengths + codings > 1) return fail("more than one framing");
  if (codings == 1) {
    if (head.value_of("transfer-encoding") != "chunked") return fail("another coding");
    f = framing::chunked;
  } else if (lengths == 1) {
    const auto n = number_of(*head.value_of("content-length"), 10);
    if (!n) return fail("no Content-Length");
    f = framing::length;
    length = *n;
  }
  at_ = end + 4;
  framing_ = user_.head(head, f);
  if (tunnel_) return true;
  left_ = length;
  if (framing_ == framing::none || (framing_ == framing::length && length == 0)) {
    finish();
  } else {
    stage_ = framing_ == framing::chunked ? stage::chunk_size : stage::body;
  }
  return true;
}

void message_reader::finish() {
  stage_ = stage::head;
  if (user_.done) user_.done();
}

bool message_reader::end() {
  if (tunnel_) return true;
  if (stage_ == stage::body && framing_ == framing::until_end) {
    finish();
    return true;
  }
  return !is_inside();
}

}  // namespace conversations
