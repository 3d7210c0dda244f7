#include "choice_world.hpp"

#include "canigo/error.hpp"
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/time.hpp"

#include "model.hpp"
#include "plan.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

__extension__ using int128 = __int128;

constexpr const char* unit_names[] = {"requests", "tokens"};

/// Rates and a cap, as plainly as they can be said. Used for the common limits, for each alternative and each sublimit.
struct supply {
  struct limit {
    bucket level;
    std::size_t unit = 0;
  };
  std::vector<limit> limits;
  std::optional<std::int64_t> places;
  std::int64_t held = 0;
  int prefer = 1;
  time_point paused_until = time_point::min();
  bool is_closed = false;

  void pass(duration d) {
    for (limit& l : limits) l.level.pass(d.count());
  }
  bool fits(const amounts& a) const {
    return std::ranges::all_of(limits,
                               [&](const limit& l) { return static_cast<std::int64_t>(a[l.unit]) <= l.level.burst; });
  }
  /// When it has room if nothing is taken; max: when a place comes back, or a pause without an end ends.
  time_point room_at(time_point now, const amounts& a) const {
    if (is_closed || (places && held >= *places)) return time_point::max();
    time_point at = std::max(now, paused_until);
    for (const limit& l : limits) at = std::max(at, now + duration{l.level.wait_for(a[l.unit])});
    return at;
  }
  /// Whether a request that has just gone had room.
  bool has_gone(const amounts& a) const {
    return !is_closed && (!places || held <= *places) &&
           std::ranges::all_of(limits, [&](const limit& l) { return a[l.unit] == 0 || l.level.available() >= 0; });
  }
  void take(const amounts& a) {
    for (limit& l : limits) l.level.charge(a[l.unit]);
    ++held;
  }
  void settle(std::size_t unit, std::uint64_t from, std::uint64_t to) {
    for (limit& l : limits) {
      if (l.unit != unit) continue;
      to > from ? l.level.charge(to - from) : l.level.refund(from - to);
    }
  }
  /// What is left of the limit that has least left.
  std::pair<int128, int128> room(const amounts& a) const {
    std::pair<int128, int128> least{1, 1};
    const auto look = [&](int128 left, int128 of) {
      if (left * least.second < least.first * of) least = {left, of};
    };
    if (places) look(*places - held, *places);
    for (const limit& l : limits) {
      if (a[l.unit] > 0) look(l.level.available(), l.level.burst);
    }
    return least;
  }
};

struct asked {
  request wanted;
  amounts wants{};
  int id = 0;
  time_point since{};
  std::optional<duration> estimate;
  std::size_t flow = 0;  // 0: none

  // As the engine says.
  bool has_ended = false;
  std::error_code code;
  time_point ended_at{};
  std::size_t from = canigo::no_alternative;
  std::optional<canigo::permit> permit;
  net::cancellation_signal signal;
  bool is_cancelled = false;
  bool is_counted = false;

  // As the list says.
  bool must_wait = false;
  bool must_have_ended = false;
  std::error_code must_code;
  time_point must_end_at{};
  std::size_t must_be_from = canigo::no_alternative;
};

