// Alternatives of a redis::limiter: what the script decides, against a model, and what processes see of it.
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/limiter.hpp"

#include "../lib/redis/script.hpp"
#include "../lib/redis/sync.hpp"
#include "redis/greeting.hpp"
#include "redis/member.hpp"
#include "redis/process.hpp"
#include "redis/scene.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace redis_alternatives_test {

using namespace redis_test;
using namespace std::chrono_literals;
using canigo::errc;
using canigo::rate;
using canigo::request;
using redis::detail::packed;
using redis::detail::sync_answer;
using redis::detail::sync_call;

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

// In the tests of the script, no token comes in: a rate has one in eleven days. So all tokens are those that a test
// gives back.
constexpr std::uint64_t eleven_days = 1'000'000'000'000;

/// The limits of one alternative, or those that all share.
struct supply {
  std::uint64_t burst = 0;    // 0: no rate
  std::uint64_t permits = 0;  // 0: no cap
  int prefer = 1;
  bool is_paused = false;
  std::int64_t pause = -1;  // us that it lasts; -1: for ever
  std::int64_t tokens = 0;
  std::uint64_t held = 0;

  bool fits(std::uint64_t amount) const { return burst == 0 || amount <= burst; }
  bool has(std::uint64_t amount) const {
    return !is_paused && (permits == 0 || held < permits) &&
           (burst == 0 || tokens >= static_cast<std::int64_t>(amount));
  }
  double room() const {
    const double places = permits == 0 ? 1 : static_cast<double>(permits - held) / static_cast<double>(permits);
    return burst == 0 ? places : std::min(places, static_cast<double>(tokens) / static_cast<double>(burst));
  }
  void take(std::uint64_t amount) {
    ++held;
    tokens -= static_cast<std::int64_t>(amount);
  }
  void put(std::int64_t amount) {
    if (burst != 0) tokens = std::min(static_cast<std::int64_t>(burst), tokens + amount);
  }
};

/// A request of a session.
struct asked {
  int session;
  std::uint64_t id;
  int priority;  // below 0: now or not at all
  std::uint64_t amount;
  std::uint64_t set;
  std::size_t from = 0;  // once it is granted
};

/// What the promises say, as short as can be.
struct model {
  supply common;
  std::vector<supply> any;
  std::vector<asked> line = {};  // by class and arrival
  std::vector<asked> granted = {};
  std::uint64_t kept = 0;
  bool is_over = false;

  std::optional<std::size_t> choose(const asked& a) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < any.size(); ++i) {
      if (((a.set & ~kept) >> i & 1) == 0 || !any[i].has(a.amount)) continue;
      const bool is_better = !best || any[i].prefer < any[*best].prefer ||
                             (any[i].prefer == any[*best].prefer && any[i].room() > any[*best].room());
      if (is_better) best = i;
    }
    return best;
  }
  bool serve(asked a) {
    const auto chosen = choose(a);
    if (!chosen) {
      kept |= a.set;
      return false;
    }
    if (!common.has(a.amount)) {
      is_over = true;
      return false;
    }
    common.take(a.amount);
    any[*chosen].take(a.amount);
    a.from = *chosen;
    granted.push_back(a);
    return true;
  }
  void serve_all() {
    kept = 0;
    is_over = common.is_paused;
    for (auto p = line.begin(); p != line.end() && !is_over;) p = serve(*p) ? line.erase(p) : p + 1;
  }
  void come(const std::vector<asked>& all) {
    std::vector<asked> tries;
    for (const asked& a : all) {
      kept = 0;
      is_over = common.is_paused;
      if (line.empty() && !is_over && serve(a)) continue;
      if (a.priority < 0) {
        if (!line.empty()) tries.push_back(a);
        continue;
      }
      const auto behind = [&](const asked& other) { return other.priority > a.priority; };
      line.insert(std::find_if(line.begin(), line.end(), behind), a);
    }
    serve_all();
    for (const asked& a : tries) {
      if (!is_over && (a.set & ~kept) != 0) {
        const std::uint64_t before = std::exchange(kept, kept);
        const bool was_over = is_over;
        serve(a);
        kept = before;  // one that does not wait keeps nothing
        is_over = was_over;
      }
    }
  }
  /// The request leaves, granted or not.
  void leave(int session, std::uint64_t id) {
    const auto is_it = [&](const asked& a) { return a.session == session && a.id == id; };
    std::erase_if(line, is_it);
    const auto found = std::ranges::find_if(granted, is_it);
    if (found == granted.end()) return;
    for (supply* s : {&common, &any[found->from]}) {
      --s->held;
      s->put(static_cast<std::int64_t>(found->amount));
    }
    granted.erase(found);
  }
  void release(int session, std::uint64_t id) {
    const auto is_it = [&](const asked& a) { return a.session == session && a.id == id; };
    const auto found = std::ranges::find_if(granted, is_it);
    --common.held;
    --any[found->from].held;
    granted.erase(found);
  }
};

