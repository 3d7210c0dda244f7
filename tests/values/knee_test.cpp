#include "canigo/algorithms/knee.hpp"

#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace knee_tests {

/// A knee and a clock. Calls end at a steady rate, each like the others.
struct bench {
  explicit bench(limit_bounds b = {}, duration to_wall = 0s, std::uint64_t seed = 1) : k{b, to_wall, seed} {}

  /// Calls that end, one each millisecond, with all that may be under way.
  void calls(int n, duration latency, sample_outcome how = sample_outcome::ok) {
    for (int i = 0; i < n; ++i) {
      now += 1ms;
      k.record({latency, in_flight == 0 ? k.limit() : in_flight, how, waited}, now);
    }
  }
  /// The same until a decision is made.
  limit_decision decide(duration latency, sample_outcome how = sample_outcome::ok) {
    const time_point before = k.last_decision().at;
    for (int i = 0; i < 100'000 && k.last_decision().at == before; ++i) calls(1, latency, how);
    return k.last_decision();
  }
  /// Until it knows that the callee takes 50 ms, and has its limit back.
  void learn(duration latency = 50ms) {
    while (k.last_decision().why != limit_reason::measured) decide(latency);
  }

  knee_control k;
  time_point now{};
  std::uint64_t in_flight = 0;
  duration waited{};  // of each call, for its place
};

TEST_CASE("a knee learns the baseline from four windows, and then probes", "[knee]") {
  bench b;
  for (int i = 0; i < 3; ++i) CHECK(b.decide(50ms).why == limit_reason::learning);
  CHECK(b.k.limit() == 20);
  CHECK(b.decide(50ms).why == limit_reason::probe);
  CHECK(b.k.limit() == 12);
  CHECK(b.k.baseline() == b.k.latency());
  CHECK(b.k.baseline() > 47ms);
  CHECK(b.k.baseline() < 54ms);
  // It was no faster with fewer calls.
  CHECK(b.decide(50ms).why == limit_reason::measured);
  CHECK(b.k.limit() == 20);
}

TEST_CASE("a probe goes on down as long as that makes the callee faster", "[knee]") {
  bench b{{.initial = 100}};
  while (b.k.last_decision().why != limit_reason::probe) b.decide(200ms);
  CHECK(b.k.limit() == 60);
  CHECK(b.decide(120ms).why == limit_reason::probe);
  CHECK(b.k.limit() == 36);
  CHECK(b.decide(72ms).why == limit_reason::probe);
  CHECK(b.k.limit() == 21);
  CHECK(b.decide(50ms).why == limit_reason::probe);
  CHECK(b.decide(50ms).why == limit_reason::measured);
  CHECK(b.k.baseline() > 47ms);
  CHECK(b.k.baseline() < 54ms);
  CHECK(b.k.limit() < 60);
  CHECK(b.k.limit() > 15);
}

TEST_CASE("a knee grows while the limit binds and the latency is that of the baseline", "[knee]") {
  bench b;
  b.learn();
  const auto before = b.k.limit();
  for (int i = 0; i < 8; ++i) CHECK(b.decide(50ms).why == limit_reason::fast);
  CHECK(b.k.limit() > before + 8 * 2);
  // Nobody needs more.
  b.in_flight = b.k.limit() - 1;
  const auto unneeded = b.k.limit();
  for (int i = 0; i < 8; ++i) CHECK(b.decide(50ms).to <= static_cast<double>(unneeded) + 1);
  CHECK(b.k.limit() == unneeded);
}

TEST_CASE("a knee shrinks while the latency is above the baseline", "[knee]") {
  bench b{{.initial = 200}};
  b.learn();
  const auto before = b.k.limit();
  CHECK(b.decide(150ms).why == limit_reason::slow);
  CHECK(b.k.limit() < before * 3 / 4);
  while (b.k.last_decision().why == limit_reason::slow) b.decide(150ms);
  CHECK(b.k.last_decision().why == limit_reason::probe);  // is it the callee that became slower?
  while (b.k.last_decision().why == limit_reason::probe) b.decide(150ms);
  CHECK(b.k.last_decision().why == limit_reason::measured);
  CHECK(b.k.baseline() > 90ms);
}

TEST_CASE("a knee whose bounds let it shrink to one half and no further probes there", "[knee]") {
  bench b{{.initial = 200, .least = 100}};
  b.learn();
  while (b.k.limit() > 100) CHECK(b.decide(150ms).why == limit_reason::slow);
  CHECK(b.decide(150ms).why == limit_reason::probe);
}

TEST_CASE("a baseline goes down as well as up", "[knee]") {
  bench b;
  b.learn(100ms);
  const duration before = b.k.baseline();
  for (int i = 0; i < 4; ++i) b.decide(50ms);
  CHECK(b.k.baseline() < before * 6 / 10);
  // And slowly, where so few calls are under way that the limit can't be the reason.
  b.in_flight = 1;
  for (int i = 0; i < 40; ++i) CHECK(b.decide(80ms).why == limit_reason::unused);
  CHECK(b.k.baseline() > 74ms);
  CHECK(b.k.baseline() < 86ms);
}

TEST_CASE("drops cut a limit down to the calls that succeed at a time", "[knee]") {
  bench b{{.initial = 40}};
  b.learn();
  const auto top = b.k.limit();
  // One succeeds in two milliseconds, and takes 50: there are 25 at a time.
  const time_point before = b.k.last_decision().at;
  while (b.k.last_decision().at == before) {
    b.calls(1, 50ms);
    b.calls(1, 1ms, sample_outcome::dropped);
  }
  CHECK(b.k.last_decision().why == limit_reason::dropped);
  CHECK(b.k.limit() >= 24);
  CHECK(b.k.limit() <= 26);
  CHECK(b.k.limit() < top);
  // For a while it grows no more.
  const auto cut = b.k.limit();
  const time_point then = b.now;
  while (b.now < then + 3600ms) b.calls(1, 50ms);
  CHECK(b.k.limit() <= cut);
  while (b.now < then + 20s) b.calls(1, 50ms);
  CHECK(b.k.limit() > cut + 5);
}

TEST_CASE("few drops change nothing", "[knee]") {
  bench b;
  b.learn();
  for (int i = 0; i < 2000; ++i) {
    b.calls(1, 50ms, i % 25 == 0 ? sample_outcome::dropped : sample_outcome::ok);
    CHECK(b.k.last_decision().why != limit_reason::dropped);
  }
}

TEST_CASE("drops that go on at a lower limit don't come from the load, and the limit goes back", "[knee]") {
  bench b{{.initial = 40}};
  b.learn();
  const auto top = b.k.limit();
  std::vector<limit_reason> why;
  for (int i = 0; i < 20'000; ++i) {
    i % 10 == 0 ? b.calls(1, 300ms, sample_outcome::dropped) : b.calls(1, 50ms);
    if (b.k.last_decision().why == limit_reason::dropped) CHECK(b.k.limit() >= top / 2);
    if (why.empty() || why.back() != b.k.last_decision().why) why.push_back(b.k.last_decision().why);
  }
  CHECK(std::ranges::count(why, limit_reason::dropped) == 1);
  CHECK(std::ranges::count(why, limit_reason::unrelated) == 1);
  CHECK(b.k.limit() > top);  // it binds, and the callee is as fast as ever
  // More of them are a reason again.
  const time_point before = b.now;
  while (b.k.last_decision().why != limit_reason::dropped && b.now < before + 10s) {
    b.calls(1, 300ms, sample_outcome::dropped);
    b.calls(3, 50ms);
  }
  CHECK(b.k.last_decision().why == limit_reason::dropped);
}

TEST_CASE("drops with a raised latency come from the load, however many remain", "[knee]") {
  bench b{{.initial = 100}};
  b.learn();
  for (int i = 0; i < 3000; ++i) {
    i % 5 == 0 ? b.calls(1, 300ms, sample_outcome::dropped) : b.calls(1, 200ms);
    CHECK(b.k.last_decision().why != limit_reason::unrelated);
  }
  CHECK(b.k.limit() < 70);
}

TEST_CASE("while nothing succeeds, a limit keeps half of what the callee has carried", "[knee]") {
  bench b{{.initial = 40}};
  b.learn(20ms);  // one ends each millisecond, so there are 20 at a time
  b.calls(20'000, 300ms, sample_outcome::dropped);
  CHECK(b.k.limit() >= 9);
  CHECK(b.k.limit() <= 12);
}

TEST_CASE("a limit whose calls are given up before they can end rises, from wherever it is", "[knee]") {
  bench b{{.initial = 1}};
  b.learn();
  const auto low = b.k.limit();
  REQUIRE(low < 5);
  b.waited = 200ms;
  b.calls(200, 1ms, sample_outcome::cancelled);
  CHECK(b.k.last_decision().why == limit_reason::starved);
  b.calls(1000, 1ms, sample_outcome::cancelled);
  CHECK(b.k.limit() > 5 * low);
  // Callers that give up although there is room say nothing.
  const auto high = b.k.limit();
  b.in_flight = 1;
  b.calls(1000, 1ms, sample_outcome::cancelled);
  CHECK(b.k.limit() == high);
}

TEST_CASE("a limit rises from a start at which most calls are given up too early", "[knee]") {
  bench b;
  b.calls(40, 50ms);
  b.waited = 200ms;
  b.calls(500, 1ms, sample_outcome::cancelled);
  CHECK(b.k.last_decision().why == limit_reason::starved);
  CHECK(b.k.limit() > 40);
}

/// A callee that answers up to 40 calls at a time in 10 ms, and a minute of callers that cancel `losers` calls of their
/// own for each that succeeds, all after a wait of `waited`. The limit at the end of each second.
std::vector<std::uint64_t> limits_of_races(int losers, duration waited) {
  knee_control k{{.initial = 20, .least = 1, .most = 1000}, 0s, 7};
  std::vector<std::uint64_t> limits;
  time_point now{};
  while (limits.size() < 60) {
    const std::uint64_t at_once = k.limit();
    const duration latency = std::max<duration>(10ms, 250us * at_once);
    now += latency * (1 + losers) / static_cast<std::int64_t>(at_once);
    (void)k.record({latency, at_once, sample_outcome::ok, waited}, now);
    for (int i = 0; i < losers; ++i) (void)k.record({latency, at_once, sample_outcome::cancelled, waited}, now);
    if (now.time_since_epoch() / 1s > static_cast<std::int64_t>(limits.size())) limits.push_back(k.limit());
  }
  return limits;
}

TEST_CASE("callers that cancel what has lost a race raise no limit", "[knee]") {
  for (const int losers : {0, 1, 2, 4}) {
    for (const duration waited : {0s, 1s}) {
      const std::vector<std::uint64_t> limits = limits_of_races(losers, waited);
      INFO(losers << " losers after " << waited / 1s << " s");
      CHECK(std::ranges::max(limits) < 100);
      CHECK(limits.back() >= 36);
      CHECK(limits.back() < 70);
    }
  }
}

TEST_CASE("a cancelled call counts only if it was old", "[knee]") {
  bench b;
  b.calls(1000, 1h, sample_outcome::cancelled);  // nothing is known yet
  CHECK(b.k.last_decision().why == limit_reason::none);
  b.learn();
  const auto decided = b.k.last_decision().at;
  b.in_flight = 10;
  b.calls(1000, 90ms, sample_outcome::cancelled);
  CHECK(b.k.last_decision().at == decided);
  b.in_flight = 0;
  CHECK(b.decide(300ms, sample_outcome::cancelled).why == limit_reason::slow);
}

TEST_CASE("after a limit fell, calls from before say nothing", "[knee]") {
  bench b{{.initial = 100}};
  b.learn();
  const auto before = b.k.limit();
  CHECK(b.decide(150ms).why == limit_reason::slow);
  const auto decided = b.k.last_decision().at;
  b.in_flight = before;
  b.calls(5000, 150ms);
  CHECK(b.k.last_decision().at == decided);
  b.in_flight = 0;
  CHECK(b.decide(50ms).at > decided);
}

TEST_CASE("clients with clocks of their own probe at the same moments of the wall clock", "[knee]") {
  constexpr duration offsets[] = {0s, 7s + 123ms, 1000h + 13s};
  std::vector<duration> probes;  // of the wall clock
  for (const duration offset : offsets) {
    bench b{{}, offset, 42 + static_cast<std::uint64_t>(offset.count())};
    b.learn();
    while (b.k.last_decision().why != limit_reason::probe) b.decide(50ms);
    probes.push_back(b.now.time_since_epoch() + offset);
  }
  for (const duration wall : probes) {
    INFO(wall / 1ms << " ms");
    CHECK(wall % 30s < 60ms);
  }
}

TEST_CASE("a slow callee is probed less often", "[knee]") {
  bench b{{.initial = 60}};
  b.learn(1s);
  const time_point learned = b.now;
  while (b.k.last_decision().why != limit_reason::probe) b.decide(1s);
  CHECK((b.now - time_point{}) % 120s < 60ms);
  CHECK(b.now > learned);
}

TEST_CASE("windows in which little happens are thrown away", "[knee]") {
  bench b;
  b.learn();
  const auto decided = b.k.last_decision().at;
  b.in_flight = 1;
  for (int i = 0; i < 200; ++i) {
    b.now += 150ms;
    b.calls(1, 500ms);
  }
  CHECK(b.k.last_decision().at == decided);
  CHECK(b.k.limit() == 20);
}

/// What a knee decides while calls take so long, one decision after the other: why, the limit, and when.
std::string decisions(bench& b, int n, duration latency, sample_outcome how = sample_outcome::ok) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    const limit_decision d = b.decide(latency, how);
    text += "?ludpmsf="[static_cast<std::size_t>(d.why)] + std::to_string(b.k.limit()) + '@' +
            std::to_string(b.now.time_since_epoch() / 1ms) + (i + 1 < n ? " " : "");
  }
  return text;
}

