#include "gateway/policy/wire_window.hpp"

#include "support/catch.hpp"

#include <chrono>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::rate;
using canigo::rate_limit;
using canigo::rate_window;

namespace gateway = canigo::gateway;

TEST_CASE("gateway: a strict window lasts a little longer than the upstream's, an average rate is as written",
          "[gateway]") {
  const auto strict = [](const rate& r) { return rate_limit{.rate = r, .window = rate_window::strict}; };
  const auto rates = gateway::on_the_wire({{.rate = rate{20, 1s}, .burst = 3, .unit = "requests"},
                                           strict(rate{20, 1s}),
                                           strict(rate{60'000, 1min}),
                                           strict(rate{1, 10ns}),
                                           strict(rate{1, duration::max()})});
  CHECK((rates[0].rate.period() == 1s && rates[0].burst == 3 && rates[0].unit == "requests"));
  CHECK((rates[1].rate.tokens() == 20 && rates[1].rate.period() == 1'020ms));
  CHECK((rates[2].rate.tokens() == 60'000 && rates[2].rate.period() == 60'250ms));
  CHECK(rates[3].rate.period() == 10ns);
  CHECK(rates[4].rate.period() == duration::max());
}

TEST_CASE("gateway: rates of one speed are the same unless their windows are strict", "[gateway]") {
  const rate_limit minute{.rate = rate{60, 1min}}, second{.rate = rate{1, 1s}};
  CHECK(gateway::is_same_rate(minute, second));
  const auto strict = [](rate_limit r) {
    r.window = rate_window::strict;
    return r;
  };
  CHECK_FALSE(gateway::is_same_rate(strict(minute), strict(second)));
  CHECK(gateway::is_same_rate(strict(minute), strict(minute)));
  CHECK_FALSE(gateway::is_same_rate(strict(minute), strict({.rate = rate{61, 1min}})));
}
