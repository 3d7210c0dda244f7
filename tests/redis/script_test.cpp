// The script behind redis::semaphore and redis::scheduler, by tables: what a session says, and what it is answered.
#include "../lib/redis/script.hpp"

#include "canigo/redis/client.hpp"

#include "../lib/redis/sync.hpp"
#include "http/run.hpp"
#include "redis/channel_listener.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using http_test::run_to_end;
using namespace redis_test;

namespace {

const std::string prefix = "{t}:";
constexpr std::int64_t minute = 60'000'000;

/// The script, or another one that tests/redis/script_canaries.py wants to see fail.
const std::string& script_under_test() {
  static const std::string text = [] {
    const char* name = std::getenv("CANIGO_TEST_SCRIPT");
    if (name == nullptr) return std::string{redis::detail::sync_script()};
    std::ifstream file{name};
    return std::string{std::istreambuf_iterator<char>{file}, {}};
  }();
  return text;
}

struct wish {
  int id;
  int priority = 0;
  int weight = 1;
  int count = 1;
  std::vector<int> amounts = {};  // of the further units
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
  std::int64_t seen = 0;                    // the greatest token
  std::int64_t latest = 0;                  // what time it can be at most
  std::vector<int> cancelled_amounts = {};  // of each that is cancelled, of the further units
  std::vector<std::pair<int, int>> further_charged = {};
};

/// One of the rates behind the first.
struct further_rate {
  int tokens;
  std::int64_t period;
  int burst;
  int unit = 1;
  int changed = 0;
};

class limit {
 public:
  /// "OK 1,2 queue=3 out=2", or the status; `next` is kept apart.
  std::string operator()(const say& s) {
    redis::command c{"EVAL", script_under_test(), 3, prefix + "state", prefix + "sess", prefix + "q"};
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
                                number_of(s.seen),
                                number_of(s.latest),
                                number_of(epoch),
                                number_of(s.acknowledged.size()),
                                number_of(s.cancelled.size()),
                                number_of(s.wanted.size())};
    const auto add = [&](auto... more) { numbers.insert(numbers.end(), {number_of(more)...}); };
    for (const auto& w : s.acknowledged) add(w.first, w.count);
    const auto add_amounts = [&](const std::vector<int>& amounts) {
      for (std::size_t i = 1; i < units; ++i) add(i <= amounts.size() ? amounts[i - 1] : 0);
    };
    for (const auto& [id, weight] : s.cancelled) {
      add(id, weight);
      add_amounts(s.cancelled_amounts);
    }
    for (const auto& w : s.wanted) {
      add(w.id, w.count, w.priority, w.weight);
      add_amounts(w.amounts);
    }
    c.add(s.run_id).add(s.session).add(redis::detail::packed(numbers)).add(prefix).add(s.flags);
    if (shape != 0) {
      numbers = {number_of(shape), number_of(further.size()), number_of(units - 1)};
      for (const auto& r : further) add(r.tokens, r.period, r.burst, r.unit, r.changed);
      for (std::size_t i = 1; i < units; ++i) {
        const auto [before, now_charged] = i <= s.further_charged.size() ? s.further_charged[i - 1] : std::pair{0, 0};
        add(before, now_charged);
      }
      c.add(redis::detail::packed(numbers));
    }
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
    now = parts.at(11).integer();
    further_empty.clear();
    if (shape != 0) {
      for (std::size_t i = 0; i < further.size(); ++i) further_empty.push_back(number_at(parts.at(12).text(), 8 * i));
    }
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
  /// A connection that listens for a session, as that of its process does.
  std::unique_ptr<channel_listener> listen_for(const std::string& session) const {
    return std::make_unique<channel_listener>(server.path(), prefix + "n:" + session);
  }
  /// Waits until Redis has seen that such a connection has ended.
  void until_unheard(const std::string& session) {
    while (ask(redis::command{"PUBSUB", "NUMSUB", prefix + "n:" + session}).elements().at(1).integer() != 0) {
    }
  }
  /// As if the bucket of a further rate held that many tokens.
  void fill_further(std::size_t index, int level) {
    std::string text = text_of("*");
    const further_rate& r = further.at(index);
    const std::size_t at = text.size() - 40 * (further.size() - index) + 24;
    const std::array<double, 2> bucket{number_of(number("last") - level * (r.period / r.tokens)), 0};
    ask(redis::command{"HSET", prefix + "state", "*", text.replace(at, 16, redis::detail::packed(bucket))});
  }
  /// And that of the first.
  void fill(int level) { set("zu", number("last") - level * (rate_period / rate_tokens)); }
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
  /// As if the clock had been set forward by so much since the last call, or nobody had called for so long.
  void set_forward(std::int64_t us) {
    for (const char* field : {"last", "due", "reap", "hold", "epoch", "zu", "keep"}) set(field, number(field) - us);
    const auto all = ask(redis::command{"ZRANGE", prefix + "sess", 0, -1, "WITHSCORES"}).elements();
    for (std::size_t i = 0; i < all.size(); i += 2) {
      ask(redis::command{"ZADD", prefix + "sess", std::to_string(std::stoll(all[i + 1].text()) - us), all[i].text()});
      std::string text = text_of(all[i].text());
      const std::array<double, 1> its{number_of(number_at(text, 24) - us)};
      ask(redis::command{"HSET", prefix + "state", all[i].text(), text.replace(24, 8, redis::detail::packed(its))});
    }
    for (std::size_t i = 0; i < further.size(); ++i) {
      std::string text = text_of("*");
      const std::size_t at = text.size() - 40 * (further.size() - i) + 24;
      const std::array<double, 1> its{number_of(number_at(text, at) - us)};
      ask(redis::command{"HSET", prefix + "state", "*", text.replace(at, 8, redis::detail::packed(its))});
    }
    epoch -= us;
    now -= us;
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
  std::int64_t now = 0;
  std::int64_t told = 0;  // of the runs, before
  std::int64_t last_token = 0;
  int rate_tokens = 0;
  std::int64_t rate_period = 0;
  int burst = 1;
  std::vector<further_rate> further;
  std::size_t units = 1;
  std::int64_t shape = 0;
  std::vector<std::int64_t> further_empty;

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
  CHECK(sync.runs == 3);
  CHECK(sync({.session = "a", .sequence = 4, .held = 1, .cancelled = {{5, 1}}, .cap = 10}) ==
        "OK 1,2,4,6,7 queue=0 out=6");
  CHECK(sync.runs == 4);
  CHECK(sync.told == 4);
  // Of another weight.
  CHECK(sync({.session = "a", .sequence = 5, .held = 1, .wanted = {{8, 0, 2}}, .cap = 10}) ==
        "OK 1,2,4,6,7,8 queue=0 out=8");
  CHECK(sync.runs == 5);
  CHECK(sync.told == 4);
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

TEST_CASE("script: the server's clock may be set back, and time goes on from where it was") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  sync.set_forward(-60 * minute);
  const std::int64_t before = sync.now;
  CHECK(sync({.session = "b", .sequence = 2}) == "OK queue=1 out=2");
  CHECK(sync.now == before);
  const std::int64_t then = sync.number("last");
  CHECK(sync({.session = "b", .sequence = 3}) == "OK queue=1 out=2");
  CHECK(sync.number("last") > then);
  CHECK(sync.number("last") < then + minute);
}

TEST_CASE("script: the server's clock may be set forward, and time goes on as its callers measure it") {
  for (const std::int64_t step : {minute / 15, minute / 3, 60 * minute, 365 * 24 * 60 * minute}) {
    CAPTURE(step);
    limit sync;
    CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
    CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
    const std::int64_t before = sync.now;
    sync.set_forward(step);
    const std::int64_t latest = sync.now + 1000;
    CHECK(sync({.session = "b", .sequence = 2, .latest = latest}) == "OK queue=1 out=2");
    CHECK(sync.now == latest);
    // From there on it runs as the server's.
    CHECK(sync({.session = "a", .sequence = 2, .held = 2, .acknowledged = {{1, 2}}, .latest = latest + minute}) ==
          "OK queue=1 out=2");
    CHECK(sync.now >= latest);
    CHECK(sync.now < before - step + minute / 2);
  }
}

TEST_CASE("script: what is late by less than a sixteenth of a lease, or was measured in another epoch, counts as is") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1}) == "OK queue=0 out=0");
  CHECK(sync({.session = "a", .sequence = 2, .latest = sync.now - minute / 17}) == "OK queue=0 out=0");
  CHECK(sync.number("off") == 0);
  const std::int64_t known = sync.now;
  sync.epoch -= 1;
  CHECK(sync({.session = "a", .sequence = 3, .latest = known - minute}) == "OK queue=0 out=0");
  CHECK(sync.number("off") == 0);
}