/// A session, as its process has it.
struct session {
  std::string name;
  std::uint64_t sequence = 0;
  std::map<std::uint64_t, std::size_t> seen = {};  // its grants, and the alternative of each
  std::vector<std::uint64_t> acknowledged = {};
  std::vector<sync_call::withdrawal> cancels = {};
  std::vector<std::int64_t> charged = {};  // of the common rate, and of each alternative
  std::vector<std::int64_t> answered = {};
};

/// A limit with alternatives in a Redis, and the model beside it.
class any_limit {
 public:
  any_limit(supply common, std::vector<supply> any) : truth{common, std::move(any)} {
    for (const char* name : {"a:1", "b:1", "c:1"}) {
      sessions.push_back({.name = name});
      sessions.back().charged.resize(1 + truth.any.size());
      sessions.back().answered.resize(1 + truth.any.size());
    }
  }

  /// One call of a session, with these requests. Returns its new grants, each with its alternative.
  std::map<std::uint64_t, std::size_t> call(int who, const std::vector<asked>& wanted = {}) {
    session& s = sessions[static_cast<std::size_t>(who)];
    sync_call c;
    c.prefix = "{t}:";
    c.session = s.name;
    c.sequence = ++s.sequence;
    c.lease = 1min;
    c.quarantine = false;
    c.shape = 7;
    c.settings.permits = truth.common.permits != 0 ? truth.common.permits : 1 << 30;
    c.settings.pause = truth.common.is_paused ? -1 : 0;
    c.settings.rate_count = 1;
    c.settings.rates[0] = {0, 0, 0};
    if (truth.common.burst != 0) c.settings.rates[0] = {1, eleven_days, truth.common.burst};
    c.charged[0] = {s.answered[0], s.charged[0]};
    c.changes = changes;
    for (std::size_t i = 0; i < truth.any.size(); ++i) {
      const supply& a = truth.any[i];
      if (a.burst != 0) c.settings.rates[c.settings.rate_count++] = {1, eleven_days, a.burst};
      c.settings.alternatives.push_back({a.permits, a.is_paused ? a.pause : 0});
      c.alternatives.push_back({.prefer = a.prefer, .rates = a.burst != 0 ? std::size_t{1} : std::size_t{0}});
      for (const auto& [id, from] : s.seen) c.alternatives.back().held += from == i ? 1 : 0;
      c.alternatives.back().charged[0] = {s.answered[i + 1], s.charged[i + 1]};
    }
    c.held = s.seen.size();
    c.acknowledged = &s.acknowledged;
    c.cancels = &s.cancels;
    for (const asked& a : wanted) c.wanted.push_back({a.id, a.priority, a.amount, {a.amount}, a.set});
    const redis::command encoded = c.encoded(true);
    redis::command sent{"EVAL", script_under_test()};
    for (std::size_t i = 2; i < encoded.arguments().size(); ++i) {
      const std::string& text = encoded.arguments()[i];
      sent.add(text == redis::command::run_id_placeholder ? "r1" : text);
    }
    const redis::reply r = run(io, client.run(sent));
    answer.emplace(r);
    CHECK(answer->what == sync_answer::status::ok);
    s.acknowledged.clear();
    s.cancels.clear();
    s.answered = s.charged;
    changes = {};
    std::map<std::uint64_t, std::size_t> news;
    for (const auto& g : answer->grants) {
      for (std::uint64_t id = g.first; g.token > 0 && id < g.first + g.count; ++id) {
        if (!s.seen.emplace(id, g.from).second) continue;
        news.emplace(id, g.from);
        s.acknowledged.push_back(id);
      }
    }
    return news;
  }