class choice_world {
 public:
  explicit choice_world(std::uint64_t seed) : dice_{seed ^ 0x63686f69}, context_{seed} {
    is_calm_ = dice_.one_in(3);
    canigo::limiter_options o;
    has_units_ = dice_.one_in(2);
    o.priorities = priorities_ = 1 + static_cast<int>(dice_.roll(3));
    if (dice_.one_in(4)) o.ageing = ageing_ = ms(40);
    if (dice_.one_in(4)) o.queue_limit = queue_limit_ = 1 + dice_.roll(6);
    if (dice_.one_in(2)) o.rates = make_rates(common_, 2);
    if (dice_.one_in(4)) o.concurrency = static_cast<std::uint64_t>(*(common_.places = 1 + roll(4)));
    const std::size_t many_named = dice_.one_in(2) ? 1 + dice_.roll(3) : 0;
    if (many_named > 0 && dice_.one_in(3)) is_hidden_ = true;
    const std::size_t many = is_hidden_ ? 0 : 1 + dice_.roll(4);
    if (is_hidden_) any_of_.emplace_back();
    for (std::size_t i = 0; i < many; ++i) {
      supply& s = any_of_.emplace_back();
      canigo::alternative_options a{.prefer = s.prefer = static_cast<int>(dice_.roll(2))};
      if (!dice_.one_in(8)) a.rates = make_rates(s, 2);
      if (dice_.one_in(3)) a.concurrency = static_cast<std::uint64_t>(*(s.places = 1 + roll(3)));
      o.alternatives.push_back(std::move(a));
    }
    for (std::size_t i = 0; i < many_named; ++i) o.sublimits.push_back(make_sublimit());
    limiter_.emplace(context_.get_executor(), o);
    has_flows_ = dice_.one_in(3);
    for (std::uint64_t i = 0; has_flows_ && i < 3; ++i) {
      canigo::flow_options f{.weight = static_cast<std::uint32_t>(1 + dice_.roll(4))};
      std::uint64_t burst = 6;
      for (const auto& l : common_.limits) burst = std::min(burst, static_cast<std::uint64_t>(l.level.burst));
      if (dice_.one_in(3)) f.rates = {{canigo::rate{1, ms(20)}, burst, burst}};
      if (dice_.one_in(4)) f.concurrency = 1 + dice_.roll(3);
      is_limited_.push_back(!f.rates.empty() || f.concurrency != canigo::unlimited);
      flows_.emplace_back(std::in_place, *limiter_, f);
    }
  }

  verdict play() {
    const std::uint64_t steps = 20 + dice_.roll(40);
    for (std::uint64_t i = 0; i < steps && verdict_.is_good; ++i) {
      verdict_.step = i;
      if (!dice_.one_in(3)) pass(ms(20));
      do_something();
      if (!has_flows_) serve();
      context_.poll();
      compare();
    }
    if (verdict_.is_good && dice_.one_in(2)) stop();
    verdict_.simulated = context_.elapsed();
    return verdict_;
  }

 private:
  canigo::sublimit_options make_sublimit() {
    supply& s = named_.emplace_back();
    canigo::sublimit_options o;
    if (!dice_.one_in(6)) o.rates = make_rates(s, 2);
    if (dice_.one_in(3)) o.concurrency = static_cast<std::uint64_t>(*(s.places = 1 + roll(3)));
    return o;
  }
  std::int64_t roll(std::uint64_t bound) { return static_cast<std::int64_t>(dice_.roll(bound)); }
  duration ms(std::uint64_t bound) { return (roll(bound) + 1) * 1ms; }

  std::vector<canigo::rate_limit> make_rates(supply& s, std::uint64_t most) {
    std::vector<canigo::rate_limit> rates;
    const std::uint64_t many = 1 + dice_.roll(most);
    for (std::uint64_t i = 0; i < many; ++i) {
      const std::int64_t token = (1 + roll(20)) * 1'000'000, burst = 1 + roll(6), first = roll(7) % (burst + 1);
      const std::size_t unit = !has_units_ ? 0 : limiter_ ? first_unit_.value_or(0) : dice_.roll(2);
      s.limits.push_back({{.token = token, .burst = burst, .missing = (burst - first) * token, .unit = unit}, unit});
      rates.push_back({.rate = canigo::rate{1, duration{token}},
                       .burst = static_cast<std::uint64_t>(burst),
                       .initial_tokens = static_cast<std::uint64_t>(first),
                       .unit = has_units_ ? unit_names[unit] : ""});
    }
    for (const auto& r : rates) {
      if (!r.unit.empty()) note_unit(r.unit == unit_names[0] ? 0 : 1);
    }
    return rates;
  }
  // The unit of the first rate of all is that of request.tokens.
  void note_unit(std::size_t unit) {
    if (!first_unit_) first_unit_ = unit;
    if (unit != *first_unit_) has_second_ = true;
  }
  amounts wants_of(const request& r, std::uint64_t second) const {
    amounts a{};
    if (!has_units_) {
      a[0] = r.tokens;
      return a;
    }
    a[first_unit_.value_or(0)] = r.tokens;
    if (has_second_) a[1 - first_unit_.value_or(0)] = second;
    return a;
  }

