// The script behind redis::semaphore and redis::scheduler, by tables: what a session says, and what it is answered.
#include "canigo/redis/client.hpp"

#include "../lib/redis/script.hpp"
#include "../lib/redis/sync.hpp"
#include "catch.hpp"
#include "http_run.hpp"
#include "redis_server.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

using http_test::run_to_end;
using namespace redis_test;

namespace {

const std::string prefix = "{t}:";
constexpr std::int64_t minute = 60'000'000;

struct wish {
  int id;
  int priority = 0;
  int weight = 1;
  int count = 1;
};

struct waiters {
  waiters(int id, int n = 1) : first{id}, count{n} {}
  int first;
  int count;
};

/// What a session says in one call.
struct say {
  std::string session;
  int sequence;
  int held = 0;
  std::vector<waiters> acknowledged = {};
  std::vector<std::pair<int, int>> cancelled = {};
  std::vector<wish> wanted = {};
  std::string run_id = "r1";
  int cap = 2;
  std::string flags = {};
  int idle = 0;
  std::pair<int, int> charged = {0, 0};  // until the last answer, and until now
  int ahead = 0;
  int version = 0;
  std::int64_t pause = 0;
};

class limit {
 public:
  /// "OK 1,2 queue=3 out=2", or the status; `next` is kept apart.
  std::string operator()(const say& s) {
    redis::command c{"EVAL",      std::string{redis::detail::sync_script()}, 3, prefix + "state", prefix + "sess",
                     prefix + "q"};
    std::vector<double> numbers{number_of(s.sequence),
                                number_of(minute),
                                number_of(s.held),
                                number_of(s.idle),
                                number_of(s.charged.first),
                                number_of(s.charged.second),
                                number_of(s.ahead),
                                number_of(s.version),
                                number_of(s.cap),
                                number_of(rate_tokens),
                                number_of(rate_period),
                                number_of(burst),
                                number_of(s.pause),
                                number_of(s.acknowledged.size()),
                                number_of(s.cancelled.size()),
                                number_of(s.wanted.size())};
    const auto add = [&](auto... more) { numbers.insert(numbers.end(), {number_of(more)...}); };
    for (const auto& w : s.acknowledged) add(w.first, w.count);
    for (const auto& [id, weight] : s.cancelled) add(id, weight);
    for (const auto& w : s.wanted) add(w.id, w.count, w.priority, w.weight);
    c.add(s.run_id).add(s.session).add(redis::detail::packed(numbers)).add(prefix).add(s.flags);
    const auto parts = run_to_end(io, client.run(c)).elements();
    if (parts.at(0).text() != "OK") return parts.at(0).text();
    next = parts.at(1).integer();
    hold = parts.at(4).integer();
    epoch = parts.at(5).integer();
    empty = parts.at(6).integer();
    ahead = parts.at(7).integer();
    settings = parts.at(8).text();
    std::map<int, std::int64_t> granted;
    told = parts.at(9).integer();
    const std::string& all = parts.at(10).text();
    runs = all.size() / 32;
    for (std::size_t at = 0; at < all.size(); at += 32) {
      const auto first = number_at(all, at), token = number_at(all, at + 24);
      for (std::int64_t i = 0; i < number_at(all, at + 8); ++i) {
        granted[static_cast<int>(first + i)] = token > 0 ? token + i : token;
      }
    }
    std::string text = "OK";
    char separator = ' ';
    for (const auto& [id, token] : granted) {
      text += separator;
      if (token == 0) text += '!';
      if (token < 0) text += '?';
      text += std::to_string(id);
      separator = ',';
      if (token > 0 && tokens.emplace(s.session + std::to_string(id), token).second) {
        CHECK(token > last_token);
        last_token = token;
      }
    }
    return text + " queue=" + std::to_string(parts.at(2).integer()) + " out=" + std::to_string(parts.at(3).integer());
  }