  void put(int who, std::size_t index, std::int64_t tokens) {
    sessions[static_cast<std::size_t>(who)].charged[index] -= tokens;
    (index == 0 ? truth.common : truth.any[index - 1]).put(tokens);
  }

  /// As if the lease of a session had run out.
  void expire(int who) {
    const std::string state = run(io, client.run("HGET", "{t}:state", "*")).text();
    constexpr std::size_t reap = 11 * 8;
    const std::array<double, 1> long_ago{1};
    std::ignore = run(io, client.run("HSET", "{t}:state", "*", std::string{state}.replace(reap, 8, packed(long_ago))));
    std::ignore = run(io, client.run("ZADD", "{t}:sess", 1, sessions[static_cast<std::size_t>(who)].name));
  }

  redis_server server;
  net::io_context io;
  redis::client client{io, server.url()};
  model truth;
  std::vector<session> sessions;
  redis::detail::setting changes;
  std::optional<sync_answer> answer;
};

TEST_CASE("script: any sequence of calls of a limit with alternatives grants what a model says") {
  const char* const given = std::getenv("CANIGO_TEST_SEED");
  const std::uint64_t first_seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  for (std::uint64_t seed = first_seed; seed < first_seed + 12; ++seed) {
    std::uint64_t random = seed;
    const auto below = [&](std::uint64_t n) { return canigo::detail::next_random(random) % n; };
    const std::uint64_t many = 1 + below(4);
    std::vector<supply> any;
    for (std::uint64_t i = 0; i < many; ++i) {
      any.push_back({.burst = below(3) != 0 ? 4 + below(5) : 0,
                     .permits = below(2) != 0 ? 1 + below(4) : 0,
                     .prefer = static_cast<int>(1 + below(2))});
    }
    const std::uint64_t burst = below(2) != 0 ? 9 : 0;
    any_limit limit{{.burst = burst, .permits = below(2) != 0 ? 1 + below(6) : 0}, any};
    std::uint64_t next_id = 1;
    std::map<std::pair<int, std::uint64_t>, asked> open;  // neither granted, as far as is known here, nor ended
    for (int step = 0; step < 120; ++step) {
      CAPTURE(seed, step);
      const int who = static_cast<int>(below(3));
      session& s = limit.sessions[static_cast<std::size_t>(who)];
      std::vector<asked> wanted;
      switch (below(6)) {
        case 0:
        case 1:
          for (std::uint64_t n = 0; n < 1 + below(3); ++n) {
            const std::uint64_t amount = 1 + below(5);
            std::uint64_t set = 0;
            for (std::uint64_t i = 0; i < many; ++i) {
              if (below(2) != 0 && limit.truth.any[i].fits(amount)) set |= std::uint64_t{1} << i;
            }
            if (set == 0) continue;
            wanted.push_back({who, next_id++, static_cast<int>(below(3)) - 1, amount, set});
            if (wanted.back().priority >= 0) open[{who, wanted.back().id}] = wanted.back();
          }
          break;
        case 2: {  // one that waits, as far as is known here, leaves
          const auto found = std::ranges::find_if(open, [&](const auto& o) { return o.first.first == who; });
          if (found == open.end()) break;
          const asked& a = found->second;
          s.cancels.push_back({a.id, a.amount, {a.amount}, a.set});
          limit.truth.leave(who, a.id);
          open.erase(found);
          break;
        }
        case 3:
          if (!s.seen.empty()) {
            auto gone = s.seen.begin();
            std::advance(gone, static_cast<std::ptrdiff_t>(below(s.seen.size())));
            limit.truth.release(who, gone->first);
            s.seen.erase(gone);
          }
          break;
        case 4: {
          const std::size_t index = below(many + 1);
          limit.put(who, index, static_cast<std::int64_t>(1 + below(9)));
          break;
        }
        default: {
          const std::size_t index = below(many + 1);
          bool& is_paused = (index == 0 ? limit.truth.common : limit.truth.any[index - 1]).is_paused;
          is_paused = !is_paused && below(2) != 0;
          using redis::detail::setting;
          limit.changes |= index == 0 ? setting::pause() : setting::pause_of(index - 1);
        }
      }
      limit.truth.come(wanted);
      const auto news = limit.call(who, wanted);
      std::map<std::uint64_t, std::size_t> all;
      for (const asked& a : limit.truth.granted) {
        if (a.session == who) all.emplace(a.id, a.from);
      }
      CHECK(s.seen == all);
      for (const auto& [id, from] : news) open.erase({who, id});
      CHECK(limit.answer->queue == limit.truth.line.size());
      CHECK(limit.answer->held_by_all == limit.truth.granted.size());
      REQUIRE(limit.answer->alternatives.size() == many);
      for (std::size_t i = 0; i < many; ++i)
        CHECK(limit.answer->alternatives[i].held_by_all == limit.truth.any[i].held);
    }
  }
}