TEST_CASE("a knee decides at its thresholds what the simulations were judged with", "[knee]") {
  // Latencies that are twice the baseline, or 1.4, 1.25, 1.1 or 0.8 of it, to the bit.
  bench b{{.initial = 40}};
  CHECK(decisions(b, 8, 50ms) == "l40@200 l40@400 l40@600 p24@800 m40@1089 f44@1289 f49@1511 f54@1757");
  CHECK(decisions(b, 4, 100ms) == "s46@2007 s39@2335 s33@2630 s29@2920");
  CHECK(decisions(b, 6, 50ms) == "f32@3210 f36@3374 f40@3557 f45@3761 f52@3989 f61@4239");
  CHECK(decisions(b, 6, 55ms) == "f74@4489 f77@4739 f79@4989 f81@5239 f82@5489 f84@5739");
  CHECK(decisions(b, 6, 70ms) == "s81@5989 s77@6311 s72@6633 s68@6955 s63@7277 s59@7599");
  CHECK(decisions(b, 8, 62500us) == "s57@7921 s56@8232 s55@8543 s55@8793 s55@9043 s54@9293 s54@9543 s54@9793");
  CHECK(decisions(b, 6, 50ms) == "f56@10043 f60@10293 f65@10543 f71@10793 f80@11043 f92@11293");
  CHECK(decisions(b, 4, 40ms) == "f108@11543 f131@11793 f163@12043 f204@12293");
  CHECK(decisions(b, 4, 32ms) == "f255@12543 f318@12793 f398@13043 f498@13293");
  b.in_flight = b.k.limit() / 2;
  CHECK(decisions(b, 3, 50ms) == "u498@13543 u498@13793 u498@14043");
  --b.in_flight;
  CHECK(decisions(b, 3, 60ms) == "u498@14293 u498@14543 u498@14793");
  b.in_flight = 0;
  CHECK(decisions(b, 3, 60ms, sample_outcome::dropped) == "d249@15043 d124@15354 d62@15665");
  CHECK(decisions(b, 8, 60ms) == "s59@15976 s56@16287 s54@16598 s51@16909 s49@17220 s47@17530 s45@17830 s43@18120");
  CHECK(decisions(b, 2, 2 * b.k.latency(), sample_outcome::ok) == "s31@18401 s23@18767");
  CHECK(decisions(b, 8, 60ms) == "p13@19133 m62@19333 =62@19583 =62@19833 =62@20083 =62@20333 f63@20583 f64@20833");
  // Windows that are full before they are old enough.
  bench small{{.initial = 10}};
  CHECK(decisions(small, 8, 10ms) == "l10@101 l10@201 l10@301 p6@401 m10@511 f11@611 f13@711 f15@811");
}