  redis::reply ask(const redis::command& c) { return run_to_end(io, client.run(c)); }
  std::int64_t number(const std::string& field) { return number_at(text_of("*"), place(field)); }
  void set(const std::string& field, std::int64_t n) {
    const std::array<double, 1> one{number_of(n)};
    ask(redis::command{"HSET", prefix + "state", "*",
                       text_of("*").replace(place(field), 8, redis::detail::packed(one))});
  }
  /// As if the lease had run out.
  void expire(const std::string& session) {
    ask(redis::command{"ZADD", prefix + "sess", 1, session});
    set("reap", 1);
  }
  std::string text_of(const std::string& session) {
    return ask(redis::command{"HGET", prefix + "state", session}).text();
  }

  std::int64_t next = 0;
  std::int64_t hold = 0;
  std::int64_t epoch = 0;
  std::int64_t empty = 0;
  std::int64_t ahead = 0;
  std::string settings;
  std::size_t runs = 0;
  std::int64_t told = 0;  // of the runs, before
  std::int64_t last_token = 0;
  int rate_tokens = 0;
  std::int64_t rate_period = 0;
  int burst = 1;

 private:
  static double number_of(auto n) { return static_cast<double>(n); }
  static std::int64_t number_at(const std::string& text, std::size_t at) {
    std::uint64_t bits = 0;
    for (std::size_t i = 8; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(text.at(at + i));
    return static_cast<std::int64_t>(std::bit_cast<double>(bits));
  }
  static std::size_t place(const std::string& field) {
    static const std::vector<std::string> fields{"last", "fence", "total", "zu",    "zr",   "epoch", "hold",
                                                 "off",  "lying", "qseq",  "due",   "reap", "keep",  "version",
                                                 "cap",  "n",     "p",     "burst", "pause"};
    return 8 * static_cast<std::size_t>(std::find(fields.begin(), fields.end(), field) - fields.begin());
  }

  redis_server server;
  asio::io_context io;
  redis::client client{io, server.url()};
  std::map<std::string, std::int64_t> tokens;
};

}  // namespace

TEST_CASE("script: grants up to the capacity, by class and arrival, and each once") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}}) == "OK 1 queue=0 out=1");
  CHECK(sync.next == -1);
  // Not acknowledged: said again, not granted again, also if asked for again.
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1}}}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "a", .sequence = 3, .held = 1, .acknowledged = {1}}) == "OK queue=0 out=1");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 1}, {2, 1}, {3, 0}}}) == "OK 1 queue=2 out=2");
  CHECK(sync.next > 0);
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{7, 1}}}) == "OK queue=3 out=2");
  // A retry keeps its place.
  CHECK(sync({.session = "b", .sequence = 2, .wanted = {{2, 1}, {3, 0}}}) == "OK 1 queue=3 out=2");
  CHECK(sync({.session = "a", .sequence = 4, .held = 0}) == "OK queue=2 out=2");  // b's 3, of class 0
  CHECK(sync({.session = "b", .sequence = 3, .held = 0, .acknowledged = {1, 3}}) == "OK 2 queue=0 out=2");
  CHECK(sync({.session = "c", .sequence = 2}) == "OK 7 queue=0 out=2");
  CHECK(sync({.session = "c", .sequence = 3, .held = 0, .acknowledged = {7}}) == "OK queue=0 out=1");
}

