#include "canigo/redis/reply.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/error.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace std::string_view_literals;
namespace redis = canigo::redis;
using canigo::errc;
using redis::reply;
using redis::detail::reply_reader;
using kind = reply::kind;

namespace {

/// A reply as text: +OK, "text", 5, -ERR text, nil, [a b].
std::string shown(const reply& r) {
  switch (r.type()) {
    case kind::nil:
      return "nil";
    case kind::status:
      return "+" + r.text();
    case kind::string:
      return '"' + r.text() + '"';
    case kind::integer:
      return std::to_string(r.integer());
    case kind::error:
      return "-" + r.text();
    case kind::array:
      break;
  }
  std::string text = "[";
  for (const auto& e : r.elements()) text += (text.size() > 1 ? " " : "") + shown(e);
  return text + "]";
}

struct read_result {
  std::string replies;
  std::error_code error;
};

read_result read_in_parts(std::string_view bytes, std::size_t part, std::size_t max_reply = 4096) {
  reply_reader reader{max_reply};
  read_result result;
  while (!bytes.empty() && !result.error) {
    result.error = reader.feed(bytes.substr(0, part));
    bytes.remove_prefix(std::min(part, bytes.size()));
    while (!result.error) {
      const auto r = reader.next(result.error);
      if (!r) break;
      result.replies += shown(*r) + ";";
    }
  }
  return result;
}

}  // namespace

TEST_CASE("replies of every kind, cut at every byte") {
  const std::string_view bytes =
      "+OK\r\n-ERR no\r\n:42\r\n:-7\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
      "*3\r\n$1\r\na\r\n*2\r\n:1\r\n*1\r\n+x\r\n$-1\r\n$4\r\n\r\n\r\n\r\n";
  const std::string expected = "+OK;-ERR no;42;-7;\"hello\";\"\";nil;nil;[];[\"a\" [1 [+x]] nil];\"\r\n\r\n\";";
  for (std::size_t part = 1; part <= bytes.size(); ++part) {
    CAPTURE(part);
    const auto result = read_in_parts(bytes, part);
    CHECK_FALSE(result.error);
    CHECK(result.replies == expected);
  }
}

TEST_CASE("a reply is a value that anybody can make") {
  CHECK(shown(reply{5}) == "5");
  CHECK(shown(reply{std::vector<reply>{reply{-1}, reply{kind::string, "a"}, reply{}}}) == "[-1 \"a\" nil]");
}

TEST_CASE("a reply that costs more than the bound is refused, whatever it announces") {
  const auto error = [](std::string_view bytes) { return read_in_parts(bytes, 512, 2048).error; };
  CHECK(error("$3000\r\n" + std::string(3000, 'x') + "\r\n") == errc::too_large);
  CHECK(error("$2147483647\r\n" + std::string(10'000, 'x')) == errc::too_large);
  CHECK(error("+" + std::string(10'000, 'x')) == errc::too_large);
  std::string many = "*1000\r\n";
  for (int i = 0; i < 1000; ++i) many += ":1\r\n";
  CHECK(error(many) == errc::too_large);
  // What it announces costs nothing before it comes.
  CHECK_FALSE(error("*1000000000\r\n:1\r\n"));
  // The bound is on one reply, not on all.
  std::string stream;
  for (int i = 0; i < 1000; ++i) stream += "$4\r\nabcd\r\n";
  CHECK_FALSE(error(stream));
}

TEST_CASE("what is not the protocol is refused") {
  for (const std::string_view bytes :
       {"HTTP/1.1 400 Bad Request\r\n", "\r\n", "*-5\r\n", "*99999999999999999999\r\n", "$99999999999999999999\r\n",
        "$-7\r\n", "$x\r\n", "*1\r\n?\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    CAPTURE(bytes);
    CHECK(read_in_parts(bytes, bytes.size()).error == redis::error::bad_reply);
    CHECK(read_in_parts(bytes, 1).error == redis::error::bad_reply);
  }
}

TEST_CASE("eight arrays nest, and no more") {
  const auto nested = [](int arrays) {
    std::string bytes;
    for (int i = 0; i < arrays; ++i) bytes += "*1\r\n";
    return read_in_parts(bytes + ":1\r\n", 1000);
  };
  CHECK(nested(8).replies == "[[[[[[[[1]]]]]]]];");
  for (const int arrays : {9, 10, 100, 1000}) CHECK(nested(arrays).error == redis::error::bad_reply);
}

TEST_CASE("bytes at random, and replies that were tampered with, do no harm") {
  std::mt19937 random{20'240'601};
  const std::string_view alphabet = "+-:$*0123456789\r\nax,#(%~_";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    if (round % 2 == 0) {
      for (int i = 0; i < 60; ++i) bytes += alphabet[random() % alphabet.size()];
    } else {
      bytes = "*3\r\n$1\r\na\r\n*2\r\n:1\r\n*1\r\n+x\r\n$-1\r\n$4\r\nabcd\r\n";
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = alphabet[random() % alphabet.size()];
    }
    read_in_parts(bytes, 1 + random() % 20, 1024);
  }
}

TEST_CASE("a command goes over the wire with the lengths of its arguments") {
  CHECK(redis::command{"PING"}.encoded() == "*1\r\n$4\r\nPING\r\n");
  CHECK(redis::command{"SET", std::string{"a b\r\n"}, -5}.encoded() ==
        "*3\r\n$3\r\nSET\r\n$5\r\na b\r\n\r\n$2\r\n-5\r\n");
  redis::command c{"DEL"};
  c.add("").add("\0x"sv).add(std::uint64_t{18'446'744'073'709'551'615u});
  CHECK(c.encoded() == "*4\r\n$3\r\nDEL\r\n$0\r\n\r\n$2\r\n\0x\r\n$20\r\n18446744073709551615\r\n"sv);
  CHECK(c.arguments().size() == 4);
}