  // ---- the list ----

  std::uint64_t not_closed() const {
    std::uint64_t set = 0;
    for (std::size_t i = 0; i < any_of_.size(); ++i) set |= any_of_[i].is_closed ? 0 : std::uint64_t{1} << i;
    return set;
  }
  std::uint64_t all() const { return (std::uint64_t{1} << any_of_.size()) - 1; }
  std::uint64_t set_of(const asked& a) const {
    std::uint64_t set = is_hidden_ ? 1 : a.wanted.alternatives & not_closed();
    for (std::size_t i = 0; i < any_of_.size(); ++i) {
      if (!any_of_[i].fits(a.wants)) set &= ~(std::uint64_t{1} << i);
    }
    return set;
  }
  /// The sublimit that a request names; one without limits if it names none.
  supply& named_by(const asked& a) { return a.wanted.sublimit < 0 ? none_ : named_[number_of(a)]; }
  const supply& named_by(const asked& a) const { return a.wanted.sublimit < 0 ? none_ : named_[number_of(a)]; }
  static std::size_t number_of(const asked& a) { return static_cast<std::size_t>(a.wanted.sublimit); }
  std::optional<canigo::errc> never(const asked& a) const {
    if (!common_.fits(a.wants)) return canigo::errc::too_large;
    if (a.wanted.sublimit >= static_cast<int>(named_.size())) return canigo::errc::invalid_argument;
    if (is_hidden_) return named_by(a).fits(a.wants) ? std::nullopt : std::optional{canigo::errc::too_large};
    if ((a.wanted.alternatives & all()) == 0) return canigo::errc::invalid_argument;
    if ((a.wanted.alternatives & not_closed()) == 0) return canigo::errc::stopped;
    if (set_of(a) == 0 || !named_by(a).fits(a.wants)) return canigo::errc::too_large;
    return {};
  }
  int class_of(const asked& a) const {
    const auto risen = ageing_ == duration::max() ? 0 : (now_ - a.since) / ageing_;
    return static_cast<int>(std::max<std::int64_t>(0, a.wanted.priority - risen));
  }
  std::vector<asked*> in_order() const {
    std::vector<asked*> waiters = queue_;
    std::ranges::sort(waiters, {}, [this](const asked* a) { return std::pair{class_of(*a), a->id}; });
    return waiters;
  }
  void end(asked& a, std::error_code code) {
    a.must_wait = false;
    a.must_have_ended = true;
    a.must_code = code;
    a.must_end_at = now_;
    std::erase(queue_, &a);
  }
  /// One that goes now; false if none may.
  bool serve_one() {
    if (now_ < paused_until_) return false;
    std::uint64_t open = all(), kept_named = 0;
    needed_named_ = 0;
    for (asked* a : in_order()) {
      const std::uint64_t set = set_of(*a);
      if ((set & open) == 0) continue;
      if (a->wanted.sublimit >= 0) {
        const std::uint64_t own = std::uint64_t{1} << a->wanted.sublimit;
        if ((kept_named & own) != 0) continue;
        if (named_by(*a).room_at(now_, a->wants) > now_) {
          kept_named |= own;
          continue;
        }
      }
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < any_of_.size(); ++i) {
        if ((set & open & (std::uint64_t{1} << i)) == 0 || any_of_[i].room_at(now_, a->wants) > now_) continue;
        if (!best || any_of_[i].prefer < any_of_[*best].prefer) {
          best = i;
        } else if (any_of_[i].prefer == any_of_[*best].prefer) {
          const auto x = any_of_[i].room(a->wants), y = any_of_[*best].room(a->wants);
          if (x.first * y.second > y.first * x.second) best = i;
        }
      }
      if (!best) {
        open &= ~set;
        if (a->wanted.sublimit >= 0) needed_named_ |= std::uint64_t{1} << a->wanted.sublimit;
        continue;
      }
      if (common_.room_at(now_, a->wants) > now_) return false;
      common_.take(a->wants);
      any_of_[*best].take(a->wants);
      if (a->wanted.sublimit >= 0) named_by(*a).take(a->wants);
      a->must_be_from = *best;
      end(*a, {});
      return true;
    }
    return false;
  }
  void serve() {
    for (asked* a : std::vector<asked*>{queue_}) {
      if (const auto why = never(*a)) end(*a, *why);
    }
    while (serve_one()) {
    }
  }
  time_point next_event() const {
    time_point next = time_point::max();
    const auto at = [&](time_point t) {
      if (t > now_) next = std::min(next, t);
    };
    at(paused_until_);
    for (const asked* a : queue_) {
      at(a->wanted.deadline);
      at(common_.room_at(now_, a->wants));
      for (const supply& s : any_of_) at(s.room_at(now_, a->wants));
      at(named_by(*a).room_at(now_, a->wants));
      if (ageing_ != duration::max()) at(a->since + ((now_ - a->since) / ageing_ + 1) * ageing_);
    }
    return next;
  }
  void pass(duration d) {
    const time_point until = now_ + d;
    if (has_flows_) {
      context_.run_until(until);
      compare();
      return move_to(until);
    }
    while (now_ < until) {
      const time_point next = std::min(until, next_event());
      common_.pass(next - now_);
      for (supply& s : any_of_) s.pass(next - now_);
      for (supply& s : named_) s.pass(next - now_);
      now_ = next;
      serve();
      for (asked* a : std::vector<asked*>{queue_}) {
        if (!a->must_wait || a->wanted.deadline > now_) continue;
        end(*a, canigo::errc::timed_out);
        serve();
      }
    }
    context_.run_until(until);
    compare();
  }

  void move_to(time_point t) {
    common_.pass(t - now_);
    for (supply& s : any_of_) s.pass(t - now_);
    for (supply& s : named_) s.pass(t - now_);
    now_ = t;
  }

  // ---- deeds ----

  void do_something() {
    if (has_flows_ && dice_.one_in(8)) return change_a_flow();
    const std::uint64_t what = dice_.roll(is_calm_ ? 12 : 24);
    if (what < 8) return ask();
    if (what < 12) return give_back();
    if (what == 12) return cancel();
    if (what == 13) return settle();
    if (what == 14) return try_at_once();
    if (what == 15) return pause_all();
    if (is_hidden_ || (!named_.empty() && dice_.one_in(3))) return change_a_sublimit();
    const std::size_t i = dice_.roll(any_of_.size());
    supply& s = any_of_[i];
    canigo::alternative_handle h = limiter_->alternative(i);
    if (what <= 17) {
      s.paused_until = dice_.one_in(8) ? time_point::max() : now_ + ms(30);
      return h.pause_until(s.paused_until);
    }
    if (what == 18) {
      s.paused_until = time_point::min();
      return h.resume();
    }
    if (what == 19 && dice_.one_in(6)) {
      s.is_closed = true;
      return h.close();
    }
    if (what == 20) {
      s.places = 1 + roll(3);
      return h.set_concurrency(static_cast<std::uint64_t>(*s.places));
    }
    if (s.limits.empty()) return;
    const std::size_t r = dice_.roll(s.limits.size());
    bucket& b = s.limits[r].level;
    if (what == 21) {
      const std::int64_t token = (1 + roll(20)) * 1'000'000;
      b.set_token(token);
      return h.set_rate(r, canigo::rate{1, duration{token}});
    }
    if (what == 22) {
      const std::int64_t burst = 1 + roll(6);
      b.set_burst(burst);
      return h.set_burst(r, static_cast<std::uint64_t>(burst));
    }
    const std::int64_t most = roll(3), there = b.available();
    if (there > most) b.charge(static_cast<std::uint64_t>(there - most));
    h.lower_tokens(r, static_cast<std::uint64_t>(most));
  }

  void change_a_sublimit() {
    if (named_.size() < 6 && (!has_units_ || first_unit_) && dice_.one_in(8)) {
      const canigo::sublimit_options o = make_sublimit();
      const int number = limiter_->add_sublimit(o, now_);
      if (number + 1 != static_cast<int>(named_.size())) fail("a new sublimit has another number");
      return;
    }
    const std::size_t i = dice_.roll(named_.size());
    supply& s = named_[i];
    canigo::sublimit_handle h = limiter_->sublimit(i);
    const std::uint64_t what = dice_.roll(3);
    if (what == 0) {
      s.places = 1 + roll(3);
      return h.set_concurrency(static_cast<std::uint64_t>(*s.places));
    }
    if (s.limits.empty()) return;
    const std::size_t r = dice_.roll(s.limits.size());
    if (what == 1) {
      const std::int64_t token = (1 + roll(20)) * 1'000'000;
      s.limits[r].level.set_token(token);
      return h.set_rate(r, canigo::rate{1, duration{token}});
    }
    const std::int64_t burst = 1 + roll(6);
    s.limits[r].level.set_burst(burst);
    h.set_burst(r, static_cast<std::uint64_t>(burst));
  }

  request some_request(std::uint64_t& second) {
    request r{.priority = static_cast<int>(dice_.roll(static_cast<std::uint64_t>(priorities_))),
              .tokens = 1 + dice_.roll(dice_.one_in(3) ? 6 : 2)};
    if (has_second_ && dice_.one_in(2)) {
      second = dice_.roll(5);
      r.amounts = {{canigo::unit_key{1}, second}};
    }
    if (!dice_.one_in(3)) r.alternatives = dice_.roll(all() + 2) | (dice_.one_in(9) ? 0 : all() + 1);
    if (!is_calm_ && dice_.one_in(4)) r.deadline = now_ + ms(60);
    if (!named_.empty()) r.sublimit = static_cast<int>(roll(named_.size() + 1)) - (dice_.one_in(20) ? 0 : 1);
    return r;
  }

  void ask() {
    asked& a = *everything_.emplace_back(std::make_unique<asked>());
    std::uint64_t second = 0;
    a.wanted = some_request(second);
    a.wants = wants_of(a.wanted, second);
    a.id = static_cast<int>(everything_.size());
    a.since = now_;
    ++verdict_.acquires;
    if (has_flows_) a.flow = dice_.roll(flows_.size() + 1);
    if (a.flow > 0 && flows_[a.flow - 1]) a.wanted.flow = &*flows_[a.flow - 1];
    if (a.wanted.flow == nullptr) a.flow = 0;
    if (is_calm_ && a.flow == 0 && !never(a)) a.estimate = limiter_->estimate(a.wanted);
    limiter_->async_acquire(
        a.wanted, net::bind_cancellation_slot(a.signal.slot(), [this, &a](std::error_code ec, canigo::permit p) {
          if (a.has_ended) fail(a, "ends twice");
          a.has_ended = true;
          a.code = ec;
          a.ended_at = context_.now();
          a.from = is_hidden_ && !ec ? 0 : p.alternative();
          if (is_hidden_ && p.alternative() != canigo::no_alternative) fail(a, "comes from an alternative");
          if (!ec) a.permit = std::move(p);
        }));
    if (has_flows_) return;
    if (const auto why = never(a)) return end(a, *why);
    join_as_last(a);
    context_.poll();
    // Only the engine knows its bound for a deadline. It is checked by estimates in calm runs.
    if (a.must_wait && a.has_ended && a.code == canigo::errc::deadline_unreachable) return end(a, a.code);
    if (a.must_wait && queue_.size() > queue_limit_) end(a, canigo::errc::queue_full);
  }
  /// A newcomer goes at once only if it overtakes nobody, whatever its class.
  void join_as_last(asked& a) {
    const int own = std::exchange(a.wanted.priority, priorities_ - 1);
    queue_.push_back(&a);
    a.must_wait = true;
    serve();
    a.wanted.priority = own;
  }

  void try_at_once() {
    asked& a = *everything_.emplace_back(std::make_unique<asked>());
    std::uint64_t second = 0;
    a.wanted = some_request(second);
    a.wanted.deadline = time_point::max();
    a.wants = wants_of(a.wanted, second);
    a.id = static_cast<int>(everything_.size());
    a.since = now_;
    if (never(a)) return everything_.pop_back();
    a.permit = limiter_->try_acquire(a.wanted);
    a.has_ended = true;
    a.ended_at = now_;
    if (!a.permit) a.code = canigo::errc::queue_full;
    if (a.permit) a.from = is_hidden_ ? 0 : a.permit->alternative();
    if (has_flows_) return;
    // A waiter for its alternatives needs the same sublimit.
    if (a.wanted.sublimit >= 0 && !queue_.empty() && (needed_named_ >> a.wanted.sublimit & 1) != 0)
      return end(a, canigo::errc::queue_full);
    join_as_last(a);
    if (a.must_wait) end(a, canigo::errc::queue_full);
  }

  asked* some_permit() {
    std::vector<asked*> held;
    for (const auto& a : everything_) {
      if (a->permit) held.push_back(a.get());
    }
    return held.empty() ? nullptr : held[dice_.roll(held.size())];
  }
  void give_back() {
    asked* a = some_permit();
    if (a == nullptr) return;
    --common_.held;
    --any_of_[a->from].held;
    if (a->wanted.sublimit >= 0) --named_by(*a).held;
    a->permit.reset();
  }
  void settle() {
    asked* a = some_permit();
    if (a == nullptr) return;
    const bool is_second = has_second_ && dice_.one_in(2);
    const std::size_t first = has_units_ ? first_unit_.value_or(0) : 0, unit = is_second ? 1 - first : first;
    const std::uint64_t used = dice_.roll(8);
    common_.settle(unit, a->wants[unit], used);
    any_of_[a->from].settle(unit, a->wants[unit], used);
    named_by(*a).settle(unit, a->wants[unit], used);
    a->wants[unit] = used;
    is_second ? a->permit->settle(1, used) : a->permit->settle(used);
  }
  void change_a_flow() {
    const std::size_t i = dice_.roll(flows_.size());
    std::optional<canigo::flow>& f = flows_[i];
    if (!f) {
      is_limited_[i] = false;
      f.emplace(*limiter_, canigo::flow_options{.weight = 2});
    } else if (dice_.one_in(4)) {
      f.reset();
    } else if (dice_.one_in(2)) {
      is_limited_[i] = true;
      f->pause_until(now_ + ms(20));
    } else {
      f->set_weight(static_cast<std::uint32_t>(1 + dice_.roll(5)));
    }
  }
  void cancel() {
    if (has_flows_) {
      if (everything_.empty()) return;
      asked& a = *everything_[dice_.roll(everything_.size())];
      if (a.has_ended) return;
      a.is_cancelled = true;
      a.signal.emit(net::cancellation_type::terminal);
      return;
    }
    if (queue_.empty()) return;
    asked& a = *queue_[dice_.roll(queue_.size())];
    end(a, net::error::operation_aborted);
    a.signal.emit(net::cancellation_type::terminal);
  }
  void pause_all() {
    paused_until_ = now_ + ms(15);
    limiter_->pause_until(paused_until_);
  }
  void stop() {
    flows_.clear();
    for (asked* a : std::vector<asked*>{queue_}) end(*a, canigo::errc::stopped);
    dice_.one_in(2) ? limiter_->stop() : limiter_.reset();
    context_.run();
    compare();
    for (const auto& a : everything_) a->permit.reset();
  }

  // ---- the judge ----

  /// With flows, only shares say whose turn it is. So the engine says who goes, and the rest is judged: that it had
  /// room, that requests of one flow, class, set and sublimit keep their order, and that none waits for nothing.
  void judge_flows() {
    std::vector<asked*> gone;
    for (const auto& a : everything_) {
      if (!a->has_ended || std::exchange(a->is_counted, true)) continue;
      if (!a->code) {
        gone.push_back(a.get());
      } else if (a->code == net::error::operation_aborted && !a->is_cancelled) {
        return fail(*a, "ends as cancelled");
      } else if (a->code == canigo::errc::timed_out && a->ended_at != a->wanted.deadline) {
        return fail(*a, "times out at another time");
      }
    }
    std::ranges::sort(gone, {}, [](const asked* a) { return std::pair{a->ended_at, a->id}; });
    for (asked* a : gone) {
      if (a->ended_at > now_) move_to(a->ended_at);
      common_.take(a->wants);
      any_of_[a->from].take(a->wants);
      if (a->wanted.sublimit >= 0) named_by(*a).take(a->wants);
      if ((set_of(*a) >> a->from & 1) == 0) fail(*a, "comes from an alternative that may not serve it");
    }
    for (const asked* a : gone) {
      if (a->ended_at != now_) continue;
      if (!common_.has_gone(a->wants)) fail(*a, "takes more than the common limits have");
      if (!any_of_[a->from].has_gone(a->wants) || any_of_[a->from].paused_until > now_) {
        fail(*a, "takes more than its alternative has");
      }
      if (!named_by(*a).has_gone(a->wants)) fail(*a, "takes more than its sublimit has");
    }
    if (context_.now() > now_) move_to(context_.now());
    std::vector<const asked*> waiting;
    for (const auto& a : everything_) {
      if (!a->has_ended) waiting.push_back(a.get());
    }
    for (const asked* g : gone) {
      for (const asked* w : waiting) {
        if (w->id < g->id && w->flow == g->flow && w->wanted.priority == g->wanted.priority &&
            w->wanted.flow == g->wanted.flow && w->wanted.sublimit == g->wanted.sublimit && set_of(*w) == set_of(*g)) {
          return fail(*g, "overtakes one of its own");
        }
      }
    }
    if (now_ < paused_until_) return;
    // A waiter keeps its sublimit if that has no room for it, and nothing else. It keeps its alternatives if each has
    // no room for it, or is kept. One that lacks a common limit keeps all.
    std::uint64_t kept = 0, kept_named = 0;
    const asked* idle = nullptr;
    for (bool has_grown = true; has_grown;) {
      has_grown = false;
      idle = nullptr;
      for (const asked* w : waiting) {
        const std::uint64_t set = set_of(*w);
        const std::uint64_t own = w->wanted.sublimit < 0 ? 0 : std::uint64_t{1} << w->wanted.sublimit;
        if (own != 0 && named_by(*w).room_at(now_, w->wants) > now_) {
          has_grown = has_grown || (kept_named & own) == 0;
          kept_named |= own;
          continue;
        }
        bool may_go = false, has_room = false;
        for (std::size_t i = 0; i < any_of_.size(); ++i) {
          const bool here = (set >> i & 1) != 0 && any_of_[i].room_at(now_, w->wants) <= now_;
          has_room = has_room || here;
          may_go = may_go || (here && (kept >> i & 1) == 0);
        }
        if (has_room && common_.room_at(now_, w->wants) > now_) return;  // it may be the first one
        if (may_go && (kept_named & own) == 0 && (w->flow == 0 || !is_limited_[w->flow - 1])) idle = w;
        if (may_go || (set & ~kept) == 0) continue;
        kept |= set;
        has_grown = true;
      }
    }
    if (idle != nullptr) fail(*idle, "waits for nothing");
  }

  void compare() {
    if (has_flows_) {
      judge_flows();
      if (limiter_) compare_supplies(limiter_->stats());
      return;
    }
    for (const auto& one : everything_) {
      const asked& a = *one;
      if (a.has_ended != a.must_have_ended)
        return fail(a, a.has_ended ? "ends, and must wait: " + a.code.message() : "waits, and must end");
      if (!a.has_ended) continue;
      if (a.code != a.must_code)
        return fail(a, "ends with " + a.code.message() + ", not with " + a.must_code.message());
      if (a.ended_at != a.must_end_at) return fail(a, "ends at another time");
      if (a.from != a.must_be_from) return fail(a, "comes from " + std::to_string(static_cast<int>(a.from)));
      if (a.estimate && !a.code && a.ended_at - a.since < *a.estimate) return fail(a, "waits less than its estimate");
      note(static_cast<std::uint64_t>(a.id) * 64 + a.from);
    }
    if (!limiter_) return;
    const canigo::limiter_stats s = limiter_->stats();
    if (s.waiting != queue_.size()) fail("it has other waiters");
    compare_supplies(s);
  }
  void compare_supplies(const canigo::limiter_stats& s) {
    if (s.held != static_cast<std::uint64_t>(common_.held)) fail("other places are held");
    for (std::size_t i = 0; i < common_.limits.size(); ++i) {
      if (s.tokens[i] != common_.limits[i].level.available()) fail("a common rate has other tokens");
    }
    for (std::size_t i = 0; i < named_.size(); ++i) {
      if (s.sublimits[i].held != static_cast<std::uint64_t>(named_[i].held)) fail("a sublimit has other places");
      for (std::size_t r = 0; r < named_[i].limits.size(); ++r) {
        if (s.sublimits[i].tokens[r] != named_[i].limits[r].level.available()) fail("a sublimit has other tokens");
      }
    }
    if (is_hidden_) return;
    for (std::size_t i = 0; i < any_of_.size(); ++i) {
      if (s.alternatives[i].held != static_cast<std::uint64_t>(any_of_[i].held))
        fail("an alternative has other places");
      for (std::size_t r = 0; r < any_of_[i].limits.size(); ++r) {
        if (s.alternatives[i].tokens[r] != any_of_[i].limits[r].level.available())
          fail("an alternative has other tokens");
      }
    }
  }
  void note(std::uint64_t n) {
    verdict_.hash = (verdict_.hash ^ n) * 0x100000001b3;
    verdict_.hash ^= static_cast<std::uint64_t>(context_.elapsed().count());
  }
  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = "choices: " + what + ", at " + canigo::to_string(context_.elapsed());
  }
  void fail(const asked& a, const std::string& what) { fail("request " + std::to_string(a.id) + " " + what); }

  dice dice_;
  verdict verdict_;
  bool is_calm_ = false;
  bool has_flows_ = false;
  bool has_units_ = false;
  bool has_second_ = false;
  bool is_hidden_ = false;  // there is no alternative: `any_of_` has one without limits in their place
  std::optional<std::size_t> first_unit_;
  int priorities_ = 1;
  duration ageing_ = duration::max();
  std::size_t queue_limit_ = 100'000;
  time_point now_{};
  time_point paused_until_ = time_point::min();
  supply common_;
  std::vector<supply> any_of_;
  std::vector<supply> named_;       // the sublimits
  std::uint64_t needed_named_ = 0;  // those of waiters that lack their alternatives
  supply none_;
  std::vector<asked*> queue_;  // in the order of arrival
  std::vector<std::unique_ptr<asked>> everything_;
  canigo::testing::simulation context_;
  std::optional<canigo::limiter> limiter_;
  std::deque<std::optional<canigo::flow>> flows_;  // none: the list says who goes
  std::vector<bool> is_limited_;                   // those that may have a ceiling
};

}  // namespace

verdict play_choices(std::uint64_t seed) { return choice_world{seed}.play(); }

}  // namespace simulated
