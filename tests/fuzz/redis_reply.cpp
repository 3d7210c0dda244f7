// The bytes of a Redis that may be hostile: bounded in size and depth, and the same replies wherever they are cut.

#include "canigo/error.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/reply.hpp"

#include "target.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using canigo::redis::reply;

namespace {

constexpr std::size_t max_reply = 600;

struct read_result {
  std::string replies;
  std::error_code error;
};

// As text: two replies with the same text are the same.
void show(const reply& r, std::string& text) {
  text += std::to_string(static_cast<int>(r.type())) + " " + std::to_string(r.text().size()) + ":" + r.text() + " " +
          std::to_string(r.integer()) + "[";
  for (const reply& e : r.elements()) show(e, text);
  text += "]";
}

std::size_t cost(const reply& r) {
  std::size_t bytes = sizeof(reply) + r.text().size();
  for (const reply& e : r.elements()) bytes += cost(e);
  return bytes;
}

int depth(const reply& r) {
  int deepest = 0;
  for (const reply& e : r.elements()) deepest = std::max(deepest, depth(e));
  return r.type() == reply::kind::array ? deepest + 1 : deepest;
}

// Fed in parts of these sizes, again and again.
read_result read(std::string_view bytes, const std::vector<std::size_t>& parts) {
  canigo::redis::detail::reply_reader reader{max_reply};
  read_result result;
  std::size_t unfinished = 0;
  for (std::size_t i = 0; !bytes.empty() && !result.error; ++i) {
    const std::size_t part = std::min(parts[i % parts.size()], bytes.size());
    result.error = reader.feed(bytes.substr(0, part));
    bytes.remove_prefix(part);
    unfinished += part;
    while (!result.error) {
      const auto r = reader.next(result.error);
      fuzz::require(!r || !result.error, "a reply or an error, not both");
      if (!r) break;
      unfinished = 0;  // but for the rest of this part
      fuzz::require(cost(*r) <= max_reply, "a reply costs no more than the bound");
      fuzz::require(depth(*r) <= 8, "a reply is not nested deeper than the reader says");
      show(*r, result.replies);
    }
    fuzz::require(result.error || unfinished <= max_reply, "what does not end is not kept without end");
  }
  const auto& e = result.error;
  fuzz::require(!e || e == canigo::errc::too_large || e == canigo::redis::error::bad_reply,
                "bytes end in too_large, bad_reply, or well");
  return result;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input bytes{data, size};
  std::vector<std::size_t> parts(1 + bytes.byte() % 4);
  for (std::size_t& part : parts) part = std::size_t{1} + bytes.byte();
  const std::string_view text = bytes.text();
  const read_result whole = read(text, {text.size() + 1});
  for (const auto& how : {parts, std::vector<std::size_t>{1}}) {
    const read_result cut = read(text, how);
    fuzz::require(cut.replies == whole.replies, "the same replies wherever the bytes are cut");
    // Which of two errors comes first may depend on the cut: a length of a thousand digits is too large or nonsense.
    fuzz::require(!cut.error == !whole.error, "an error wherever the bytes are cut");
  }
  return 0;
}
