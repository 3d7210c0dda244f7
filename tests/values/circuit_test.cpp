#include "canigo/algorithms/circuit.hpp"

#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace circuit_tests {

constexpr time_point start{1000h};

using state = circuit_state;

/// A circuit with a clock, whose calls begin and end at once.
struct bench {
  explicit bench(const circuit_breaker_options& o) : c{o, start} {}

  void at(duration d) { now = start + d; }
  /// Lets calls go and fail, or succeed; how many went.
  int calls(int n, bool failed, bool slow = false) {
    int went = 0;
    for (int i = 0; i < n; ++i) {
      const auto e = c.try_enter(now);
      if (!e) continue;
      ++went;
      c.report(*e, failed, slow, now);
    }
    return went;
  }
  int fail(int n) { return calls(n, true); }
  int succeed(int n) { return calls(n, false); }

  circuit c;
  time_point now = start;
};

const circuit_breaker_options small{
    .failures = 50, .least_calls = 4, .window = 10s, .slow_percent = 75, .open_for = 5s, .most_open_for = 18s};

/// All that a circuit is, the slow way: everything is remembered, and whatever is asked is counted afresh.
class model {
 public:
  model(const circuit_breaker_options& o, time_point now) : options_{o}, since_{now}, open_for_{o.open_for} {}

  struct call {
    int generation = 0;
    std::optional<std::pair<bool, bool>> ended;  // failed, slow
    std::int64_t bucket = 0;
    bool is_out = true;
  };

  /// The number of the call; -1 if it is refused, -2 if it goes uncounted.
  int enter(time_point now) {
    if (state_ == state::forced_open || (state_ == state::open && now < since_ + open_for_)) return -1;
    if (state_ == state::forced_closed) return -2;
    if (state_ == state::open) go(state::half_open, now);
    if (state_ == state::half_open) {
      const auto taken = std::ranges::count_if(
          calls_, [&](const call& c) { return c.generation == generation_ && (c.is_out || c.ended); });
      if (taken >= options_.probes) return -1;
    }
    calls_.push_back({generation_, std::nullopt, 0, true});
    return static_cast<int>(calls_.size()) - 1;
  }

  void leave(int number) {
    if (number >= 0) calls_[static_cast<std::size_t>(number)].is_out = false;
  }

  void report(int number, bool failed, bool slow, time_point now) {
    if (number < 0) return;
    call& c = calls_[static_cast<std::size_t>(number)];
    c.is_out = false;
    c.ended = {failed, slow};
    c.bucket = bucket_at(now);
    if (c.generation != generation_) return;
    if (state_ == state::closed) {
      const auto t = counted(now);
      if (t.calls >= options_.least_calls && is_bad(t, t.calls)) go(state::open, now);
    } else if (state_ == state::half_open) {
      // Whatever the other probes may say.
      const auto t = counted(now);
      const auto of = static_cast<std::uint64_t>(options_.probes);
      bool may_be_bad = false, may_be_good = false;
      for (std::uint64_t f = 0; f <= of - t.calls; ++f) {
        for (std::uint64_t s = 0; s <= of - t.calls; ++s) {
          (is_bad({of, t.failed + f, t.slow + s}, of) ? may_be_bad : may_be_good) = true;
        }
      }
      if (may_be_bad && may_be_good) return;
      if (may_be_bad) open_for_ = std::min(open_for_ * 2, options_.most_open_for);
      if (may_be_good) open_for_ = options_.open_for;
      go(may_be_bad ? state::open : state::closed, now);
    }
  }

  /// The newest success that counts becomes a failure.
  void fail_late(int generation, time_point now) {
    if (generation != generation_ || state_ != state::closed) return;
    call* newest = nullptr;
    for (call& c : calls_) {
      const bool counts = c.generation == generation_ && c.ended && c.bucket > bucket_at(now) - 10;
      if (counts && !c.ended->first && (newest == nullptr || c.bucket >= newest->bucket)) newest = &c;
    }
    if (newest != nullptr) {
      newest->ended->first = true;
    } else {
      calls_.push_back({generation_, std::pair{true, false}, bucket_at(now), false});
    }
    const auto t = counted(now);
    if (t.calls >= options_.least_calls && is_bad(t, t.calls)) go(state::open, now);
  }
  int generation_of(int number) const { return number < 0 ? -1 : calls_[static_cast<std::size_t>(number)].generation; }

  void force(state s, time_point now) {
    if (s == state::closed) open_for_ = options_.open_for;
    go(s, now);
  }