TEST_CASE("script: where nobody called for long leases are moved, and none of them twice") {
  limit sync;
  CHECK(sync({.session = "dead", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  CHECK(sync({.session = "waits", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  // One who never called can't know whether that was an hour, or the clock was set.
  sync.set_forward(60 * minute);
  CHECK(sync({.session = "new", .sequence = 1, .wanted = {{1, -1}}}) == "OK ?1 queue=1 out=2");
  sync.set_forward(minute * 3 / 4);
  CHECK(sync({.session = "newer", .sequence = 1, .wanted = {{1, -1}}}) == "OK ?1 queue=1 out=2");
  sync.set_forward(minute * 3 / 4);
  // Neither of the two has called, and it is more than a lease.
  CHECK(sync({.session = "newest", .sequence = 1, .wanted = {{1}}}) == "OK 1 queue=0 out=1");
  CHECK(sync.text_of("dead").empty());
  CHECK(sync.text_of("waits").empty());
}

TEST_CASE("script: a lease that was moved may be moved again once its owner has called") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  for (int i = 2; i < 6; ++i) {
    sync.set_forward(60 * minute);
    CHECK(sync({.session = "new" + std::to_string(i), .sequence = 1, .wanted = {{1, -1}}}) == "OK ?1 queue=0 out=2");
    sync.set_forward(minute / 4);
    CHECK(sync({.session = "a", .sequence = i, .held = 2, .acknowledged = {{1, 2}}}) == "OK queue=0 out=2");
  }
}

TEST_CASE("script: Redis may restart again and again, and who is dead is dead after the second time") {
  limit sync;
  CHECK(sync({.session = "dead", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  int sequence = 0;
  for (const char* held : {"2", "2", "0"}) {
    sync.set_forward(minute * 3 / 4);
    ++sequence;
    CHECK(sync({.session = "a",
                .sequence = sequence,
                .run_id = "r" + std::to_string(sequence + 1),
                .flags = "q",
                .latest = sync.now + minute}) == std::string{"OK queue=0 out="} + held);
  }
}

TEST_CASE("script: the clock may be set forward in a quarantine, which lasts for one lease none the less, or two") {
  for (const bool is_lost : {false, true}) {
    CAPTURE(is_lost);
    limit sync;
    CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
    CHECK(sync({.session = "a", .sequence = 2, .held = 2, .acknowledged = {{1, 2}}}) == "OK queue=0 out=2");
    if (is_lost) sync.ask(redis::command{"FLUSHALL"});
    const std::string out = is_lost ? "0" : "2";
    CHECK(sync({.session = "c", .sequence = 1, .run_id = "r2", .flags = "qP", .pause = minute}) ==
          "OK queue=0 out=" + out);
    CHECK(sync.hold == minute);
    sync.set_forward(60 * minute);
    sync.set("pause", sync.number("pause") - 60 * minute);
    // Who comes now has called in no quarantine yet, and may not be let in beside who holds, and has not called either.
    CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .run_id = "r2", .flags = "q"}) ==
          "OK queue=1 out=" + out);
    CHECK(sync.hold > minute / 2);
    CHECK(sync.hold <= minute + 1);
    CHECK(sync.number("pause") > sync.now + minute / 2);
    CHECK(sync({.session = "a", .sequence = 3, .held = 2, .run_id = "r2", .flags = "q"}) == "OK queue=1 out=2");
  }
}

TEST_CASE("script: a quarantine ends, however seldom anybody calls, and none of them twice") {
  limit sync;
  int calls = 0;
  for (std::string answer; !answer.starts_with("OK 1 "); ++calls) {
    REQUIRE(calls < 4);
    answer = sync({.session = "s" + std::to_string(calls), .sequence = 1, .wanted = {{1, -1}}, .flags = "q"});
    sync.set_forward(minute * 3 / 4);
  }
}

TEST_CASE("script: who is not known after a loss of all leaves no key without an end") {
  for (const char* lost : {"", "state", "sess"}) {
    CAPTURE(lost);
    limit sync;
    CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}, {3}}}) == "OK 1,2 queue=1 out=2");
    if (*lost == 0) {
      sync.ask(redis::command{"FLUSHALL"});
    } else {
      sync.ask(redis::command{"DEL", prefix + lost});
    }
    CHECK(sync({.session = "a", .sequence = 2, .flags = "l"}) == "NOSESS");
    const auto keys = sync.ask(redis::command{"KEYS", "*"});
    CHECK(keys.elements().size() == 1);
    for (const auto& key : keys.elements()) {
      CAPTURE(key.text());
      CHECK(sync.ask(redis::command{"PTTL", key.text()}).integer() > 0);
    }
  }
}

