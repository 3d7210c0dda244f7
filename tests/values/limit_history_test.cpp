// What adaptive limits decide in random histories. A change of an algorithm changes these lines: see first what
// tests/adaptive says of it.
#include "canigo/algorithms/aimd.hpp"
#include "canigo/algorithms/knee.hpp"
#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using namespace canigo;

namespace limit_history_tests {

/// A callee whose latency rises from so many calls at a time on, and callers that come, drop and give up in spells.
struct history {
  explicit history(std::uint64_t seed) : random{seed} {}

  std::uint64_t any(std::uint64_t n) { return detail::next_random(random) % n; }
  template <std::size_t N, class T>
  T one_of(const T (&list)[N]) {
    return list[any(N)];
  }

  /// How often each reason was given, what the limit came to in total, and when the last decision was made.
  template <class Control>
  std::string play(Control control, int spells) {
    std::array<int, 11> reasons{};
    std::uint64_t limits = 0;
    while (spells-- > 0) {
      const duration base = one_of({1ms, 4ms, 10ms, 20ms, 40ms, 50ms, 50ms, 200ms, 1000ms});
      const std::uint64_t knee = one_of({1u, 4u, 20u, 50u, 400u});
      const std::uint64_t dropped = one_of({0u, 0u, 0u, 0u, 4u, 10u, 30u, 50u, 100u});
      const std::uint64_t given_up = one_of({0u, 0u, 0u, 0u, 30u, 80u, 97u, 100u});
      const duration dropped_after = one_of({duration{0}, duration{1ms}, 6 * base});
      const duration given_up_after = one_of({duration{1ms}, base / 2, 2 * base, 3 * base});
      const duration waited = one_of({duration{0}, given_up_after, duration{1h}});
      const std::uint64_t used = one_of({100u, 100u, 100u, 100u, 99u, 50u, 49u, 0u, 200u});
      const duration pause = one_of({0s, 0s, 0s, 1s, 6s, 40s});
      const duration step = one_of({1ms, 1ms, 1ms, 5ms, 100ms});
      now += pause;
      for (std::uint64_t n = 200 + any(3000); n > 0; --n) {
        now += step;
        const std::uint64_t limit = control.limit();
        const std::uint64_t in_flight = std::max<std::uint64_t>(1, (limit * used + 50) / 100);
        limit_sample s{base * std::max(in_flight, knee) / knee, in_flight, sample_outcome::ok, waited};
        if (any(100) < given_up) {
          s.outcome = sample_outcome::cancelled;
          s.latency = given_up_after;
        } else if (any(100) < dropped) {
          s.outcome = sample_outcome::dropped;
          s.latency = dropped_after;
        }
        const time_point decided = control.last_decision().at;
        limits += control.record(s, now);
        if (control.last_decision().at != decided) ++reasons[static_cast<std::size_t>(control.last_decision().why)];
      }
    }
    std::string text;
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      if (reasons[i] > 0) text += "?ludpmsf=!+"[i] + std::to_string(reasons[i]) + ' ';
    }
    return text + std::to_string(limits) + ' ' + std::to_string(control.last_decision().at.time_since_epoch() / 1ms);
  }

  std::uint64_t random;
  time_point now{};
};

std::string of_a_knee(std::uint64_t seed) {
  history h{seed};
  const std::uint64_t least = h.one_of({1u, 1u, 5u, 20u}), most = h.one_of({20u, 100u, 1000u});
  const limit_bounds bounds{
      .initial = std::clamp<std::uint64_t>(h.one_of({1u, 10u, 20u, 100u}), least, most), .least = least, .most = most};
  return h.play(knee_control{bounds, duration{static_cast<std::int64_t>(h.any(100)) * 1s}, seed}, 40);
}

std::string of_aimd(std::uint64_t seed) {
  history h{seed};
  const limit_bounds bounds{.initial = h.one_of({1u, 10u, 20u, 100u}), .least = 1, .most = h.one_of({100u, 1000u})};
  return h.play(aimd_control{{.target = h.one_of({5ms, 50ms, 100ms, 500ms})}, bounds}, 40);
}

TEST_CASE("a knee decides in random histories what it did when it was compared with its peers", "[knee]") {
  const std::string_view said[]{
      "l4 u4 d85 p25 m22 s3 f17 =35 !1 +15 1910422 1029409",
      "l3 u81 d13 p56 m21 s102 f71 =22 +27 6845196 2377666",
      "l3 u62 d128 p48 m39 s12 f58 =41 +30 570561 1961309",
      "l3 u31 d38 p22 m12 s5 f9 =8 !1 +14 2573220 2156056",
      "l3 u14 d60 p13 m10 s14 f10 =4 !1 +14 2823616 1256083",
      "l3 u28 d28 p13 m8 s13 f7 =9 !1 +30 20040942 671677",
      "l4 u42 d24 p37 m37 s46 f34 =12 1297960 2789396",
      "l4 u62 d100 p22 m20 s30 f30 =5 +21 25950342 2032831",
      "l3 u37 d30 p64 m49 s59 f72 =74 !2 +19 1754122 2526602",
      "l3 u70 d19 p13 m8 s36 f21 =13 +29 19256139 1237338",
      "l3 u53 d37 p62 m38 s26 f90 =68 +26 1277062 1682703",
      "l3 u16 d44 p24 m24 s113 f9 =17 1166980 987533",
      "l4 u69 d108 p21 m20 s56 f59 =16 1574760 1593058",
      "l3 u37 d62 p28 m27 s67 f59 =38 !2 +1 595630 1246968",
      "l3 u7 d4 p34 m24 s13 f12 =2 +4 3268898 1807649",
      "l3 u10 d47 p23 m21 s148 f18 =6 !1 +9 2317280 1288396",
      "l3 u67 d39 p32 m27 s9 f9 =1 +13 3601221 2379702",
      "l3 u30 d37 p48 m43 s68 f85 =4 !2 +14 651379 1504984",
      "l3 u62 d26 p20 m10 s7 f17 =14 +24 27957380 1407606",
      "l3 u7 d17 p15 m7 s10 f11 !1 +22 21597186 2048472",
      "l3 d29 p15 m12 s19 f18 +6 2610193 1232732",
      "l4 u126 d66 p29 m16 s47 f40 =16 !1 +25 683561 827015",
      "l3 u30 d26 p29 m21 s67 f35 =15 !1 +12 2133596 1357751",
      "l3 u156 d19 p52 m37 s24 f50 =16 !3 +20 3154586 1846359",
  };
  std::uint64_t seed = 0;
  for (const std::string_view s : said) CHECK(of_a_knee(++seed) == s);
}

TEST_CASE("aimd decides in random histories what it did when it was compared with its peers", "[aimd]") {
  const std::string_view said[]{
      "u35 d384 s94 f45 =54 193624 1560424",  "u6 d276 s12 f104 850592 1391827",
      "u37 d364 s170 f57 =27 216971 2032071", "u102 d204 s3 f69 =54 696975 2465019",
      "d318 s17 f76 =19 638538 1704235",      "u32 d374 s121 f90 =7 454596 2020758",
      "d127 s80 f58 2155065 1979285",         "u17 d203 s77 f61 =14 693121 1588449",
  };
  std::uint64_t seed = 0;
  for (const std::string_view s : said) CHECK(of_aimd(++seed) == s);
}

}  // namespace limit_history_tests