TEST_CASE("script: waiters of a paused alternative, however many, hold up none of another one") {
  any_limit limit{{}, {{.permits = 2, .is_paused = true}, {.permits = 2}}};
  for (std::uint64_t n = 0; n < 3; ++n) {
    std::vector<asked> many;
    for (std::uint64_t i = 0; i < 1000; ++i) many.push_back({0, 1 + n * 1000 + i, 0, 1, 1});
    CHECK(limit.call(0, many).empty());
  }
  CHECK(limit.call(1, {{1, 1, 1, 1, 2}}).size() == 1);
  CHECK(limit.call(1, {{1, 2, 1, 1, 3}}).size() == 1);
  CHECK(limit.answer->queue == 3000);
  REQUIRE(limit.answer->next);
  CHECK(*limit.answer->next > 30s);  // only the end of a lease can change that
}

TEST_CASE("script: where a waiter of an alternative is due its session is told to call, and others call later") {
  any_limit limit{{}, {{.burst = 9}, {.burst = 9}}};
  CHECK(limit.call(0, {{0, 1, 0, 2, 1}}).empty());
  CHECK(limit.call(1, {{1, 1, 0, 1, 2}}).empty());
  // The token of the second one is there in eleven days, and those of the first one in twice that. But before that, the
  // lease of a session ends.
  REQUIRE(limit.answer->next);
  CHECK(*limit.answer->next < 2min);
  const std::int64_t lease = std::chrono::duration_cast<std::chrono::microseconds>(1min).count();
  CHECK(std::chrono::duration_cast<std::chrono::microseconds>(*limit.answer->next).count() > lease / 2);
}

TEST_CASE("script: the 257th set of alternatives that waits is refused, until another has none that wait") {
  std::vector<supply> any(9, supply{.is_paused = true});
  any_limit limit{{}, any};
  std::vector<asked> all;
  for (std::uint64_t set = 1; set <= 256; ++set) all.push_back({0, set, 0, 1, set});
  limit.call(0, all);
  CHECK(limit.answer->queue == 256);
  limit.call(1, {{1, 1, 0, 1, 300}});
  CHECK(limit.answer->queue == 256);
  REQUIRE(limit.answer->grants.size() == 1);
  CHECK(limit.answer->grants[0].token == -2);
  limit.sessions[0].cancels.push_back({7, 1, {1}, 7});
  limit.call(0);
  limit.call(1, {{1, 2, 0, 1, 300}});
  CHECK(limit.answer->queue == 256);
  CHECK(limit.answer->grants.empty());
}

TEST_CASE("script: the place of a session that has died is free at its alternative, and those of others are not") {
  any_limit limit{{}, {{.permits = 3}, {.permits = 3}}};
  CHECK(limit.call(0, {{0, 1, 0, 1, 1}, {0, 2, 0, 1, 2}}).size() == 2);
  CHECK(limit.call(1, {{1, 1, 0, 1, 1}}).size() == 1);
  CHECK(limit.call(2, {{2, 1, 0, 1, 1}, {2, 2, 0, 1, 1}}).size() == 1);
  limit.expire(0);
  // One that it held goes to the waiter, which has not heard of it yet.
  limit.call(1);
  CHECK(limit.answer->alternatives[0].held_by_all == 3);
  CHECK(limit.answer->alternatives[1].held_by_all == 0);
  const std::map<std::uint64_t, std::size_t> second{{2, 0}};
  CHECK(limit.call(2) == second);
}