TEST_CASE("script: who may not ask for the run id changes nothing for those who may") {
  limit sync;
  const std::string unknown{redis::command::run_id_placeholder};
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}, .run_id = unknown}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "b", .sequence = 1, .flags = "q"}) == "OK queue=0 out=1");
  CHECK(sync.hold == minute);  // it may have restarted, as far as is known
  const auto epoch = sync.epoch;
  for (int i = 2; i < 5; ++i) {
    CHECK(sync({.session = "a", .sequence = i, .run_id = unknown, .flags = "q"}) == "OK 1 queue=0 out=1");
    CHECK(sync({.session = "b", .sequence = i, .flags = "q"}) == "OK queue=0 out=1");
    CHECK(sync.epoch == epoch);
    CHECK(sync.hold < minute);
  }
}

TEST_CASE("script: any of the keys that is lost without the others is a loss of data") {
  for (unsigned lost = 1; lost < 8; ++lost) {
    CAPTURE(lost);
    limit sync;
    CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}, .cap = 3}) == "OK 1,2 queue=0 out=2");
    CHECK(sync({.session = "dead", .sequence = 1, .wanted = {{1}}, .cap = 3}) == "OK 1 queue=0 out=3");
    CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .cap = 3, .version = 4}) == "OK queue=1 out=3");
    const auto token = sync.last_token, epoch = sync.epoch;
    for (const auto& [bit, key] : {std::pair{1U, "state"}, {2U, "sess"}, {4U, "q"}}) {
      if ((lost & bit) != 0) CHECK(sync.ask(redis::command{"DEL", prefix + key}).integer() == 1);
    }
    // It is noticed by whoever calls first, and for one lease all who hold something are believed.
    CHECK(sync({.session = "b", .sequence = 2, .wanted = {{1}}, .cap = 3, .flags = "q", .version = 4}) ==
          "OK queue=1 out=0");
    CHECK(sync.hold == minute);
    CHECK(sync.epoch > epoch);
    CHECK(sync({.session = "a", .sequence = 2, .held = 2, .acknowledged = {{1, 2}}, .cap = 3, .flags = "q"}) ==
          "OK queue=1 out=2");
    sync.set("hold", 0);
    CHECK(sync({.session = "b", .sequence = 3, .cap = 3, .flags = "q", .version = 4}) == "OK 1 queue=0 out=3");
    CHECK(sync.last_token > token);
    CHECK(sync({.session = "dead", .sequence = 2, .held = 1, .cap = 3}) == "NOSESS");
    CHECK(sync({.session = "b", .sequence = 4, .held = 1, .acknowledged = {1}, .cap = 3, .version = 4}) ==
          "OK queue=0 out=3");
    CHECK(sync.number("version") == 4);
  }
}