TEST_CASE("script: who stand together are told of and acknowledged together, and each apart from them as well") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1, 0, 1, 6}}, .cap = 10}) == "OK 1,2,3,4,5,6 queue=0 out=6");
  CHECK(sync.runs == 1);
  CHECK(sync.told == 0);
  // Asked for again, and one more: told again, and granted once.
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 7}}, .cap = 10}) == "OK 1,2,3,4,5,6,7 queue=0 out=7");
  CHECK(sync.runs == 2);  // what is news stands apart
  CHECK(sync.told == 1);
  CHECK(sync({.session = "a", .sequence = 3, .held = 1, .acknowledged = {3}, .cap = 10}) ==
        "OK 1,2,4,5,6,7 queue=0 out=7");
  CHECK(sync.runs == 2);
  CHECK(sync({.session = "a", .sequence = 4, .held = 1, .cancelled = {{5, 1}}, .cap = 10}) ==
        "OK 1,2,4,6,7 queue=0 out=6");
  CHECK(sync.runs == 3);
  CHECK(sync.told == 3);
  // Of another weight.
  CHECK(sync({.session = "a", .sequence = 5, .held = 1, .wanted = {{8, 0, 2}}, .cap = 10}) ==
        "OK 1,2,4,6,7,8 queue=0 out=8");
  CHECK(sync.runs == 4);
  CHECK(sync.told == 3);
  CHECK(sync({.session = "a", .sequence = 6, .held = 4, .acknowledged = {{1, 2}, {6, 3}}, .cap = 10}) ==
        "OK 4 queue=0 out=5");
  // Not all that stand together are let in.
  CHECK(sync({.session = "a", .sequence = 7, .held = 4, .acknowledged = {4}, .wanted = {{9, 0, 2, 4}}, .cap = 10}) ==
        "OK 9,10,11 queue=1 out=10");
  CHECK(sync({.session = "a", .sequence = 8, .held = 10, .acknowledged = {{9, 3}}, .wanted = {{20, -1, 1, 2}}}) ==
        "OK ?20,?21 queue=1 out=10");
}

TEST_CASE("script: a late call changes nothing") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1}) == "OK queue=0 out=0");
  CHECK(sync({.session = "a", .sequence = 5, .wanted = {{1}}}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "a", .sequence = 5, .held = 9}) == "STALE");
  CHECK(sync({.session = "a", .sequence = 4, .held = 9}) == "STALE");
  CHECK(sync({.session = "a", .sequence = 6, .held = 1, .acknowledged = {1}}) == "OK queue=0 out=1");
}

TEST_CASE("script: what is cancelled is taken back, granted or not") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}, {3}}}) == "OK 1,2 queue=1 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .cancelled = {{1, 1}}}) == "OK 2,3 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2}}}) == "OK queue=2 out=2");
  CHECK(sync({.session = "b", .sequence = 2, .cancelled = {{1, 1}, {2, 1}, {99, 1}}}) == "OK queue=0 out=2");
}

TEST_CASE("script: weights") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1, 0, 2}}, .cap = 3}) == "OK 1 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 0, 2}, {2, 0, 1}}, .cap = 3}) == "OK queue=2 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .acknowledged = {1}, .cap = 3}) == "OK queue=0 out=3");
  // More than there is: refused, and nobody waits behind it.
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1, 0, 4}}, .cap = 3}) == "OK !1 queue=0 out=3");
}

TEST_CASE("script: who is dead holds nothing and waits for nothing") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}, {3}}}) == "OK 1,2 queue=1 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=2 out=2");
  sync.expire("a");
  CHECK(sync({.session = "b", .sequence = 2}) == "OK 1 queue=0 out=1");
  CHECK(sync.text_of("a").empty());
  // It comes back, and says that it holds something: that is not so any more.
  CHECK(sync({.session = "a", .sequence = 2, .held = 2}) == "NOSESS");
  // Nor is what it waits for in the queue.
  CHECK(sync({.session = "a", .sequence = 3, .held = 0}) == "NOSESS");
  CHECK(sync({.session = "a2", .sequence = 1}) == "OK queue=0 out=1");
}

