#include "gateway/wire/websocket_frames.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using canigo::gateway::websocket_frames;

namespace {

constexpr int more = 0, text = 1, data = 2, close_frame = 8, ping = 9;

/// A frame of `size` zero bytes.
std::string frame(int opcode, std::size_t size, bool is_last = true, bool is_masked = true) {
  std::string f(1, static_cast<char>((is_last ? 0x80 : 0) | opcode));
  const int mask = is_masked ? 0x80 : 0;
  if (size < 126) {
    f += static_cast<char>(mask | static_cast<int>(size));
  } else if (size < 65'536) {
    f += static_cast<char>(mask | 126);
    f += static_cast<char>(size >> 8);
    f += static_cast<char>(size & 255);
  } else {
    f += static_cast<char>(mask | 127);
    for (int shift = 56; shift >= 0; shift -= 8) f += static_cast<char>(size >> shift & 255);
  }
  if (is_masked) f += "mask";
  return f + std::string(size, '\0');
}

/// The places where messages begin, if the bytes come in pieces of these sizes.
std::vector<std::size_t> beginnings(std::string_view bytes, const std::vector<std::size_t>& pieces) {
  websocket_frames frames;
  std::vector<std::size_t> found;
  std::size_t at = 0;
  for (const std::size_t piece : pieces) {
    const std::size_t end = std::min(at + piece, bytes.size());
    while (at < end) {
      const std::size_t n = frames.pass(bytes.substr(at, end - at));
      at += n;
      if (at == end) break;
      found.push_back(at);
      REQUIRE(frames.pass(bytes.substr(at, end - at)) == 0);  // it stays there until it may begin
      frames.begin();
    }
  }
  return found;
}

}  // namespace

TEST_CASE("gateway: messages of a websocket begin with frames of text and data alone", "[gateway][websocket]") {
  struct part {
    int opcode;
    std::size_t size;
    bool is_last = true;
  };
  const std::vector<part> parts{{text, 0},        {data, 125},          {ping, 4},      {text, 126, false}, {ping, 0},
                                {more, 1, false}, {more, 65'535, true}, {data, 65'536}, {close_frame, 2},   {text, 3}};
  for (const bool is_masked : {true, false}) {
    std::string bytes;
    std::vector<std::size_t> wanted;
    for (const part& p : parts) {
      if (p.opcode == text || p.opcode == data) wanted.push_back(bytes.size());
      bytes += frame(p.opcode, p.size, p.is_last, is_masked);
    }
    CHECK(beginnings(bytes, {bytes.size()}) == wanted);
    CHECK(beginnings(bytes, std::vector<std::size_t>(bytes.size(), 1)) == wanted);
    std::mt19937 random{7};
    for (int round = 0; round < 300; ++round) {
      std::vector<std::size_t> pieces;
      for (std::size_t all = 0; all < bytes.size(); all += pieces.back()) pieces.push_back(1 + random() % 5'000);
      CHECK(beginnings(bytes, pieces) == wanted);
    }
  }
}

TEST_CASE("gateway: a frame with the longest length there is goes on", "[gateway][websocket]") {
  websocket_frames frames;
  frames.begin();
  const std::string head = std::string("\x82\xff", 2) + std::string(8, '\xff') + "mask";
  CHECK(frames.pass(head) == head.size());
  const std::string payload(100'000, '\x81');
  for (int i = 0; i < 3; ++i) CHECK(frames.pass(payload) == payload.size());
}