TEST_CASE("script: what was changed for all outlives the loss of a key that does not say it") {
  for (const char* lost : {"sess", "q"}) {
    CAPTURE(lost);
    limit sync;
    CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}, .cap = 1, .flags = "C"}) == "OK 1 queue=1 out=1");
    sync.ask(redis::command{"DEL", prefix + lost});
    // One that has not heard of it.
    CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1 queue=1 out=1");
    CHECK(sync.settings == "1 1 0 0 1 0");
  }
}

TEST_CASE("script: one that is told that it is dead takes nothing along") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}}) == "OK queue=1 out=2");
  const auto epoch = sync.epoch;
  sync.expire("a");
  sync.expire("b");
  CHECK(sync({.session = "a", .sequence = 2, .held = 2}) == "NOSESS");
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1}, {2}}, .flags = "q"}) == "OK 1,2 queue=0 out=2");
  CHECK(sync.hold == 0);
  CHECK(sync.epoch == epoch);
}

TEST_CASE("script: tokens are no smaller than the time, nor than what any caller has seen") {
  limit sync;
  const std::int64_t then = std::stoll(sync.ask(redis::command{"TIME"}).elements()[0].text()) * 1'000'000;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}}, .cap = 9}) == "OK 1 queue=0 out=1");
  CHECK(sync.last_token >= then);
  // What Redis was given back is older than what it gave since.
  sync.set("fence", 7);
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2}, {3}}, .cap = 9}) == "OK 1,2,3 queue=0 out=4");
  CHECK(sync.runs == 1);
  // Its clock is behind the one that was.
  const std::int64_t later = sync.now + 60 * minute;
  CHECK(sync({.session = "c", .sequence = 1, .cap = 9, .seen = later}) == "OK queue=0 out=4");
  CHECK(sync({.session = "d", .sequence = 1, .wanted = {{1}}, .cap = 9}) == "OK 1 queue=0 out=5");
  CHECK(sync.last_token == later + 1);
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

TEST_CASE("script: the waiters of a process whose subscription has ended are stepped over, and keep their places") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  auto ears = sync.listen_for("b");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2}, {3}}, .flags = "s"}) == "OK queue=3 out=2");
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1, 0, 2}}}) == "OK queue=4 out=2");
  // While it listens it is told.
  CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {1, 2}}) == "OK queue=3 out=2");
  ears->until_heard("g 1 ");
  CHECK(sync({.session = "b", .sequence = 2, .held = 1, .acknowledged = {1}, .flags = "s"}) == "OK queue=3 out=2");
  ears.reset();
  sync.until_unheard("b");
  SECTION("another one is let in, for as much as is free") {
    CHECK(sync({.session = "a", .sequence = 3}) == "OK queue=3 out=1");
    CHECK(sync.next > 0);  // not at once again
    // Behind c, which does not fit.
    CHECK(sync({.session = "d", .sequence = 1, .wanted = {{1, 1}}}) == "OK queue=4 out=1");
    CHECK(sync({.session = "c", .sequence = 2, .cancelled = {{1, 2}}}) == "OK queue=2 out=2");
    CHECK(sync({.session = "d", .sequence = 2}) == "OK 1 queue=2 out=2");
  }
  SECTION("it listens again, and is the first again") {
    ears = sync.listen_for("b");
    CHECK(sync({.session = "a", .sequence = 3}) == "OK queue=2 out=2");
    ears->until_heard("g 2 ");
  }
  SECTION("it calls, and is the first again") {
    CHECK(sync({.session = "c", .sequence = 2, .cancelled = {{1, 2}}}) == "OK queue=2 out=2");
    CHECK(sync({.session = "a", .sequence = 3}) == "OK queue=2 out=1");
    CHECK(sync.next > 0);
    CHECK(sync({.session = "b", .sequence = 3, .held = 1}) == "OK 2 queue=1 out=2");
  }
  SECTION("it says that it does not listen, and is waited for") {
    CHECK(sync({.session = "b", .sequence = 3, .held = 1}) == "OK queue=3 out=2");
    CHECK(sync({.session = "c", .sequence = 2, .cancelled = {{1, 2}}}) == "OK queue=2 out=2");
    CHECK(sync({.session = "a", .sequence = 3}) == "OK queue=1 out=2");
    CHECK(sync({.session = "b", .sequence = 4, .held = 1}) == "OK 2 queue=1 out=2");
  }
  SECTION("a late call counts as before") {
    CHECK(sync({.session = "b", .sequence = 2, .held = 0, .flags = "s"}) == "STALE");
    CHECK(sync({.session = "b", .sequence = 3, .held = 1, .flags = "s"}) == "OK queue=3 out=2");
  }
}

TEST_CASE("script: a process whose subscription Redis has never seen is waited for") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  // It says that it listens, perhaps to another server behind the same address.
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .flags = "s"}) == "OK queue=1 out=2");
  CHECK(sync({.session = "b", .sequence = 2, .flags = "s"}) == "OK queue=1 out=2");
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1}}}) == "OK queue=2 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {1, 2}}) == "OK queue=1 out=2");
  CHECK(sync({.session = "b", .sequence = 3, .flags = "s"}) == "OK 1 queue=1 out=2");
}