TEST_CASE("script: another server, or one without its data, lets nobody in for one lease") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}, .flags = "q"}) == "OK queue=1 out=0");
  CHECK(sync.hold == minute);
  CHECK(sync.next == minute);
  sync.set("hold", 0);
  CHECK(sync({.session = "a", .sequence = 2, .flags = "q"}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "a", .sequence = 3, .held = 1, .acknowledged = {1}, .flags = "q"}) == "OK queue=0 out=1");
  // The same data on another server.
  const auto first = sync.epoch;
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .run_id = "r2", .flags = "q"}) == "OK queue=1 out=1");
  CHECK(sync({.session = "a", .sequence = 4, .held = 1, .run_id = "r2", .flags = "q"}) == "OK queue=1 out=1");
  const auto second = sync.epoch;
  CHECK(second > first);
  // No data at all: who held something says so, and is believed.
  sync.ask(redis::command{"FLUSHALL"});
  CHECK(sync({.session = "b", .sequence = 2, .wanted = {{1}}, .run_id = "r2", .flags = "q"}) == "OK queue=1 out=0");
  CHECK(sync({.session = "a", .sequence = 5, .held = 1, .run_id = "r2", .flags = "q"}) == "OK queue=1 out=1");
  CHECK(sync.epoch > second);
  sync.set("hold", 0);
  CHECK(sync({.session = "b", .sequence = 3, .run_id = "r2", .flags = "q"}) == "OK 1 queue=0 out=2");
  // The guard switched off: this is how it goes wrong.
  sync.ask(redis::command{"FLUSHALL"});
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1}, {2}}, .run_id = "r2"}) == "OK 1,2 queue=0 out=2");
}

TEST_CASE("script: the server's clock may jump") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  const std::int64_t before = sync.number("last");
  // Forward by an hour, as it looks from what was stored: leases go on.
  sync.set("last", before - 60 * minute);
  const auto expiry = std::stoll(sync.ask(redis::command{"ZSCORE", prefix + "sess", "a"}).text());
  sync.ask(redis::command{"ZADD", prefix + "sess", expiry - 60 * minute, "a"});
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  // Back by an hour: time goes on from where it was.
  sync.set("last", sync.number("last") + 60 * minute);
  for (const char* session : {"a", "b"}) {
    sync.ask(redis::command{"ZADD", prefix + "sess", sync.number("last") + minute, session});
  }
  CHECK(sync({.session = "b", .sequence = 2}) == "OK queue=1 out=2");
  const std::int64_t then = sync.number("last");
  CHECK(sync({.session = "b", .sequence = 3}) == "OK queue=1 out=2");
  CHECK(sync.number("last") > then);
  CHECK(sync.number("last") < then + minute);
}

TEST_CASE("script: nobody called for long, though somebody waits: no more than the burst") {
  limit sync;
  sync.rate_tokens = 1000;
  sync.rate_period = 1'000'000;
  sync.burst = 30;
  std::vector<wish> wishes;
  for (int id = 2; id <= 60; ++id) wishes.push_back({id});
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}, .cap = 0}) == "OK queue=1 out=0");
  sync.set("zu", 0);
  sync.set("due", 1);
  const auto answer = sync({.session = "a", .sequence = 2, .wanted = wishes, .cap = 0});
  CHECK(answer.ends_with(",30 queue=30 out=0"));
}

