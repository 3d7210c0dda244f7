#include "canigo/rate.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <rapidcheck.h>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::errc;
using canigo::rate;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

rc::Gen<rate> any_rate() {
  return rc::gen::exec([] {
    const auto unit = *rc::gen::element<std::int64_t>(1, 1000, 1'000'000, 1'000'000'000, 60'000'000'000,
                                                      3'600'000'000'000, 86'400'000'000'000);
    const auto count = *rc::gen::inRange<std::int64_t>(1, 10'000);
    const auto tokens = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(unit * count, 1'000'000'000) + 1);
    return rate{tokens, duration{unit * count}};
  });
}

}  // namespace

TEST_CASE("a rate keeps its ratio and how it was written", "[rate]") {
  constexpr rate r{10, 3s};
  static_assert(r.tokens() == 10 && r.period() == 3s);
  static_assert(r.reduced().tokens() == 1 && r.reduced().period() == 300ms);
  static_assert(rate::per_second(5) == rate{10, 2s});
  static_assert(rate::per_minute(500) == rate{25, 3s});
  static_assert(rate::per_hour(60) == rate::per_minute(1));
  static_assert(rate::per_day(24) == rate::per_hour(1));
  static_assert(rate{10, 3s} != rate{10, 3001ms});
  CHECK(to_string(r) == "10/3s");
  CHECK(rate{largest, duration{largest}} == rate{1, 1ns});
  CHECK(rate{largest - 1, duration{largest}} != rate{1, 1ns});
}

TEST_CASE("a rate prints in the largest exact unit", "[rate]") {
  CHECK(to_string(rate::per_second(5)) == "5/s");
  CHECK(to_string(rate{1000, 60min}) == "1000/h");
  CHECK(to_string(rate{1, 24h}) == "1/d");
  CHECK(to_string(rate{3, 1500ms}) == "3/1500ms");
  CHECK(to_string(rate{1, 1ns}) == "1/ns");
  CHECK(to_string(rate{1, 10s}) == "1/10s");
  CHECK(to_string(rate{1, 24h * 3650}) == "1/3650d");
  CHECK(to_string(rate{largest, duration{largest}}) == "9223372036854775807/9223372036854775807ns");
  CHECK(fmt::format("{}", rate{10, 3s}) == "10/3s");
  CHECK(fmt::format("[{:>8}] [{:<8}]", rate{10, 3s}, rate::per_second(5)) == "[   10/3s] [5/s     ]");
}

TEST_CASE("a rate is read from text", "[rate]") {
  CHECK(rate::parse("10/3s") == rate{10, 3s});
  CHECK(rate::parse("5/s") == rate::per_second(5));
  CHECK(rate::parse("1000/1h") == rate::per_hour(1000));
  CHECK(rate::parse("1/250us") == rate{4, 1ms});
  CHECK(rate::parse("500/1m") == rate::per_minute(500));
  CHECK(rate::parse("86400/d") == rate::per_second(1));
  CHECK(rate::parse("007/02s") == rate{7, 2s});
}

TEST_CASE("a rate outside the range is refused with field, value and range", "[rate]") {
  CHECK(contains(refusal([] { rate{0, 1s}; }), "rate.tokens is 0; allowed: 1 to 9223372036854775807"));
  CHECK(contains(refusal([] { rate{-5, 1s}; }), "rate.tokens is -5; allowed: 1"));
  CHECK(contains(refusal([] { rate{std::numeric_limits<std::int64_t>::min(), 1s}; }), "rate.tokens is -9"));
  CHECK(contains(refusal([] { rate{std::numeric_limits<std::uint64_t>::max(), 1s}; }), "rate.tokens is"));
  CHECK(contains(refusal([] { rate{1, 0s}; }), "rate.period is 0s; allowed: 1ns or more"));
  CHECK(contains(refusal([] { rate{1, -5ms}; }), "rate.period is -5ms; allowed: 1ns or more"));
  CHECK(contains(refusal([] { rate{1, duration::min()}; }), "rate.period is -9223372036854775808ns"));
  CHECK(contains(refusal([] { rate::per_second(1'000'000'001); }), "rate is 1000000001/1s; allowed: at most 1/1ns"));
  CHECK(contains(refusal([] { rate::per_hour(0); }), "rate.tokens is 0"));
  // A fraction or a NaN is no number of tokens: it does not compile.
  static_assert(!std::is_constructible_v<rate, double, duration>);
  static_assert(!std::is_constructible_v<rate, int, std::chrono::duration<double>>);
}

TEST_CASE("text that is no rate is refused, naming the text and the place", "[rate]") {
  const auto read = [](std::string text) { return refusal([&] { rate::parse(text); }); };
  CHECK(contains(read(""), "rate is \"\" (a number of tokens expected at character 1); allowed: tokens/period in ns"));
  CHECK(contains(read("   "), "a number of tokens expected at character 4"));
  CHECK(contains(read("x/s"), "\"x/s\" (a number of tokens expected at character 1)"));
  CHECK(contains(read("-1/s"), "a number of tokens expected at character 1"));
  CHECK(contains(read("+1/s"), "a number of tokens expected at character 1"));
  CHECK(contains(read("10"), "'/' expected at character 3"));
  CHECK(contains(read("0.5/s"), "'/' expected at character 2"));
  CHECK(contains(read("1e3/s"), "'/' expected at character 2"));
  CHECK(contains(read("10 / 3s"), "'/' expected at character 3"));
  CHECK(contains(read("10/"), "a unit expected at character 4"));
  CHECK(contains(read("10/3"), "a unit expected at character 5"));
  CHECK(contains(read("10/3x"), "\"10/3x\" (a unit expected at character 5)"));
  CHECK(contains(read("10/3S"), "a unit expected at character 5"));
  CHECK(contains(read("10/3 s"), "a unit expected at character 5"));
  CHECK(contains(read("10/-3s"), "a unit expected at character 4"));
  CHECK(contains(read("10/3s/2"), "a unit expected at character 5"));
  CHECK(contains(read(std::string{"1/s\0", 4}), "a unit expected at character 3"));
  CHECK(contains(read("0/s"), "a number above zero expected at character 1"));
  CHECK(contains(read("10/0s"), "a period above zero expected at character 4"));
  CHECK(contains(read("99999999999999999999/s"), "a smaller number expected at character 1"));
  CHECK(contains(read("1/99999999999999999999ns"), "a smaller number expected at character 3"));
  CHECK(contains(read("1/106752d"), "a shorter period expected at character 3"));
  CHECK(contains(read("1000000001/s"), "fewer tokens expected at character 1); allowed: at most 1/1ns"));
  CHECK(contains(read(std::string(100'000, '9')), "99999..."));
  CHECK(contains(read("0/" + std::string(100, 'x')), "xxx...\" (a number above zero expected at character 1)"));
  CHECK(read(std::string(100'000, '9')).size() < 250);
}

TEST_CASE("a rate is read from a part of a text, whatever stands around it", "[rate]") {
  const auto read = [](std::string_view text) -> std::string {
    try {
      return to_string(rate::parse(text));
    } catch (const std::system_error& e) {
      return e.what();
    }
  };
  constexpr std::string_view all = " 123/45ms \t";
  for (std::size_t from = 0; from <= all.size(); ++from) {
    for (std::size_t n = 0; n <= all.size() - from; ++n) {
      const std::string alone{all.substr(from, n)};
      CHECK(read(all.substr(from, n)) == read(alone));
      // Not a digit of its own either, nor a blank.
      CHECK(read(std::string_view{"9 " + alone + "8s "}.substr(2, n)) == read(alone));
    }
  }
}

TEST_CASE("as much of a long text is quoted as there is room for", "[rate]") {
  const auto quoted = [](std::size_t length) {
    try {
      (void)rate::parse(std::string(length, 'x'));
    } catch (const std::system_error& e) {
      return std::string{e.what()}.substr(0, std::string{e.what()}.find(" ("));
    }
    return std::string{};
  };
  CHECK(quoted(30) == "rate is \"" + std::string(30, 'x') + '"');
  CHECK(quoted(31) == "rate is \"" + std::string(30, 'x') + "...\"");
}

TEST_CASE("the ends of the range are exact", "[rate]") {
  CHECK(rate::parse("1/106751d").period() == 24h * 106751);
  CHECK(rate::parse("1000000000/s") == rate{1, 1ns});
  CHECK(rate::parse("1/3650d").time_for(1) == 24h * 3650);
  CHECK(rate::parse(" \t5/s \t") == rate::per_second(5));
}

TEST_CASE("the time for a number of tokens is rounded up and saturates", "[rate]") {
  CHECK(rate{3, 1s}.time_for(1) == 333'333'334ns);
  CHECK(rate{3, 1s}.time_for(3) == 1s);
  CHECK(rate{3, 1s}.time_for(0) == 0s);
  CHECK(rate{1, 1ns}.time_for(largest) == duration::max());
  CHECK(rate{1, duration::max()}.time_for(1) == duration::max());
  CHECK(rate{1, duration::max()}.time_for(2) == duration::max());
  CHECK(rate{1, duration::max()}.time_for(std::numeric_limits<std::uint64_t>::max()) == duration::max());
}

TEST_CASE("every rate that is printed is read back as it was", "[rate]") {
  CHECK(rc::check("parse(to_string(r)) == r", [] {
    const rate written = *any_rate();
    const rate read = rate::parse(to_string(written));
    RC_ASSERT(read.tokens() == written.tokens());
    RC_ASSERT(read.period() == written.period());
  }));
}

TEST_CASE("no text crashes the reader, and what it accepts it prints back", "[rate]") {
  CHECK(rc::check("parse throws invalid_argument or yields a rate", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string{"0123456789/numshd. -x"}));
    try {
      const rate r = rate::parse(text);
      RC_ASSERT(rate::parse(to_string(r)) == r);
    } catch (const std::system_error& error) {
      RC_ASSERT(error.code() == errc::invalid_argument);
    }
  }));
}

TEST_CASE("a rate in lowest terms equals itself and has no common divisor", "[rate]") {
  CHECK(rc::check("reduced", [] {
    const rate r = *any_rate();
    RC_ASSERT(r.reduced() == r);
    RC_ASSERT(std::gcd(r.reduced().tokens(), r.reduced().period().count()) == 1);
  }));
}

TEST_CASE("a rate is a rate_limit of which nothing else is said", "[rate]") {
  const std::vector<canigo::rate_limit> rates = {rate::per_second(10), rate::per_minute(300), {{1, 3s}, 5}};
  REQUIRE(rates.size() == 3);
  CHECK(rates[0].rate == rate::per_second(10));
  CHECK(rates[1].rate == rate::per_minute(300));
  for (const canigo::rate_limit& r : {rates[0], rates[1]}) {
    CHECK(r.burst == 1);
    CHECK(r.initial_tokens == 0);
    CHECK(r.unit.empty());
  }
  CHECK(rates[2].burst == 5);
}