  circuit::tally counted(time_point now) const {
    circuit::tally t;
    if (state_ != state::closed && state_ != state::half_open) return t;
    for (const call& c : calls_) {
      if (c.generation != generation_ || !c.ended) continue;
      if (state_ == state::closed && c.bucket <= bucket_at(now) - 10) continue;
      ++t.calls;
      t.failed += c.ended->first ? 1 : 0;
      t.slow += c.ended->second ? 1 : 0;
    }
    return t;
  }
  state is(time_point now) const {
    return state_ == state::open && now >= since_ + open_for_ ? state::half_open : state_;
  }

 private:
  std::int64_t bucket_at(time_point now) const { return (now - since_) / (options_.window / 10); }
  bool is_bad(const circuit::tally& t, std::uint64_t of) const {
    return t.failed * 100 >= static_cast<std::uint64_t>(options_.failures) * of ||
           t.slow * 100 >= static_cast<std::uint64_t>(options_.slow_percent) * of;
  }
  void go(state s, time_point now) {
    state_ = s;
    since_ = now;
    ++generation_;
  }

  circuit_breaker_options options_;
  state state_ = state::closed;
  time_point since_;
  duration open_for_;
  int generation_ = 0;
  std::vector<call> calls_;
};

std::string refused(const circuit_breaker_options& o) {
  const std::string text = refusal([&] { circuit{o, start}; });
  return text.substr(0, text.rfind(": invalid argument"));
}

TEST_CASE("a circuit opens when enough calls are in the window and enough of them failed", "[circuit]") {
  struct row {
    int succeeded, failed;
    circuit_state then;
  };
  for (const row& r : {row{0, 3, state::closed}, row{0, 4, state::open}, row{3, 1, state::closed},
                       row{3, 3, state::open}, row{5, 4, state::closed}, row{5, 5, state::open}}) {
    bench b{small};
    b.succeed(r.succeeded);
    b.fail(r.failed);
    CHECK(b.c.state(b.now) == r.then);
  }
  // A success may be what makes them enough.
  bench b{small};
  b.fail(3);
  b.succeed(1);
  CHECK(b.c.state(b.now) == state::open);
}

TEST_CASE("a circuit opens by slow calls, whether they failed or not", "[circuit]") {
  bench b{small};
  b.calls(2, false, true);
  b.succeed(1);
  CHECK(b.c.state(b.now) == state::closed);
  b.calls(1, false, true);
  CHECK(b.c.state(b.now) == state::open);
}

TEST_CASE("a late failure takes the place of a success in the window", "[circuit]") {
  bench b{small};
  const circuit::epoch e = b.c.try_enter(b.now).value();
  b.succeed(4);
  b.c.report_late_failure(e, b.now);
  CHECK(b.c.counted(b.now).calls == 4);
  CHECK(b.c.counted(b.now).failed == 1);
  b.c.report_late_failure(e, b.now);
  CHECK(b.c.state(b.now) == state::open);
  b.at(5s);
  b.succeed(3);                       // the probes
  b.c.report_late_failure(e, b.now);  // of before
  CHECK(b.c.counted(b.now).failed == 0);
}

TEST_CASE("a late failure of a call that has left the window counts as a call", "[circuit]") {
  bench b{small};
  const circuit::epoch e = b.c.try_enter(b.now).value();
  b.succeed(1);
  b.at(11s);
  b.c.report_late_failure(e, b.now);
  CHECK(b.c.counted(b.now).calls == 1);
  CHECK(b.c.counted(b.now).failed == 1);
}

TEST_CASE("a circuit forgets a call after nine to ten tenths of its window", "[circuit]") {
  bench b{small};
  b.at(500ms);
  b.fail(3);
  b.at(9500ms);
  CHECK(b.c.counted(b.now).calls == 3);
  b.at(9999999999ns);
  CHECK(b.c.counted(b.now).failed == 3);
  b.at(10s);
  CHECK(b.c.counted(b.now).calls == 0);
  b.fail(3);
  CHECK(b.c.state(b.now) == state::closed);
  b.at(1000h);
  CHECK(b.c.counted(b.now).calls == 0);
  b.fail(3);
  CHECK(b.c.counted(b.now).calls == 3);
  b.at(0s);  // a clock that steps back forgets nothing, and brings nothing back
  CHECK(b.c.counted(b.now).calls == 3);
  b.fail(1);
  CHECK(b.c.state(b.now) == state::open);
}