/// How many calls a window takes until it is closed for its drops, of which there are too many. A call ends each `gap`.
int calls_until_cut(bench b, duration gap) {
  const time_point before = b.k.last_decision().at;
  for (int n = 1;; ++n) {
    b.now += gap - 1ms;
    b.calls(1, 50ms, n % 3 == 0 ? sample_outcome::dropped : sample_outcome::ok);
    if (b.k.last_decision().at == before) continue;
    CHECK(b.k.last_decision().why == limit_reason::dropped);
    return n;
  }
}

TEST_CASE("drops may be chance until there were 250 calls, or two seconds have passed", "[knee]") {
  bench b;
  b.learn();
  while (b.k.last_decision().why != limit_reason::fast) b.decide(50ms);
  REQUIRE(b.k.limit() < 30);  // so that a window without drops is closed sooner
  CHECK(calls_until_cut(b, 1ms) == 250);
  CHECK(calls_until_cut(b, 8ms) == 250);
  CHECK(calls_until_cut(b, 10ms) == 200);
  CHECK(calls_until_cut(b, 16ms) == 125);
}

TEST_CASE("a probe goes on only if the callee became faster by more than a fifth", "[knee]") {
  // The median lies in the middle of its bucket if all calls are in it, at 10.5 * 2^20 ns. With 20 faster ones of 120
  // it lies at 8.4 * 2^20 ns in the bucket of the others, which is 0.8 of that to the bit.
  for (const int faster : {19, 20, 21}) {
    bench b{{.initial = 20}};
    while (b.k.last_decision().why != limit_reason::probe) b.decide(duration{10 << 20});
    REQUIRE(b.k.limit() == 12);
    const time_point begun = b.k.last_decision().at;
    b.calls(12, duration{8 << 20});  // from before
    b.calls(faster, 1ms);
    b.calls(119 - faster, duration{8 << 20});
    REQUIRE(b.k.last_decision().at == begun);
    b.calls(1, duration{8 << 20});
    REQUIRE(b.k.last_decision().at != begun);
    CAPTURE(faster);
    CHECK(b.k.last_decision().why == (faster > 20 ? limit_reason::probe : limit_reason::measured));
  }
}