TEST_CASE("script: a pause that is extended does not end earlier, and one that is set may") {
  any_limit limit{{}, {{.permits = 1, .is_paused = true}}};
  using redis::detail::setting;
  constexpr std::int64_t minute = 60'000'000;
  const auto pause_for = [&](std::int64_t minutes, const setting& how) {
    limit.truth.any[0].pause = minutes * minute;
    limit.changes = how;
    limit.call(0);
    return limit.answer->alternatives[0].settings.pause;
  };
  CHECK(pause_for(60, setting::pause_of(0)) > 50 * minute);
  CHECK(pause_for(1, setting::longer_pause_of(0)) > 50 * minute);
  CHECK(pause_for(120, setting::longer_pause_of(0)) > 110 * minute);
  CHECK(pause_for(1, setting::pause_of(0)) <= minute);
}

TEST_CASE("script: a burst that has become too small for a waiter takes that alternative from its set, or ends it") {
  any_limit limit{{}, {{.burst = 5}, {.burst = 5}}};
  CHECK(limit.call(0, {{0, 1, 0, 4, 3}, {0, 2, 0, 4, 1}}).empty());
  limit.truth.any[0].burst = 3;
  limit.changes |= redis::detail::setting::burst_of(1);
  limit.put(0, 2, 4);
  const auto news = limit.call(0);
  CHECK(news == std::map<std::uint64_t, std::size_t>{{1, 1}});
  CHECK(std::ranges::any_of(limit.answer->grants, [](const auto& g) { return g.first == 2 && g.token == 0; }));
  CHECK(limit.answer->queue == 0);
}

TEST_CASE("script: what is settled at an alternative counts there once, also where an answer was lost") {
  any_limit limit{{.burst = 9}, {{.burst = 9}, {.burst = 9}}};
  for (const std::size_t index : {0u, 1u, 2u}) limit.put(0, index, 9);
  CHECK(limit.call(0).empty());
  session& s = limit.sessions[0];
  // 5 more are used at the first alternative, and the answer is lost.
  s.charged[0] += 5;
  s.charged[1] += 5;
  limit.call(0);
  s.answered[0] -= 5;
  s.answered[1] -= 5;
  limit.call(0);
  CHECK(limit.call(1, {{1, 1, -1, 5, 1}}).empty());
  const std::map<std::uint64_t, std::size_t> second{{2, 0}};
  CHECK(limit.call(1, {{1, 2, -1, 4, 1}}) == second);
}

// ---- processes ------------------------------------------------------------------------------------------------------

struct api_member {
  api_member(net::io_context& io, const std::string& url, const redis::limiter_options& o)
      : client{io, url}, api{client, "crm", o} {}
  redis::client client;
  redis::limiter api;
};

/// Two keys with a cap of one, of which the first is tried first.
redis::limiter_options two_keys(canigo::duration lease = 1min) {
  return {.alternatives = {{.name = "team", .concurrency = 1}, {.name = "spare", .concurrency = 1, .prefer = 2}},
          .lease = lease,
          .priorities = 2,
          .quarantine = false};
}

/// The first one has a rate, too.
redis::limiter_options two_keys_and_a_rate() {
  redis::limiter_options o = two_keys();
  o.alternatives[0].rates = {{rate::per_second(1'000'000), 10}};
  return o;
}

std::optional<redis::permit> granted(net::io_context& io, redis::limiter& l, const request& r = {}) {
  return run(io, l.acquire_now(r));
}

/// Asks until it is granted.
redis::permit until_granted(net::io_context& io, redis::limiter& l, const request& r) {
  std::optional<redis::permit> got;
  run_until(io, [&] {
    if (!got) got = granted(io, l, r);
    return got.has_value();
  });
  return std::move(*got);
}