TEST_CASE("script: after a restart, or at another node, a process is stepped over once it was seen there") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1}, {2}}}) == "OK 1,2 queue=0 out=2");
  auto ears = sync.listen_for("b");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2}}, .flags = "s"}) == "OK queue=2 out=2");
  // It lives, and its subscription lies elsewhere.
  ears.reset();
  sync.until_unheard("b");
  SECTION("another one is the first to call") {
    CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {{1, 2}}, .run_id = "r2"}) ==
          "OK queue=1 out=2");
    CHECK(sync({.session = "b", .sequence = 2, .wanted = {{1}, {2}}, .run_id = "r2", .flags = "s"}) ==
          "OK 1 queue=1 out=2");
  }
  SECTION("it is the first to call itself") {
    CHECK(sync({.session = "b", .sequence = 2, .run_id = "r2", .flags = "s"}) == "OK queue=2 out=2");
    CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {{1, 2}}, .run_id = "r2"}) ==
          "OK queue=1 out=2");
  }
  SECTION("once it has been seen there, and its process has died, it is stepped over") {
    ears = sync.listen_for("b");
    CHECK(sync({.session = "b", .sequence = 2, .run_id = "r2", .flags = "s"}) == "OK queue=2 out=2");
    ears.reset();
    sync.until_unheard("b");
    CHECK(sync({.session = "a", .sequence = 2, .held = 1, .acknowledged = {{1, 2}}, .run_id = "r2"}) ==
          "OK queue=2 out=1");
  }
}

TEST_CASE("script: a step that ends among the dead goes on at once for the living behind them") {
  limit sync;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1, 0, 2}}}) == "OK 1 queue=0 out=2");
  // A step has 1000 rounds. Here 990 refuse a weight that is too large, and the rest pass dead waiters.
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1, 0, 2, 990}}}) == "OK queue=990 out=2");
  const int dead = GENERATE(9, 10, 11, 500);
  CAPTURE(dead);
  auto ears = sync.listen_for("b");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 0, 1, dead}}, .flags = "s"}) ==
        "OK queue=" + std::to_string(990 + dead) + " out=2");
  CHECK(sync({.session = "c", .sequence = 2, .wanted = {{2000}}}) ==
        "OK queue=" + std::to_string(991 + dead) + " out=2");
  ears.reset();
  sync.until_unheard("b");
  const std::string left = std::to_string(dead);
  const bool ends_among_them = dead > 9;
  CHECK(sync({.session = "a", .sequence = 2, .acknowledged = {1}, .cap = 1, .flags = "C"}) ==
        "OK queue=" + std::to_string(dead + (ends_among_them ? 1 : 0)) + " out=" + (ends_among_them ? "0" : "1"));
  if (ends_among_them) {
    CHECK(sync.next == 0);
    CHECK(sync({.session = "a", .sequence = 3, .cap = 1, .version = 1}) == "OK queue=" + left + " out=1");
  }
  CHECK(sync.next > 0);
}

TEST_CASE("script: a dead process with less than 1000 waiters does not hold up the tokens of others") {
  limit sync;
  sync.rate_tokens = 1;
  sync.rate_period = 1'000'000;
  const int dead = GENERATE(1, 999, 1500);
  CAPTURE(dead);
  auto ears = sync.listen_for("b");
  const std::string queue = std::to_string(dead);
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 0, 1, dead}}, .cap = 0, .flags = "s"}) ==
        "OK queue=" + queue + " out=0");
  ears.reset();
  sync.until_unheard("b");
  sync.fill(1);
  const std::string said = sync({.session = "c", .sequence = 1, .wanted = {{1}}, .cap = 0});
  CHECK(said == (dead < 1000 ? "OK 1 queue=" + queue : "OK queue=" + std::to_string(dead + 1)) + " out=0");
  CHECK(sync.next > 0);  // and nobody calls again at once because of those
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

