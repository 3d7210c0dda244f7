// Where the keys of a cluster are, and what its nodes say of it.
#include "../lib/redis/slots.hpp"

#include "canigo/redis/reply.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace redis = canigo::redis;
using redis::detail::redirection_of;
using redis::detail::slot_of;

TEST_CASE("slots of keys are those of the specification") {
  CHECK(slot_of("123456789") == 0x31c3);
  CHECK(slot_of("foo") == 12182);
  CHECK(slot_of("bar") == 5061);
  CHECK(slot_of("hello") == 866);
  CHECK(slot_of("") == 0);
  // What stands between the first braces counts, unless it is nothing.
  CHECK(slot_of("{user1000}.following") == slot_of("{user1000}.followers"));
  CHECK(slot_of("{user1000}.following") == slot_of("user1000"));
  CHECK(slot_of("foo{bar}{zap}") == slot_of("bar"));
  CHECK(slot_of("foo{{bar}}zap") == slot_of("{bar"));
  CHECK(slot_of("foo{}{bar}") != slot_of("bar"));
  CHECK(slot_of("foo{bar") != slot_of("bar"));
  // All keys of a limit.
  CHECK(slot_of("{canigo:default:crm}:s:state") == slot_of("{canigo:default:crm}:s:q"));
}

TEST_CASE("the slot of a command is that of its first key") {
  CHECK(slot_of(redis::command{"GET", "foo"}) == 12182);
  CHECK(slot_of(redis::command{"EVALSHA", "0123", 1, "foo"}) == 12182);
  CHECK(slot_of(redis::command{"eval", "return 1", 1, "foo"}) == 12182);
  CHECK(slot_of(redis::command{"EVALSHA_RO", "0123", 2, "foo", "{foo}"}) == 12182);
  CHECK(slot_of(redis::command{"XINFO", "STREAM", "foo"}) == 12182);
  CHECK(slot_of(redis::command{"zunion", 2, "foo", "{foo}"}) == 12182);
}

TEST_CASE("a command without a key has no slot") {
  CHECK_FALSE(slot_of(redis::command{"PING"}));
  CHECK_FALSE(slot_of(redis::command{"GET"}));
  CHECK_FALSE(slot_of(redis::command{"EVAL", "return 1", 0}));
  CHECK_FALSE(slot_of(redis::command{"EVAL", "return 1", 0, "foo"}));
  CHECK_FALSE(slot_of(redis::command{"SCAN", 17}));
  CHECK_FALSE(slot_of(redis::command{"config", "SET", "maxmemory", 0}));
  CHECK_FALSE(slot_of(redis::command{"Script", "LOAD", "return 1"}));
}

TEST_CASE("what a node says of another one") {
  const auto moved = redirection_of("MOVED 3999 127.0.0.1:6381");
  REQUIRE(moved);
  CHECK(moved->slot == 3999);
  CHECK(moved->where.host == "127.0.0.1");
  CHECK(moved->where.port == "6381");
  CHECK_FALSE(moved->is_once);
  const auto ask = redirection_of("ASK 0 a.host:1");
  REQUIRE(ask);
  CHECK(ask->is_once);
  CHECK(ask->where.host == "a.host");
  CHECK(redirection_of("MOVED 1 ::1:6379")->where.host == "::1");
  CHECK(redirection_of("MOVED 1 :6379")->where.host.empty());
  CHECK(redirection_of("MOVED 1 ?:6379")->where.host.empty());
  for (const char* other : {"", "MOVED", "MOVED ", "MOVED x 1.2.3.4:5", "MOVED 16384 1.2.3.4:5", "MOVED 1 1.2.3.4",
                            "MOVED 1 1.2.3.4:", "MOVED 1 1.2.3.4:65536", "MOVED 1:2", "ERR 1 a:1", "moved 1 a:1"}) {
    CAPTURE(other);
    CHECK_FALSE(redirection_of(other));
  }
}

namespace {

redis::reply text_reply(std::string t) { return redis::reply{redis::reply::kind::string, std::move(t)}; }

redis::reply list_of(std::vector<redis::reply> parts) { return redis::reply{std::move(parts)}; }

redis::reply range_reply(std::int64_t first, std::int64_t last, std::string host, std::int64_t port) {
  std::vector<redis::reply> node;
  node.push_back(text_reply(std::move(host)));
  node.emplace_back(port);
  std::vector<redis::reply> parts;
  parts.emplace_back(first);
  parts.emplace_back(last);
  parts.push_back(list_of(std::move(node)));
  return list_of(std::move(parts));
}

}  // namespace

TEST_CASE("what CLUSTER SLOTS answers is read, and what is malformed left out") {
  std::vector<redis::reply> all;
  all.push_back(range_reply(0, 5460, "127.0.0.1", 7000));
  all.push_back(range_reply(5461, 16383, "", 7001));
  for (const auto& [first, last] : {std::pair{-1, 5}, {6, 5}, {0, 16384}})
    all.push_back(range_reply(first, last, "a", 1));
  for (const int port : {0, 65536}) all.push_back(range_reply(0, 1, "a", port));
  all.push_back(text_reply("no range"));
  all.push_back(list_of({}));
  const auto ranges = redis::detail::slot_ranges(list_of(std::move(all)));
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].first == 0);
  CHECK(ranges[0].last == 5460);
  CHECK(ranges[0].where.host == "127.0.0.1");
  CHECK(ranges[0].where.port == "7000");
  CHECK(ranges[1].where.host.empty());
  for (const auto& r : ranges) CHECK(r.replicas.empty());
  CHECK(redis::detail::slot_ranges(text_reply("none")).empty());
}

TEST_CASE("a range may be of one slot, and a node at the first port or the last") {
  std::vector<redis::reply> all;
  all.push_back(range_reply(0, 0, "a", 1));
  all.push_back(range_reply(16383, 16383, "a", 65535));
  const auto ranges = redis::detail::slot_ranges(list_of(std::move(all)));
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].where.port == "1");
  CHECK(ranges[1].last == 16383);
  CHECK(ranges[1].where.port == "65535");
}

TEST_CASE("the replicas of a range are read, but for those that are malformed") {
  std::vector<redis::reply> parts;
  parts.emplace_back(std::int64_t{0});
  parts.emplace_back(std::int64_t{16383});
  for (const int port : {7000, 7003, 0, 7004}) {
    std::vector<redis::reply> node;
    node.push_back(text_reply(port == 7004 ? "?" : "127.0.0.1"));
    node.emplace_back(std::int64_t{port});
    parts.push_back(list_of(std::move(node)));
  }
  parts.push_back(text_reply("no node"));
  std::vector<redis::reply> all;
  all.push_back(list_of(std::move(parts)));
  const auto ranges = redis::detail::slot_ranges(list_of(std::move(all)));
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].where.port == "7000");
  REQUIRE(ranges[0].replicas.size() == 2);
  CHECK(ranges[0].replicas[0].port == "7003");
  CHECK(ranges[0].replicas[1].host.empty());
}