TEST_CASE("redis limiter: a request takes from one alternative, and the permit says from which") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys()};
  api_member b{io, server.url(), two_keys()};
  auto first = run(io, a.api.acquire({}));
  CHECK(first.alternative() == 0);
  CHECK(first.alternative_name() == "team");
  auto second = run(io, b.api.acquire({}));
  CHECK(second.alternative_name() == "spare");
  CHECK_FALSE(granted(io, b.api));
  CHECK(b.api.stats().alternatives.at(0).held_by_all == 1);
  CHECK(b.api.stats().alternatives.at(1).held == 1);
  CHECK(b.api.stats().alternatives.at(1).granted == 1);
  CHECK(b.api.stats().alternatives.at(1).concurrency == 1);
  // A waiter that only the spare key can serve is passed by one that only the other can serve.
  waiting only_spare{a.api, {.alternatives = 2}};
  waiting only_team{b.api, {.priority = 1, .alternatives = 1}};
  run_until(io, [&] { return b.api.stats().waiting_of_all == 2; });
  first.release();
  run_until(io, [&] { return only_team.ended(); });
  CHECK(only_team.p.alternative() == 0);
  CHECK_FALSE(only_spare.ended());
  second.release();
  run_until(io, [&] { return only_spare.ended(); });
  CHECK(only_spare.p.alternative() == 1);
  CHECK(redis::permit{}.alternative() == canigo::no_alternative);
  CHECK(redis::permit{}.alternative_name().empty());
}

TEST_CASE("redis limiter: one that does not wait passes waiters that want other alternatives") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys()};
  const auto held = run(io, a.api.acquire({.alternatives = 1}));
  waiting w{a.api, {.alternatives = 1}};
  run_until(io, [&] { return a.api.stats().waiting_of_all == 1; });
  CHECK_FALSE(granted(io, a.api, {.alternatives = 1}));
  const auto other = granted(io, a.api);
  REQUIRE(other);
  CHECK(other->alternative() == 1);
}

TEST_CASE("redis limiter: an acquire that is cancelled takes nothing of any alternative") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys()};
  api_member b{io, server.url(), two_keys()};
  auto first = run(io, a.api.acquire({}));
  auto second = run(io, a.api.acquire({}));
  for (int n = 0; n < 20; ++n) {
    waiting w{b.api, {.alternatives = static_cast<std::uint64_t>(1 + n % 3)}};
    run_until(io, [&] { return b.api.stats().waiting_of_all == 1; });
    // The cancel and a grant meet.
    (n % 2 != 0 ? first : second).release();
    w.cancel.emit(asio::cancellation_type::terminal);
    run_until(io, [&] { return w.ended(); });
    w.p.release();
    (n % 2 != 0 ? first : second) = until_granted(io, a.api, {.alternatives = n % 2 != 0 ? 1u : 2u});
  }
  CHECK_FALSE(granted(io, b.api));
  first.release();
  second.release();
  std::ignore = until_granted(io, b.api, {.alternatives = 1});
  std::ignore = until_granted(io, b.api, {.alternatives = 2});
}