TEST_CASE("script: what a process has charged counts once, whichever of its sessions says so") {
  limit sync;
  sync.rate_tokens = 1;
  sync.rate_period = minute;
  sync.burst = 10;
  const auto level = [&] { return -sync.empty / minute; };
  CHECK(sync({.session = "p:1", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  sync.set("zu", sync.number("last") - 8 * minute);
  CHECK(sync({.session = "p:1", .sequence = 2, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(level() == 5);
  // The answer is lost, and then the session; or Redis does not know yet that it is.
  CHECK(sync({.session = "p:2", .sequence = 1, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(level() == 5);
  sync.expire("p:1");
  sync.expire("p:2");
  CHECK(sync({.session = "p:3", .sequence = 1, .cap = 0, .charged = {0, 4}}) == "OK queue=0 out=0");
  CHECK(level() == 4);
  CHECK(sync.text_of("p:1").empty());
  // A late call of a session from before.
  CHECK(sync({.session = "p:2", .sequence = 1, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(level() == 4);
  CHECK(sync({.session = "q:1", .sequence = 1, .cap = 0, .charged = {0, 1}}) == "OK queue=0 out=0");
  CHECK(level() == 3);
}

TEST_CASE("script: the keys outlive a debt, and a bucket that fills slowly") {
  limit sync;
  sync.rate_tokens = 1;
  sync.rate_period = 24 * 60 * minute;
  const auto hours = [&] { return sync.ask(redis::command{"PTTL", prefix + "state"}).integer() / 3'600'000; };
  CHECK(sync({.session = "a", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  CHECK(hours() >= 47);
  CHECK(sync({.session = "a", .sequence = 2, .cap = 0, .charged = {0, 3}}) == "OK queue=0 out=0");
  CHECK(hours() >= 47 + 3 * 24);
}

TEST_CASE("script: any number of waiters that want too much is refused in several calls") {
  limit sync;
  constexpr int many = 4500;
  CHECK(sync({.session = "a", .sequence = 1, .wanted = {{1, 0, 2}}}) == "OK 1 queue=0 out=2");
  CHECK(sync({.session = "a", .sequence = 2, .held = 2, .acknowledged = {1}}) == "OK queue=0 out=2");
  sync.ask(redis::command{"EVAL",
                          "local r = redis.call('HGET', KEYS[1], 'a') for i = 1, tonumber(ARGV[1]) do "
                          "redis.call('HSET', KEYS[1], 's' .. i, struct.pack('<d', 0) .. string.sub(r, 9)) "
                          "redis.call('ZADD', KEYS[2], 9000000000000000, 's' .. i) "
                          "redis.call('ZADD', KEYS[3], i, 's' .. i .. '|1|2') end "
                          "local t = redis.call('HGET', KEYS[1], '*') "
                          "local n = (ARGV[1] + 1) .. ' ' .. ARGV[1] "
                          "redis.call('HSET', KEYS[1], '*', string.sub(t, 1, 153) .. string.char(#n) .. n .. "
                          "string.sub(t, 155 + string.byte(t, 154)))",
                          3, prefix + "state", prefix + "sess", prefix + "q", many});
  CHECK(sync({.session = "a", .sequence = 3, .held = 1, .cap = 1, .flags = "C"}) == "OK queue=3500 out=1");
  CHECK(sync.next == 0);
  for (int left = many - 2000; left >= 0; left -= 1000) {
    sync({.session = "a", .sequence = 4 + (many - left) / 1000, .held = 1, .cap = 1, .version = 1});
  }
  CHECK(sync({.session = "a", .sequence = 20, .held = 1, .cap = 1, .version = 1}) == "OK queue=0 out=1");
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

namespace {

/// One a minute of requests, up to 3; ten a minute of "tokens", up to 100; and four a minute of requests, up to 2.
struct several : limit {
  several() {
    rate_tokens = 1;
    rate_period = minute;
    burst = 3;
    further = {{10, minute, 100, 2}, {4, minute, 2, 1}};
    units = 2;
    shape = 77;
    CHECK((*this)({.session = "a", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  }
  void fill_all(int first, int of_tokens, int last) {
    fill(first);
    fill_further(0, of_tokens);
    fill_further(1, last);
  }
  /// The whole tokens in each bucket: of the first rate, and of the others.
  std::vector<std::int64_t> levels() const {
    return {-empty / minute, -further_empty.at(0) / (minute / 10), -further_empty.at(1) / (minute / 4)};
  }
};

using levels = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("script: several rates admit in one step, or none of them takes anything") {
  several sync;
  sync.fill_all(3, 50, 1);
  // The last rate has one only: two would take from the others in vain.
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, -1, 2, 1, {10}}}, .cap = 0}) == "OK ?1 queue=0 out=0");
  CHECK(sync.levels() == levels{3, 50, 1});
  CHECK(sync({.session = "a", .sequence = 3, .wanted = {{2, -1, 1, 1, {51}}}, .cap = 0}) == "OK ?2 queue=0 out=0");
  CHECK(sync.levels() == levels{3, 50, 1});
  CHECK(sync({.session = "a", .sequence = 4, .wanted = {{3, -1, 1, 1, {30}}}, .cap = 0}) == "OK 3 queue=0 out=0");
  CHECK(sync.levels() == levels{2, 20, 0});
}

TEST_CASE("script: a waiter is due when the last of its rates has what it wants") {
  several sync;
  sync.fill_all(3, 0, 2);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 1, {20}}}, .cap = 0}) == "OK queue=1 out=0");
  CHECK(sync.next > 2 * minute - 10'000'000);
  CHECK(sync.next <= 2 * minute);
  // One that comes later waits behind it, though its tokens are there.
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}, {2, -1}}, .cap = 0}) == "OK ?2 queue=2 out=0");
  sync.fill_further(0, 20);
  CHECK(sync({.session = "b", .sequence = 2, .cap = 0}) == "OK 1 queue=0 out=0");
  CHECK(sync.levels() == levels{1, 0, 0});
}

TEST_CASE("script: a unit that is not wanted is not waited for, even in debt") {
  several sync;
  sync.fill_all(3, 0, 2);
  CHECK(sync({.session = "a", .sequence = 2, .cap = 0, .further_charged = {{0, 500}}}) == "OK queue=0 out=0");
  CHECK(sync.levels() == levels{3, -499, 2});
  CHECK(sync({.session = "a", .sequence = 3, .wanted = {{1, -1}}, .cap = 0, .further_charged = {{500, 500}}}) ==
        "OK 1 queue=0 out=0");
  CHECK(sync.levels() == levels{2, -499, 1});
}

TEST_CASE("script: a cap and rates admit in one step, and a permit is one place") {
  several sync;
  sync.fill_all(3, 100, 2);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 2, 1, {10}}}, .cap = 1}) == "OK 1 queue=0 out=1");
  CHECK(sync.levels() == levels{1, 90, 0});
  sync.fill_all(3, 100, 2);
  // The cap holds it up: no rate is charged.
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 0, 1, 1, {5}}}, .cap = 1}) == "OK queue=1 out=1");
  CHECK(sync.levels() == levels{3, 100, 2});
  // A rate holds it up: it takes no place.
  sync.fill_further(0, 0);
  CHECK(sync({.session = "a", .sequence = 3, .acknowledged = {1}, .cap = 1}) == "OK queue=1 out=0");
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1, -1}}, .cap = 1}) == "OK ?1 queue=1 out=0");
  sync.fill_further(0, 5);
  CHECK(sync({.session = "b", .sequence = 2, .cap = 1}) == "OK 1 queue=0 out=1");
}