TEST_CASE("an open circuit refuses everybody, and says for how long", "[circuit]") {
  bench b{small};
  b.fail(4);
  CHECK(b.c.last_change().to == state::open);
  CHECK(b.c.last_change().open_for == 5s);
  CHECK(b.c.last_change().number == 1);
  b.at(4s);
  CHECK(b.succeed(3) == 0);
  CHECK(b.c.open_for(b.now) == 1s);
  b.at(4999999999ns);
  CHECK(b.succeed(1) == 0);
  CHECK(b.c.state(b.now) == state::open);
  b.at(5s);
  CHECK(b.c.open_for(b.now) == 0s);
  CHECK(b.c.state(b.now) == state::half_open);
  CHECK(b.succeed(1) == 1);
}

TEST_CASE("a half-open circuit lets its probes go at a time, and no more", "[circuit]") {
  bench b{small};
  b.fail(4);
  b.at(5s);
  std::vector<circuit::epoch> probes;
  for (int i = 0; i < 3; ++i) probes.push_back(b.c.try_enter(b.now).value());
  CHECK_FALSE(b.c.try_enter(b.now));
  CHECK(b.c.open_for(b.now) == 0s);
  b.c.report(probes[0], true, false, b.now);
  CHECK_FALSE(b.c.try_enter(b.now));  // one that has reported was one of them
  b.c.leave(probes[1]);
  probes[1] = b.c.try_enter(b.now).value();  // one that has not frees its place
  CHECK_FALSE(b.c.try_enter(b.now));
  CHECK(b.c.state(b.now) == state::half_open);
  b.c.report(probes[1], false, false, b.now);
  CHECK(b.c.state(b.now) == state::half_open);
  b.c.report(probes[2], false, false, b.now);
  CHECK(b.c.state(b.now) == state::closed);
}

TEST_CASE("the probes decide as soon as the others can change nothing", "[circuit]") {
  bench b{small};
  b.fail(4);
  b.at(5s);
  CHECK(b.succeed(3) == 3);  // the third one after the decision
  CHECK(b.c.state(b.now) == state::closed);
  CHECK(b.c.counted(b.now).calls == 1);

  bench again{small};
  again.fail(4);
  again.at(5s);
  CHECK(again.fail(3) == 2);
  CHECK(again.c.state(again.now) == state::open);
}

TEST_CASE("a circuit is open for twice as long after each failed trial, up to a bound", "[circuit]") {
  bench b{small};
  b.fail(4);
  duration at{};
  for (const duration open_for : {5s, 10s, 18s, 18s}) {
    CHECK(b.c.last_change().open_for == open_for);
    b.at(at + open_for - 1ns);
    CHECK(b.fail(1) == 0);
    at += open_for;
    b.at(at);
    CHECK(b.fail(9) == 2);
  }
  b.at(at + 18s);
  b.succeed(2);
  CHECK(b.c.state(b.now) == state::closed);
  b.fail(4);
  CHECK(b.c.last_change().open_for == 5s);
}

TEST_CASE("a call that began in an earlier state of the circuit does not count", "[circuit]") {
  bench b{small};
  const auto early = b.c.try_enter(b.now).value();
  const auto another = b.c.try_enter(b.now).value();
  b.fail(4);
  b.at(5s);
  const auto probe = b.c.try_enter(b.now).value();
  b.c.report(early, false, false, b.now);
  b.c.leave(another);
  CHECK(b.c.counted(b.now).calls == 0);
  CHECK(b.c.try_enter(b.now));
  CHECK(b.c.try_enter(b.now));
  CHECK_FALSE(b.c.try_enter(b.now));
  b.c.reset(b.now);
  b.c.report(probe, true, false, b.now);
  CHECK(b.c.state(b.now) == state::closed);
  CHECK(b.c.counted(b.now).calls == 0);
}

TEST_CASE("a circuit that was forced stays so until another call says otherwise", "[circuit]") {
  bench b{small};
  b.c.force_open(b.now);
  b.at(1000h);
  CHECK(b.succeed(1) == 0);
  CHECK(b.c.state(b.now) == state::forced_open);
  CHECK(b.c.open_for(b.now) == duration::max());
  CHECK(b.c.last_change().open_for == duration::max());
  b.c.force_closed(b.now);
  CHECK(b.fail(100) == 100);
  CHECK(b.c.state(b.now) == state::forced_closed);
  CHECK(b.c.counted(b.now).calls == 0);
  b.c.reset(b.now);
  CHECK(b.fail(100) == 4);
  b.c.reset(b.now);
  CHECK(b.c.last_change().number == 5);
  b.c.reset(b.now);  // closed before: no change
  CHECK(b.c.last_change().number == 5);
  CHECK(to_string(state::half_open) == "half_open");
}