TEST_CASE("redis limiter: a settlement counts at the alternative that served the request, for all processes") {
  redis_server server;
  drained io;
  // A limit that Redis does not know begins empty. These rates fill it between two commands.
  const rate fast = rate::per_second(1'000'000'000);
  redis::limiter_options o;
  o.alternatives = {{.name = "a", .rates = {{fast, 10}}}, {.name = "b", .rates = {{fast, 10}}}};
  api_member a{io, server.url(), o};
  api_member b{io, server.url(), o};
  std::ignore = run(io, a.api.acquire({}));
  for (std::size_t i : {0u, 1u}) a.api.alternative(i).set_rate(0, rate::per_hour(1));
  auto p = run(io, a.api.acquire({.tokens = 10, .alternatives = 2}));
  std::ignore = until_granted(io, b.api, {.tokens = 5, .alternatives = 1});
  p.settle(0);  // ten tokens come back, at the second one only
  CHECK(until_granted(io, b.api, {.tokens = 9}).alternative() == 1);
  CHECK_FALSE(granted(io, b.api, {.tokens = 6, .alternatives = 1}));
  CHECK(b.api.estimate({.tokens = 6, .alternatives = 1}) > 20min);
  // The least over those that may serve it; and with a waiter before it, both have to give.
  CHECK(b.api.estimate({.tokens = 2, .alternatives = 2}) <= 1h);
  CHECK(b.api.estimate({.tokens = 2}) == 0s);
  const canigo::duration of_first = b.api.estimate({.tokens = 8, .alternatives = 1});
  CHECK(b.api.estimate({.tokens = 8}) <= of_first);  // later, so no more by the time that has passed
}

TEST_CASE("redis limiter: a pause of an alternative is everybody's, and one that is extended never ends earlier") {
  redis_server server;
  drained io;
  redis::limiter_options o{.alternatives = {{.name = "a", .concurrency = 3}, {.name = "b", .concurrency = 3}},
                           .lease = 1min,
                           .quarantine = false};
  api_member a{io, server.url(), o};
  api_member b{io, server.url(), o};
  const auto held = run(io, b.api.acquire({}));
  const auto now = steady::now();
  a.api.alternative("a").extend_pause(now + 1h);
  a.api.alternative(0).extend_pause(now + 1min);
  const auto paused = [&](redis::limiter& l) { return l.stats().alternatives.at(0).paused_until; };
  CHECK(paused(a.api) == now + 1h);
  run_until(io, [&] { return paused(b.api) > now + 59min; });
  CHECK_FALSE(granted(io, b.api, {.alternatives = 1}));
  CHECK(b.api.estimate({.alternatives = 1}) > 50min);
  CHECK(b.api.estimate({}) == 0s);
  const auto other = granted(io, b.api);
  REQUIRE(other);
  CHECK(other->alternative() == 1);
  // A third process that knows nothing of it.
  api_member c{io, server.url(), o};
  c.api.alternative(0).extend_pause(now + 1min);
  const auto of_c = run(io, c.api.acquire({}));
  CHECK(of_c.alternative() == 1);
  CHECK(paused(c.api) > now + 59min);
  b.api.alternative("a").resume();
  std::ignore = until_granted(io, a.api, {.alternatives = 1});
  run_until(io, [&] { return paused(a.api) <= steady::now(); });
}

TEST_CASE("redis limiter: a cap of an alternative that is changed holds for all processes") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys()};
  api_member b{io, server.url(), two_keys()};
  const auto one = run(io, a.api.acquire({.alternatives = 1}));
  waiting w{b.api, {.alternatives = 1}};
  run_until(io, [&] { return b.api.stats().waiting_of_all == 1; });
  a.api.alternative(0).set_concurrency(2);
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
  CHECK_FALSE(granted(io, a.api, {.alternatives = 1}));
}

TEST_CASE("redis limiter: processes with other alternatives are refused while the limit is in use") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys_and_a_rate()};
  const auto held = run(io, a.api.acquire({}));
  for (const int what : {0, 1, 2}) {
    redis::limiter_options o = two_keys_and_a_rate();
    if (what == 0) std::swap(o.alternatives[0], o.alternatives[1]);
    if (what == 1) o.alternatives[1].name = "third";
    if (what == 2) std::swap(o.alternatives[0].rates, o.alternatives[1].rates);
    api_member b{io, server.url(), o};
    CHECK(error_of(io, b.api.acquire({})) == redis::error::other_shape);
  }
}

TEST_CASE("redis limiter: a request that no alternative can serve is refused with a text") {
  redis_server server;
  drained io;
  api_member a{io, server.url(), two_keys_and_a_rate()};
  const auto text = [&](const request& r) {
    try {
      const auto never = run(io, a.api.acquire(r));
      return std::string{"granted"};
    } catch (const std::system_error& e) {
      return std::string{e.what()};
    }
  };
  CHECK(text({.tokens = 11, .alternatives = 1}).find("request.tokens is 11; allowed: 1 to 10") != std::string::npos);
  CHECK(text({.alternatives = 4}).find("a set with an alternative of 0 to 1") != std::string::npos);
  CHECK(text({.tokens = 11}) == "granted");  // the second one has no rate
}

