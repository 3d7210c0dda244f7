#include "share_plan.hpp"

#include "canigo/limiter.hpp"
#include "canigo/time.hpp"

#include <iterator>

namespace simulated {

namespace {

constexpr const char* names_of_deeds[] = {"acquire", "acquire_own", "try_acquire", "cancel",     "release",
                                          "settle",  "set_rate",    "set_burst",   "set_places", "resize",
                                          "pause",   "resume",      "stop",        "destroy"};

/// In a hundred steps of a plan, from then on.
share_deed deed_of(std::uint64_t of_hundred) {
  if (of_hundred < 40) return share_deed::acquire;
  if (of_hundred < 50) return share_deed::acquire_own;
  if (of_hundred < 54) return share_deed::try_acquire;
  if (of_hundred < 61) return share_deed::cancel;
  if (of_hundred < 83) return share_deed::release;
  if (of_hundred < 86) return share_deed::settle;
  if (of_hundred < 88) return share_deed::set_rate;
  if (of_hundred < 90) return share_deed::set_burst;
  if (of_hundred < 92) return share_deed::set_places;
  if (of_hundred < 95) return share_deed::resize;
  if (of_hundred < 97) return share_deed::pause;
  if (of_hundred < 98) return share_deed::resume;
  return of_hundred < 99 ? share_deed::stop : share_deed::destroy;
}

}  // namespace

share_plan make_share_plan(std::uint64_t seed) {
  dice d{seed ^ 0x7368617265};  // not the numbers of the other plans
  share_plan p;
  p.seed = seed;
  p.places = 1 + d.roll(4);
  p.token = token_times[d.roll(std::size(token_times))];
  const std::uint64_t limiters = 2 + d.roll(3);
  for (std::uint64_t i = 0; i < limiters; ++i) {
    options o;
    for (std::uint64_t rates = d.roll(3); rates > 0; --rates) {
      const std::int64_t t = d.one_in(3) ? token_times[d.roll(std::size(token_times))] : p.token;
      const auto burst = static_cast<std::int64_t>(1 + d.roll(5));
      o.rates.push_back({t, burst, static_cast<std::int64_t>(d.roll(static_cast<std::uint64_t>(burst) + 1)) * t});
    }
    o.places = d.one_in(3) ? 1 + d.roll(3) : canigo::unlimited;
    o.priorities = static_cast<int>(1 + d.roll(4));
    o.queue_limit = d.one_in(4) ? 1 + d.roll(4) : 1000;
    o.on_overflow = static_cast<canigo::overflow>(d.roll(3));
    o.ageing = d.one_in(3) ? duration{static_cast<std::int64_t>(1 + d.roll(4)) * p.token / 2 + 1} : duration::max();
    p.rules.push_back(std::move(o));
  }
  p.is_abandoned = d.one_in(2);
  const std::uint64_t many = 10 + d.roll(70);
  for (std::uint64_t i = 0; i < many; ++i) {
    share_step s;
    s.what = deed_of(d.roll(100));
    if (d.one_in(3)) {
      s.after = d.one_in(2) ? p.token : static_cast<std::int64_t>(d.roll(static_cast<std::uint64_t>(p.token) * 3 + 1));
    } else {
      s.handlers = d.roll(4);
    }
    s.id = static_cast<int>(i);
    s.target = static_cast<int>(d.roll(i + 1));
    s.who = d.roll(limiters);
    s.priority = static_cast<int>(d.roll(static_cast<std::uint64_t>(p.rules[s.who].priorities)));
    s.tokens = d.one_in(2) ? 1 : 1 + d.roll(3);
    if (d.one_in(4)) s.deadline = static_cast<std::int64_t>(d.roll(6)) * p.token + static_cast<std::int64_t>(d.roll(3));
    s.value = static_cast<std::int64_t>(d.roll(6));
    if (!p.rules[s.who].rates.empty()) s.rate = d.roll(p.rules[s.who].rates.size());
    p.steps.push_back(s);
  }
  return p;
}

std::string describe(const share_plan& p) {
  std::string text = "limiters that share " + std::to_string(p.places) + " places";
  for (const options& o : p.rules) {
    text += "\n  limiter";
    for (const bucket& b : o.rates) {
      text += ": a token per " + canigo::to_string(duration{b.token}) + ", burst " + std::to_string(b.burst) + ", " +
              std::to_string(b.available()) + " at first";
    }
    if (*o.places != canigo::unlimited) text += ", " + std::to_string(*o.places) + " places";
    text += ", " + std::to_string(o.priorities) + " classes, queue of " + std::to_string(o.queue_limit) +
            ", overflow " + std::to_string(static_cast<int>(o.on_overflow));
    if (o.ageing != duration::max()) text += ", ageing " + canigo::to_string(o.ageing);
  }
  if (p.is_abandoned) text += "\n  abandoned";
  return text;
}

std::string describe(const share_step& s) {
  std::string text = "#" + std::to_string(s.id) + " after ";
  text += s.after >= 0 ? canigo::to_string(duration{s.after}) : std::to_string(s.handlers) + " handlers";
  text += std::string{": "} + names_of_deeds[static_cast<std::size_t>(s.what)] + " limiter " + std::to_string(s.who);
  if (s.what <= share_deed::try_acquire) {
    text += " priority " + std::to_string(s.priority) + " tokens " + std::to_string(s.tokens);
    if (s.deadline >= 0) text += " within " + canigo::to_string(duration{s.deadline});
    return text;
  }
  return text + " target " + std::to_string(s.target) + " value " + std::to_string(s.value) + " rate " +
         std::to_string(s.rate);
}

}  // namespace simulated