TEST_CASE("script: a rate in whole numbers") {
  limit sync;
  sync.rate_tokens = 7;  // one each 142857 1/7 us, of an hour
  sync.rate_period = 3'600'000'000;
  sync.burst = 3;
  const auto ask = [&](int sequence, std::vector<waiters> got, std::vector<wish> wanted) {
    return sync(
        {.session = "a", .sequence = sequence, .acknowledged = std::move(got), .wanted = std::move(wanted), .cap = 0});
  };
  const std::int64_t period = 3'600'000'000 / 7;
  CHECK(ask(1, {}, {{1}}) == "OK queue=1 out=0");  // starts empty
  CHECK(sync.next == period + 1);                  // rounded up, never early
  // Three periods later and a bit: three, exactly.
  sync.set("zu", sync.number("last") - 3'600'000'000 * 3 / 7 - 1);
  sync.set("zr", 0);
  sync.set("due", sync.number("last"));
  CHECK(ask(2, {}, {{2}, {3}, {4}}) == "OK 1,2,3 queue=1 out=0");
  CHECK(sync.next > period - minute);
  CHECK(sync.next <= period + 1);
  // Idle for long: no more than the burst.
  CHECK(sync({.session = "a", .sequence = 3, .acknowledged = {1, 2, 3}, .cancelled = {{4, 1}}, .cap = 0}) ==
        "OK queue=0 out=0");
  sync.set("zu", 0);
  CHECK(ask(4, {}, {{5}, {6}, {7}, {8}}) == "OK 5,6,7 queue=1 out=0");
  // A granted one that is cancelled before it is acknowledged gives its token to who waits.
  CHECK(sync({.session = "a", .sequence = 5, .cancelled = {{7, 1}}, .cap = 0}) == "OK 5,6,8 queue=0 out=0");
  // Another server may not know what was taken last: it starts empty.
  sync.set("zu", 0);
  CHECK(sync({.session = "a", .sequence = 6, .acknowledged = {5, 6, 8}, .wanted = {{9}}, .run_id = "r2", .cap = 0}) ==
        "OK queue=1 out=0");
  CHECK(sync.next == period + 1);
}

TEST_CASE("script: who leaves is forgotten at once") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .held = 0, .flags = "l"}) == "OK queue=0 out=1");
  CHECK(sync.ask(redis::command{"ZCARD", prefix + "sess"}).integer() == 1);
  CHECK(sync({.session = "b", .sequence = 2}) == "OK 1 queue=0 out=1");
}

TEST_CASE("script: who does not wait is told at once, and takes nobody's place") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1, -1}, {2, -1}, {3, -1}}}) == "OK 1,2,?3 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {1, 2}}) == "OK queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 2, .held = 0, .acknowledged = {1}, .wanted = {{2, 0, 2}, {3, -1}}}) ==
        "OK ?3 queue=1 out=1");
  CHECK(sync({.session = "a", .sequence = 3, .held = 1, .wanted = {{4, -1}}}) == "OK ?4 queue=1 out=1");
}

TEST_CASE("script: settings that are changed are everybody's, and outlive the data") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}, {3}}}) == "OK 1,2 queue=1 out=2");
  CHECK(sync.settings.empty());
  // Whoever spoke last counts, until somebody changes it.
  CHECK(sync({.session = "b", .sequence = 1, .cap = 1, .flags = "C"}) == "OK queue=1 out=2");
  CHECK(sync.settings == "1 1 0 0 1 0");
  CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {1, 2}}) == "OK queue=1 out=1");
  CHECK(sync.settings == "1 1 0 0 1 0");
  CHECK(sync({.session = "a", .sequence = 3, .cap = 1, .version = 1}) == "OK 3 queue=0 out=1");
  CHECK(sync.settings.empty());
  // What weighs more than there is now is refused.
  CHECK(sync({.session = "b", .sequence = 2, .wanted = {{1, 0, 2}}, .cap = 1, .version = 1}) == "OK !1 queue=0 out=1");
  sync.ask(redis::command{"FLUSHALL"});
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  CHECK(sync.number("version") == 0);
  CHECK(sync({.session = "b2", .sequence = 1, .cap = 1, .version = 1}) == "OK queue=0 out=2");
  CHECK(sync({.session = "c", .sequence = 2, .held = 1, .acknowledged = {1, 2}, .wanted = {{3}}}) ==
        "OK queue=1 out=1");
  CHECK(sync.settings == "1 1 0 0 1 0");
}