TEST_CASE("redis limiter: options of alternatives out of range are refused with the field, the value and the range") {
  net::io_context io;
  redis::client client{io, "redis://127.0.0.1:1"};
  const auto refused = [&](const redis::limiter_options& o) {
    try {
      redis::limiter never{client, "crm", o};
      return std::string{"accepted"};
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return std::string{e.what()};
    }
  };
  redis::limiter_options o = two_keys_and_a_rate();
  o.alternatives[1].name = "team";
  CHECK(refused(o).find("limiter_options.alternatives[1].name is \"team\" again") != std::string::npos);
  o = two_keys_and_a_rate();
  o.alternatives[1].concurrency = 0;
  CHECK(refused(o).find("limiter_options.alternatives[1].concurrency is 0") != std::string::npos);
  o = two_keys_and_a_rate();
  o.alternatives[0].rates[0].burst = 0;
  CHECK(refused(o).find("limiter_options.alternatives[0].rates[0].burst is 0") != std::string::npos);
  o = two_keys_and_a_rate();
  o.alternatives[0].rates[0].rate = rate{7, 3h};
  o.alternatives[0].rates[0].burst = std::uint64_t{1} << 31;
  CHECK(refused(o).find("limiter_options.alternatives[0].rates[0].burst is 2147483648") != std::string::npos);
  o = two_keys_and_a_rate();
  o.alternatives.resize(65);
  CHECK(refused(o).find("limiter_options.alternatives.size() is 65; allowed: 0 to 64") != std::string::npos);
  o = two_keys_and_a_rate();
  o.on_failure = redis::failure_mode::open();
  CHECK(refused(o).find("limiter_options.on_failure is open; allowed: closed, because there is a cap") !=
        std::string::npos);
  redis::limiter l{client, "crm", two_keys_and_a_rate()};
  CHECK_THROWS_AS(l.alternative(2), std::system_error);
  CHECK_THROWS_AS(l.alternative("third"), std::system_error);
  CHECK_THROWS_AS(l.alternative(1).set_rate(0, rate::per_second(1)), std::system_error);
  CHECK(l.alternative("spare").index() == 1);
  CHECK(l.alternative(0).name() == "team");
}

TEST_CASE("redis limiter: while Redis is away a process takes from its share of one alternative") {
  ledger_test::scene s;
  s.server.set_greeting(loading_greeting);
  redis::limiter_options o{
      .alternatives = {{.rates = {{rate::per_second(10), 10}}}, {.rates = {{rate::per_second(20), 20}}, .prefer = 2}},
      .on_failure = redis::failure_mode::local(0.5)};
  redis::limiter api{s.client, "crm", o};
  const auto begin = s.time.clock.now();
  waiting first{api, {.tokens = 5}};
  waiting second{api, {.tokens = 5, .alternatives = 1}};
  waiting third{api, {.tokens = 5, .alternatives = 2}};
  s.time.pass_until([&] { return third.ended(); });
  // Of the second one ten tokens a second: five of them took a half, and the first one had those or these.
  CHECK(s.time.clock.now() - begin < 3s);
  s.time.pass_until([&] { return first.ended() && second.ended(); });
  CHECK(second.p.alternative() == 0);
  CHECK(third.p.alternative() == 1);
  CHECK(s.time.clock.now() - begin >= 1s);
  CHECK(api.stats().granted_locally == 3);
}

TEST_CASE("redis limiter: in mode open, equal alternatives take turns while Redis is away") {
  ledger_test::scene s;
  s.server.set_greeting(loading_greeting);
  redis::limiter_options o{.alternatives = {{.rates = {{rate::per_hour(1), 1}}},
                                            {.rates = {{rate::per_hour(1), 1}}},
                                            {.rates = {{rate::per_hour(1), 1}}, .prefer = 2}},
                           .on_failure = redis::failure_mode::open()};
  redis::limiter api{s.client, "crm", o};
  std::array<int, 3> times{};
  for (int n = 0; n < 10; ++n) {
    waiting w{api, {}};
    s.time.pass_until([&] { return w.ended(); });
    REQUIRE_FALSE(*w.ec);
    ++times.at(w.p.alternative());
  }
  CHECK(times == std::array<int, 3>{5, 5, 0});
}

TEST_CASE("redis limiter: a holder that crashes frees its place of its alternative when its lease ends [realtime]",
          "[realtime]") {
  redis_server server;
  process holder = ready_process([&](auto ready) {
    net::io_context io;
    api_member m{io, server.url(), two_keys(300ms)};
    const auto held = run(io, m.api.acquire({.alternatives = 1}));
    ready();
    io.restart();
    io.run();
  });
  drained io;
  api_member b{io, server.url(), two_keys(300ms)};
  waiting w{b.api, {.alternatives = 1}};
  run_until(io, [&] { return b.api.stats().round_trips >= 3; });
  CHECK_FALSE(w.ended());
  CHECK(b.api.stats().alternatives.at(0).held_by_all == 1);
  holder.kill();
  run_until(io, [&] { return w.ended(); });
  CHECK_FALSE(*w.ec);
  CHECK(w.p.alternative() == 0);
}

}  // namespace redis_alternatives_test