TEST_CASE("a circuit does what a model of it does that remembers everything", "[circuit]") {
  constexpr int seeds = 3000;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t random = seed;
    const auto any = [&](std::uint64_t n) { return detail::next_random(random) % n; };
    // Every other seed has times on a grid, so that things happen just when something ends.
    const std::int64_t grid = seed % 2 == 0 ? 1 : 100'000;
    const auto any_time = [&](std::uint64_t most) {
      return duration{grid * static_cast<std::int64_t>(any(most / static_cast<std::uint64_t>(grid)))};
    };
    const circuit_breaker_options options{.failures = 1 + static_cast<int>(any(100)),
                                          .least_calls = 1 + any(8),
                                          .window = 1ms + 10 * any_time(2'000'000),
                                          .slow_percent = 1 + static_cast<int>(any(100)),
                                          .open_for = duration{grid} + any_time(20'000'000),
                                          .most_open_for = 50ms,
                                          .probes = 1 + static_cast<int>(any(5))};
    time_point now = start;
    circuit c{options, now};
    model m{options, now};
    std::vector<std::pair<circuit::epoch, int>> out, sound;
    const std::uint64_t fails = any(101), slows = any(101);
    std::string wrong;
    for (int step = 0; step < 300 && wrong.empty(); ++step) {
      if (any(3) == 0) now += any_time(any(10) == 0 ? 60'000'000 : 2'000'000);
      const auto what = any(100);
      if (what < 50) {
        const auto e = c.try_enter(now);
        const int number = m.enter(now);
        if (e.has_value() != (number != -1)) wrong = e ? "goes" : "is refused";
        if (e) out.emplace_back(*e, number);
      } else if (what < 94) {
        if (out.empty()) continue;
        const auto at = out.begin() + static_cast<std::ptrdiff_t>(any(out.size()));
        const auto [e, number] = *at;
        out.erase(at);
        if (any(8) == 0) {
          c.leave(e);
          m.leave(number);
        } else {
          const bool failed = any(100) < fails, slow = any(100) < slows;
          c.report(e, failed, slow, now);
          m.report(number, failed, slow, now);
          if (!failed && e != 0) sound.emplace_back(e, m.generation_of(number));
        }
      } else if (what < 97) {
        if (sound.empty()) continue;
        const auto at = sound.begin() + static_cast<std::ptrdiff_t>(any(sound.size()));
        const auto [e, generation] = *at;
        sound.erase(at);
        c.report_late_failure(e, now);
        m.fail_late(generation, now);
      } else if (what == 97) {
        c.reset(now);
        m.force(state::closed, now);
      } else if (any(4) == 0) {
        what == 98 ? c.force_open(now) : c.force_closed(now);
        m.force(what == 98 ? state::forced_open : state::forced_closed, now);
      }
      const auto is = c.counted(now), should = m.counted(now);
      if (c.state(now) != m.is(now)) wrong = "is " + std::string{to_string(c.state(now))};
      if (is.calls != should.calls || is.failed != should.failed || is.slow != should.slow) wrong = "counts";
      INFO("seed " << seed << ", step " << step << ": " << wrong);
      REQUIRE(wrong.empty());
    }
  }
}

TEST_CASE("what a circuit refuses names the field of its options", "[circuit]") {
  CHECK(refused({.failures = 0}) == "circuit_breaker_options.failures is 0; allowed: 1 to 100");
  CHECK(refused({.failures = 101}) == "circuit_breaker_options.failures is 101; allowed: 1 to 100");
  CHECK(refused({.least_calls = 0}) == "circuit_breaker_options.least_calls is 0; allowed: 1 or more");
  CHECK(refused({.window = 999us}) == "circuit_breaker_options.window is 999us; allowed: 1ms or more");
  CHECK(refused({.slow = 0s}) == "circuit_breaker_options.slow is 0s; allowed: more than 0");
  CHECK(refused({.slow_percent = 0}) == "circuit_breaker_options.slow_percent is 0; allowed: 1 to 100");
  CHECK(refused({.open_for = 0s}) == "circuit_breaker_options.open_for is 0s; allowed: more than 0");
  CHECK(refused({.open_for = 2min}) ==
        "circuit_breaker_options.most_open_for is 1m; allowed: open_for, which is 2m, or more");
  CHECK(refused({.probes = 0}) == "circuit_breaker_options.probes is 0; allowed: 1 to 1000");
  CHECK(refused({.mode = static_cast<enforcement>(7)}) ==
        "circuit_breaker_options.mode is 7; allowed: enforce, shadow");
}

}  // namespace circuit_tests