TEST_CASE("script: whoever waited for a place gets no more than the burst when it is there") {
  limit sync;
  sync.shape = 5;
  sync.rate_tokens = 1000;
  sync.rate_period = 1'000'000;
  sync.burst = 1;
  CHECK(sync({.session = "a", .sequence = 1, .cap = 1}) == "OK queue=0 out=0");
  sync.set("zu", 0);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1}}, .cap = 1}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1}}, .cap = 1}) == "OK queue=1 out=1");
  // As if a token had been due long ago.
  sync.set("due", 1);
  CHECK(sync({.session = "b", .sequence = 2, .cap = 1}) == "OK queue=1 out=1");
  CHECK(sync.number("due") == -1);
}

TEST_CASE("script: what a waiter that leaves was granted goes back, of each unit") {
  several sync;
  sync.fill_all(3, 100, 2);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 1, {40}}}, .cap = 0}) == "OK 1 queue=0 out=0");
  CHECK(sync.levels() == levels{2, 60, 1});
  CHECK(sync({.session = "a", .sequence = 3, .cancelled = {{1, 1}}, .cap = 0, .cancelled_amounts = {40}}) ==
        "OK queue=0 out=0");
  CHECK(sync.levels() == levels{3, 100, 2});
  // One that waits leaves the queue.
  CHECK(sync({.session = "a", .sequence = 4, .wanted = {{2, 0, 3, 1, {7}}, {3, 0, 1, 1, {101}}}, .cap = 0}) ==
        "OK !2,!3 queue=0 out=0");  // the last rate has two at most
}

TEST_CASE("script: what is more than a burst of its unit is refused, and a waiter leaves with all its amounts") {
  several sync;
  sync.fill_all(0, 0, 0);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 1, {7}}, {2, 0, 1, 1, {101}}}, .cap = 0}) ==
        "OK queue=2 out=0");
  CHECK(sync({.session = "a", .sequence = 3, .cancelled = {{1, 1}}, .cap = 0, .cancelled_amounts = {7}}) ==
        "OK !2 queue=0 out=0");
}

TEST_CASE("script: what is charged of a unit counts for all its rates, and once, also where an answer was lost") {
  several sync;
  sync.fill_all(3, 100, 2);
  const say first{.session = "a", .sequence = 2, .cap = 0, .charged = {0, 1}, .further_charged = {{0, 30}}};
  CHECK(sync(first) == "OK queue=0 out=0");
  CHECK(sync.levels() == levels{2, 70, 1});
  say again = first;
  again.sequence = 3;
  CHECK(sync(again) == "OK queue=0 out=0");
  CHECK(sync.levels() == levels{2, 70, 1});
  // Less was used: it goes back.
  CHECK(sync({.session = "a", .sequence = 4, .cap = 0, .charged = {1, 1}, .further_charged = {{30, 10}}}) ==
        "OK queue=0 out=0");
  CHECK(sync.levels() == levels{2, 90, 1});
  // And no more than fits.
  CHECK(sync({.session = "a", .sequence = 5, .cap = 0, .charged = {1, 1}, .further_charged = {{10, -500}}}) ==
        "OK queue=0 out=0");
  CHECK(sync({.session = "a",
              .sequence = 6,
              .wanted = {{1, -1, 1, 1, {100}}},
              .cap = 0,
              .charged = {1, 1},
              .further_charged = {{-500, -500}}}) == "OK 1 queue=0 out=0");
  CHECK(sync.levels() == levels{1, 0, 0});
}

TEST_CASE("script: settings of one of several rates are changed, and keep the tokens that fit") {
  several sync;
  sync.fill_all(3, 100, 2);
  CHECK(sync({.session = "b", .sequence = 1, .cap = 0}) == "OK queue=0 out=0");
  sync.further[0].burst = 40;
  sync.further[0].changed = 2;
  sync.further[1].tokens = 9;  // not said to be changed
  CHECK(sync({.session = "a", .sequence = 2, .cap = 0, .flags = "M"}) == "OK queue=0 out=0");
  CHECK(sync.settings == "1 0 1 60000000 3 0 10 60000000 40 4 60000000 2");
  CHECK(sync.levels().at(1) == 40);
  CHECK(sync({.session = "b", .sequence = 2, .wanted = {{1, 0, 1, 1, {41}}}, .cap = 0}) == "OK !1 queue=0 out=0");
}