TEST_CASE("script: a pause is everybody's, until it is over or called off") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .flags = "P", .pause = minute}) == "OK queue=0 out=0");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2, -1}}}) == "OK ?2 queue=1 out=0");
  CHECK(sync.next > minute - 10'000'000);
  CHECK(sync.next <= minute);
  CHECK(sync.settings.substr(0, 10) == "1 2 0 0 1 ");
  CHECK(std::stoll(sync.settings.substr(10)) <= minute);
  sync.set("pause", sync.number("last"));
  CHECK(sync({.session = "b", .sequence = 2}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "a", .sequence = 2, .flags = "P", .pause = -1}) == "OK queue=0 out=1");
  CHECK(sync.settings == "2 2 0 0 1 -1");
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=1");
  CHECK(sync.next == -1);
  CHECK(sync({.session = "a", .sequence = 3, .flags = "P"}) == "OK queue=0 out=2");  // granted to c
}

TEST_CASE("script: tokens charged and given back count once, also where an answer was lost") {
  limit sync;
  sync.rate_tokens = 1;
  sync.rate_period = minute;
  sync.burst = 10;
  const auto level = [&] { return -sync.empty / minute; };
  CHECK(sync({.session = "a", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  sync.set("zu", sync.number("last") - 8 * minute);
  CHECK(sync({.session = "a", .sequence = 2, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(level() == 5);
  CHECK(sync({.session = "a", .sequence = 3, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(level() == 5);
  CHECK(sync({.session = "a", .sequence = 4, .cap = 0, .charged = {3, 1}}) == "OK queue=0 out=0");
  CHECK(level() == 7);
  // A debt; one session knows nothing of the other's count.
  CHECK(sync({.session = "b", .sequence = 1, .cap = 0, .charged = {100, 120}}) == "OK queue=0 out=0");
  CHECK(level() == -12);
  // All that is given back beyond the burst is lost.
  CHECK(sync({.session = "b", .sequence = 2, .cap = 0, .charged = {120, 0}}) == "OK queue=0 out=0");
  CHECK(sync({.session = "b", .sequence = 3, .wanted = {{1, 0, 10}, {2, -1}}, .cap = 0}) == "OK 1,?2 queue=0 out=0");
}

TEST_CASE("script: tokens are given ahead if nobody waits, and asked back when somebody does") {
  limit sync;
  sync.rate_tokens = 1;
  sync.rate_period = minute;
  sync.burst = 10;
  CHECK(sync({.session = "a", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  sync.set("zu", sync.number("last") - 5 * minute);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1}}, .cap = 0, .ahead = 2}) == "OK 1 queue=0 out=0");
  CHECK(sync.ahead == 2);
  CHECK(sync.number("lying") == 2);
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .cap = 0, .ahead = 9}) == "OK 1 queue=0 out=0");
  CHECK(sync.ahead == 1);
  CHECK(sync({.session = "b", .sequence = 2, .acknowledged = {1}, .wanted = {{2}}, .cap = 0, .idle = 0, .ahead = 9}) ==
        "OK queue=1 out=0");
  CHECK(sync.ahead == 0);
  CHECK(sync.number("lying") == 2);
  CHECK(sync({.session = "a", .sequence = 3, .acknowledged = {1}, .cap = 0, .charged = {0, -2}}) == "OK queue=0 out=0");
  CHECK(sync.number("lying") == 0);
}

TEST_CASE("script: a lease is not written anew by every call") {
  limit sync;
  const auto expiry = [&] { return sync.ask(redis::command{"ZSCORE", prefix + "sess", "a"}).text(); };
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}}) == "OK 1 queue=0 out=1");
  const std::string first = expiry();
  CHECK(std::stoll(first) >= sync.number("last") + minute);
  CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {1}}) == "OK queue=0 out=1");
  CHECK(expiry() == first);
  sync.set("last", sync.number("last") + minute / 20);  // later by that
  CHECK(sync({.session = "a", .sequence = 3, .held = 1}) == "OK queue=0 out=1");
  CHECK(std::stoll(expiry()) >= sync.number("last") + minute);
}