TEST_CASE("a probe ends at the least limit, and after eight steps", "[knee]") {
  const auto [bounds, probes] = GENERATE(std::pair{limit_bounds{.initial = 100, .least = 60}, 1},
                                         std::pair{limit_bounds{.initial = 100, .least = 36}, 2},
                                         std::pair{limit_bounds{.initial = 10'000, .most = 10'000}, 9});
  bench b{bounds};
  duration latency = 200ms;
  while (b.k.last_decision().why != limit_reason::probe) b.decide(latency);
  int n = 0;
  do {
    ++n;
    latency = latency * 2 / 3;
  } while (b.decide(latency).why == limit_reason::probe);
  CHECK(n == probes);
  CHECK(b.k.last_decision().why == limit_reason::measured);
}

TEST_CASE("a limit never leaves its bounds, whatever the calls are like", "[knee]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::uint64_t random = seed;
    const auto any = [&](std::uint64_t n) { return detail::next_random(random) % n; };
    const std::uint64_t least = 1 + any(20), most = least + any(200);
    bench b{{.initial = least + any(most - least + 1), .least = least, .most = most}, duration{}, seed};
    for (int step = 0; step < 300; ++step) {
      const duration latency{static_cast<std::int64_t>(any(std::uint64_t{1} << any(40)))};
      const auto how = static_cast<sample_outcome>(any(10) < 7 ? 0 : any(3));
      b.in_flight = any(3) == 0 ? any(2 * most + 1) : 0;
      if (any(5) == 0) b.now += duration{static_cast<std::int64_t>(any(10'000'000'000))};
      if (any(50) == 0) b.now -= 1s;
      b.calls(static_cast<int>(any(60)), latency, how);
      REQUIRE(b.k.limit() >= least);
      REQUIRE(b.k.limit() <= most);
      REQUIRE(b.k.baseline() >= 0s);
    }
  }
}

}  // namespace knee_tests