TEST_CASE("script: a limit of another shape is not touched while a lease lasts, and made anew after it") {
  several sync;
  sync.fill_all(3, 100, 2);
  const std::string kept = sync.text_of("*");
  limit& other = sync;
  other.shape = 78;
  other.further.pop_back();
  CHECK(other({.session = "b", .sequence = 1, .wanted = {{1}}, .cap = 0}) == "SHAPE");
  CHECK((sync.text_of("*") == kept));  // not to be shown, as it is no text
  other.ask(redis::command{"ZADD", prefix + "sess", 1, "a"});
  CHECK(other({.session = "b", .sequence = 1, .wanted = {{1}}, .cap = 0}) == "OK queue=1 out=0");
  CHECK(other({.session = "a", .sequence = 2, .cap = 0}) == "NOSESS");
}

TEST_CASE("script: a limit of another shape begins with a quarantine unless no permit can be out") {
  const auto begins_with_quarantine = [](limit& sync, const std::string& run_id) {
    sync.shape = 78;
    if (!sync.further.empty()) sync.further.pop_back();
    CHECK(sync({.session = "b", .sequence = 1, .run_id = run_id, .cap = 1, .flags = "q"}) == "OK queue=0 out=0");
    return sync.hold > 0;
  };
  SECTION("all have left") {
    several sync;
    CHECK(sync({.session = "a", .sequence = 2, .cap = 1, .flags = "l"}) == "OK queue=0 out=0");
    CHECK(!begins_with_quarantine(sync, "r1"));
  }
  SECTION("all have left, and Redis was restarted") {
    several sync;
    CHECK(sync({.session = "a", .sequence = 2, .cap = 1, .flags = "l"}) == "OK queue=0 out=0");
    CHECK(begins_with_quarantine(sync, "r2"));
  }
  SECTION("one that held nothing has not called for longer than its lease") {
    several sync;
    sync.expire("a");
    CHECK(!begins_with_quarantine(sync, "r1"));
  }
  SECTION("one that holds a permit has not called for longer than its lease") {
    several sync;
    CHECK(sync({.session = "a", .sequence = 2, .held = 1, .cap = 1}) == "OK queue=0 out=1");
    sync.expire("a");
    CHECK(begins_with_quarantine(sync, "r1"));
  }
  SECTION("all have left a server that tells no run id") {
    limit sync;
    sync.shape = 77;
    CHECK(sync({.session = "a", .sequence = 1, .run_id = "?", .cap = 1}) == "OK queue=0 out=0");
    CHECK(sync({.session = "a", .sequence = 2, .run_id = "?", .cap = 1, .flags = "l"}) == "OK queue=0 out=0");
    CHECK(begins_with_quarantine(sync, "?"));
  }
  SECTION("all have left during an earlier quarantine") {
    several sync;
    CHECK(sync({.session = "a", .sequence = 2, .run_id = "r2", .cap = 1, .flags = "q"}) == "OK queue=0 out=0");
    CHECK(sync.hold > 0);
    CHECK(sync({.session = "a", .sequence = 3, .run_id = "r2", .cap = 1, .flags = "ql"}) == "OK queue=0 out=0");
    CHECK(begins_with_quarantine(sync, "r2"));
  }
  SECTION("the sessions are lost") {
    several sync;
    sync.ask(redis::command{"DEL", prefix + "sess"});
    CHECK(begins_with_quarantine(sync, "r1"));
  }
}

TEST_CASE("script: after a restart all buckets are empty, and a crashed holder frees its place only") {
  several sync;
  sync.fill_all(3, 100, 2);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 1, {10}}}, .cap = 1}) == "OK 1 queue=0 out=1");
  CHECK(sync({.session = "b", .sequence = 1, .wanted = {{1, 0, 1, 1, {10}}}, .cap = 1}) == "OK queue=1 out=1");
  sync.expire("a");
  CHECK(sync({.session = "b", .sequence = 2, .cap = 1}) == "OK 1 queue=0 out=1");
  CHECK(sync.levels() == levels{1, 80, 0});
  CHECK(sync({.session = "b", .sequence = 3, .held = 1, .acknowledged = {1}, .run_id = "r2", .cap = 1}) ==
        "OK queue=0 out=1");
  CHECK(sync.levels() == levels{0, 0, 0});
  // A key that is lost without the others is lost data, too.
  sync.fill_all(3, 100, 2);
  sync.ask(redis::command{"DEL", prefix + "sess"});
  CHECK(sync({.session = "c", .sequence = 1, .wanted = {{1, -1, 1, 1, {10}}}, .run_id = "r2", .cap = 1}) ==
        "OK ?1 queue=0 out=0");
  CHECK(sync.levels() == levels{0, 0, 0});
}

TEST_CASE("script: when the server's clock is set forward no rate of several gains more than its callers measure") {
  several sync;
  sync.fill_all(0, 0, 0);
  CHECK(sync({.session = "a", .sequence = 2, .wanted = {{1, 0, 1, 1, {10}}}, .cap = 0}) == "OK queue=1 out=0");
  sync.set_forward(60 * minute);
  CHECK(sync({.session = "a", .sequence = 3, .cap = 0, .latest = sync.now + 1000}) == "OK queue=1 out=0");
  CHECK(sync.levels() == levels{0, 0, 0});
}
