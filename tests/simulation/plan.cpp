#include "plan.hpp"

#include "canigo/limiter.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <iterator>

namespace simulated {

namespace {

constexpr const char* names[] = {"acquire",       "acquire_own",     "await",     "await_within", "with_limit",
                                 "try_acquire",   "cancel",          "refund",    "charge",       "set_rate",
                                 "set_burst",     "set_places",      "release",   "settle",       "split",
                                 "pause",         "resume",          "stop",      "destroy",      "set_flow_weight",
                                 "set_flow_rate", "set_flow_places", "drop_flow", "pause_flow",   "resume_flow"};

/// Units of its rates, the first of which stays unit 0, and what each request wants of them.
void add_units(plan& p, dice& d) {
  options& o = p.rules;
  std::size_t units = 1;
  for (std::size_t i = 1; i < o.rates.size(); ++i) {
    o.rates[i].unit = d.roll(units + 1);
    units = std::max(units, o.rates[i].unit + 1);
  }
  for (step& s : p.steps) {
    for (std::size_t unit = 1; unit < units; ++unit) s.others[unit - 1] = d.roll(d.one_in(20) ? 9 : 5);
    s.unit = d.roll(units);
  }
}

/// The tenants of it, who come to the deeds that there are.
void add_flows(plan& p, dice& d) {
  options& o = p.rules;
  const std::size_t units = o.rates.empty() ? 1 : 1 + std::ranges::max(o.rates, {}, &bucket::unit).unit;
  for (std::uint64_t n = 1 + d.roll(4); n > 0; --n) {
    flow_terms t;
    t.weight = flow_weights[d.roll(std::size(flow_weights))];
    if (d.one_in(3)) {
      const std::int64_t token = o.rates.empty() ? token_times[d.roll(std::size(token_times))]
                                                 : o.rates.front().token * static_cast<std::int64_t>(1 + d.roll(3));
      const std::size_t unit = units == 1 ? 0 : d.roll(units);
      std::int64_t deepest = o.rates.empty() ? 5 : 0;
      for (const bucket& b : o.rates) deepest = b.unit == unit ? std::max(deepest, b.burst) : deepest;
      const auto burst = static_cast<std::int64_t>(1 + d.roll(static_cast<std::uint64_t>(deepest)));
      t.rate =
          bucket{token, burst, static_cast<std::int64_t>(d.roll(static_cast<std::uint64_t>(burst) + 1)) * token, unit};
    }
    if (p.about != subject::scheduler && d.one_in(3)) t.places = 1 + d.roll(4);
    if (d.one_in(4)) t.queue_limit = 1 + d.roll(3);
    o.flows.push_back(t);
  }
  for (step& s : p.steps) {
    s.flow = d.roll(o.flows.size() + 1);
    if (s.what < deed::stop && d.one_in(8)) {
      s.what = static_cast<deed>(static_cast<std::uint64_t>(deed::set_flow_weight) + d.roll(6));
    }
  }
}

void add_shedding(plan& p, dice& d, std::int64_t token) {
  canigo::shedding_options& s = p.rules.shedding;
  s.target = duration{1 + static_cast<std::int64_t>(d.roll(3)) * token / 2};
  s.interval = duration{1 + static_cast<std::int64_t>(d.roll(5)) * token};
  s.newest_first = d.one_in(3);
}

/// Deeds that mean the same to a limit that lets everybody go and to one that does not. There are no deadlines, since a
/// phantom whose deadline has passed keeps its place until it is next.
void put_in_shadow(plan& p) {
  p.is_shadow = true;
  if (p.rules.places) p.rules.places = canigo::unlimited;
  for (flow_terms& t : p.rules.flows) t.places.reset();
  for (step& s : p.steps) {
    constexpr deed left_out[] = {deed::await_within, deed::with_limit, deed::cancel, deed::set_places,
                                 deed::release,      deed::settle,     deed::split,  deed::set_flow_places};
    if (std::ranges::find(left_out, s.what) != std::end(left_out)) s.what = deed::acquire;
    s.deadline = -1;
    s.then = deed::acquire;
  }
}

}  // namespace

std::uint64_t dice::roll(std::uint64_t bound) noexcept {
  if (is_from_bytes_) {
    std::uint64_t n = 0;
    for (std::uint64_t left = bound - 1; left > 0; left >>= 8) {
      n <<= 8;
      if (bytes_.empty()) continue;
      n |= bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return n % bound;
  }
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) % bound;
}

plan make_plan(std::uint64_t seed) { return make_plan(seed, dice{seed}); }

plan make_plan(std::uint64_t seed, dice d) {
  plan p;
  p.seed = seed;
  p.about = static_cast<subject>(d.roll(3));
  const std::int64_t token = token_times[d.roll(std::size(token_times))];
  const auto burst = static_cast<std::int64_t>(1 + d.roll(5));
  options& o = p.rules;
  const auto add_rate = [&](std::int64_t t, std::int64_t b) {
    o.rates.push_back({t, b, static_cast<std::int64_t>(d.roll(static_cast<std::uint64_t>(b) + 1)) * t});
  };
  if (p.about != subject::semaphore) add_rate(token, burst);
  if (p.about == subject::limiter) {
    for (std::uint64_t more = d.roll(3); more > 0; --more) {
      add_rate(token_times[d.roll(std::size(token_times))], static_cast<std::int64_t>(1 + d.roll(5)));
    }
  }
  if (p.about != subject::scheduler) o.places = 1 + d.roll(4);
  if (p.about == subject::limiter) {
    if (d.one_in(8)) {
      o.rates.clear();
    } else if (d.one_in(4)) {
      o.places = canigo::unlimited;
    }
  }
  o.places_are_tokens = p.about == subject::semaphore;
  o.priorities = static_cast<int>(1 + d.roll(4));
  o.queue_limit = d.one_in(3) ? 1 + d.roll(4) : 1000;
  o.on_overflow = static_cast<canigo::overflow>(d.roll(3));
  o.ageing = d.one_in(3) ? duration{static_cast<std::int64_t>(1 + d.roll(4)) * token / 2 + 1} : duration::max();
  p.is_abandoned = d.one_in(8);
  p.is_short = d.one_in(4);

  const std::uint64_t many = 10 + d.roll(60);
  const bool is_plain = d.one_in(4);  // nothing but acquires and cancels
  for (std::uint64_t i = 0; i < many; ++i) {
    step s;
    const std::uint64_t of_hundred = d.roll(100);
    if (is_plain || of_hundred < 50) {
      s.what = static_cast<deed>(d.roll(is_plain ? 5 : 6));
      if (d.one_in(5)) s.what = deed::cancel;
    } else if (of_hundred < 97) {
      s.what = static_cast<deed>(static_cast<std::uint64_t>(deed::cancel) + d.roll(11));
    } else if (d.one_in(3)) {
      s.what = d.one_in(2) ? deed::stop : deed::destroy;
    }
    switch (d.roll(6)) {
      case 0:
        s.after = 0;
        break;
      case 1:
        s.after = token;
        break;
      case 2:
        s.after = static_cast<std::int64_t>(d.roll(static_cast<std::uint64_t>(token) * 3 + 1));
        break;
      default:
        s.handlers = d.roll(4);
        break;
    }
    s.id = static_cast<int>(i);
    s.target = static_cast<int>(d.roll(i + 1));
    s.priority = static_cast<int>(d.roll(static_cast<std::uint64_t>(o.priorities)));
    if (d.one_in(50)) s.priority = d.one_in(2) ? -1 : o.priorities;
    s.tokens = d.one_in(2) ? 1 : d.roll(d.one_in(20) ? 9 : static_cast<std::uint64_t>(burst) + 1);
    if (d.one_in(3)) s.deadline = static_cast<std::int64_t>(d.roll(6)) * token + static_cast<std::int64_t>(d.roll(3));
    s.value = static_cast<std::int64_t>(d.roll(6));
    if (o.rates.size() > 1) s.rate = d.roll(o.rates.size());
    constexpr deed replies[] = {deed::acquire, deed::acquire, deed::refund, deed::cancel, deed::release};
    s.then = replies[d.roll(std::size(replies))];
    if (p.is_short) {
      // A strand of Asio's is stuck for ever once its executor has had no memory.
      if (s.what == deed::acquire_own) s.what = deed::acquire;
      if (s.what == deed::await_within) s.what = deed::await;
      if (d.one_in(4)) s.fails_at = static_cast<int>(d.roll(3));
    }
    p.steps.push_back(s);
  }
  // What is short of memory for the amounts of a request says so, which the model does not.
  if (o.rates.size() > 1 && !p.is_short && d.one_in(2)) add_units(p, d);
  if (d.one_in(3)) add_flows(p, d);
  if (d.one_in(4)) add_shedding(p, d, token);
  if (!o.rates.empty() && !p.is_short && d.one_in(8)) put_in_shadow(p);
  return p;
}

std::string describe(const plan& p) {
  const options& o = p.rules;
  std::string text = p.about == subject::scheduler   ? "scheduler"
                     : p.about == subject::semaphore ? "semaphore"
                                                     : "limiter";
  for (const bucket& b : o.rates) {
    text += ": a token per " + canigo::to_string(duration{b.token}) + ", burst " + std::to_string(b.burst) + ", " +
            std::to_string(b.available()) + " at first, of unit " + std::to_string(b.unit);
  }
  if (o.places && *o.places != canigo::unlimited) text += ", " + std::to_string(*o.places) + " places";
  text += ", " + std::to_string(o.priorities) + " classes, queue of " + std::to_string(o.queue_limit) + ", overflow " +
          std::to_string(static_cast<int>(o.on_overflow));
  if (o.ageing != duration::max()) text += ", ageing " + canigo::to_string(o.ageing);
  for (const flow_terms& t : o.flows) {
    text += ", flow of weight " + std::to_string(t.weight);
    if (t.rate) {
      text += " a token per " + canigo::to_string(duration{t.rate->token}) + " burst " + std::to_string(t.rate->burst) +
              " " + std::to_string(t.rate->available()) + " at first, of unit " + std::to_string(t.rate->unit);
    }
    if (t.places) text += " " + std::to_string(*t.places) + " places";
    if (t.queue_limit < 1000) text += " queue of " + std::to_string(t.queue_limit);
  }
  if (o.shedding.target != canigo::duration::max()) {
    text += ", sheds after " + canigo::to_string(o.shedding.target) + " in " + canigo::to_string(o.shedding.interval) +
            (o.shedding.newest_first ? ", newest first" : "");
  }
  if (p.is_shadow) text += ", in shadow mode";
  return text + (p.is_short ? ", short of memory" : "") + (p.is_abandoned ? ", abandoned" : "");
}

std::string describe(const step& s) {
  std::string text = "#" + std::to_string(s.id) + " ";
  if (s.after >= 0) {
    text += "after " + canigo::to_string(duration{s.after});
  } else {
    text += "after " + std::to_string(s.handlers) + " handlers";
  }
  text += std::string{": "} + names[static_cast<std::size_t>(s.what)];
  if (s.what <= deed::try_acquire) {
    text += " priority " + std::to_string(s.priority) + " tokens " + std::to_string(s.tokens);
    for (const std::uint64_t n : s.others) text += "," + std::to_string(n);
    if (s.deadline >= 0) text += " within " + canigo::to_string(duration{s.deadline});
    if (s.then != deed::acquire) text += std::string{", then "} + names[static_cast<std::size_t>(s.then)];
  } else {
    text +=
        " target " + std::to_string(s.target) + " value " + std::to_string(s.value) + " rate " + std::to_string(s.rate);
    if (s.what == deed::settle) text += " unit " + std::to_string(s.unit);
  }
  if (s.flow > 0) text += " flow " + std::to_string(s.flow);
  if (s.fails_at >= 0) text += ", allocation " + std::to_string(s.fails_at) + " fails";
  return text;
}

}  // namespace simulated
