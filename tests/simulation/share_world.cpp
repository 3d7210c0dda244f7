#include "share_world.hpp"

#include "canigo/error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/permit.hpp"

#include "context.hpp"
#include "end_of.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/strand.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using canigo::permit;

namespace {

canigo::rate rate_with(std::int64_t token) { return canigo::rate{1, duration{token}}; }

class share_world {
 public:
  explicit share_world(const share_plan& p)
      : plan_{p}, cap_{{.permits = p.places}}, model_{p.places, [this](std::size_t i) { return granted(i); }} {
    for (std::uint64_t i = 0; i < 2; ++i) contexts_[i].emplace(p.seed + i);
    for (const options& o : p.rules) {
      canigo::limiter_options made{.concurrency = *o.places,
                                   .share = cap_,
                                   .priorities = o.priorities,
                                   .queue_limit = o.queue_limit,
                                   .on_overflow = o.on_overflow,
                                   .ageing = o.ageing};
      for (const bucket& b : o.rates) {
        made.rates.push_back(
            {rate_with(b.token), static_cast<std::uint64_t>(b.burst), static_cast<std::uint64_t>(b.available())});
      }
      limiters_.push_back(
          std::make_unique<canigo::limiter>(contexts_[limiters_.size() % 2]->get_executor(), std::move(made)));
      granted_.push_back(0);
      model_.add(o);
    }
  }
  ~share_world() { is_over_ = true; }

  verdict play() {
    for (const share_step& s : plan_.steps) {
      verdict_.step = static_cast<std::size_t>(s.id);
      pass(s);
      act(s);
      compare();
      if (!verdict_.is_good) return verdict_;
    }
    finish();
    verdict_.simulated = contexts_[0]->elapsed();
    return verdict_;
  }

 private:
  struct caller {
    net::cancellation_signal signal;
    request wanted;
    std::size_t who = 0;
    bool has_ended = false;
    permit held;
    std::uint64_t used = 0;
  };
  struct report {
    int id;
    end how;
    time_point when;
  };

  void fail(const std::string& what) {
    if (!verdict_.is_good) return;
    verdict_.is_good = false;
    verdict_.what = what;
  }
  void note(std::uint64_t n) {
    verdict_.hash = (verdict_.hash ^ n) * 0x100000001b3;
    verdict_.hash ^= verdict_.hash >> 29;
  }
  time_point now() const { return contexts_[0]->now(); }

  /// As the engine says, or said last.
  std::uint64_t granted(std::size_t i) {
    if (limiters_[i]) granted_[i] = limiters_[i]->stats().granted;
    return granted_[i];
  }

  void run_until(time_point t) {
    for (auto& c : contexts_) c->run_until(t);
    model_.pass_to(t);
    judge();
  }
  void pass(const share_step& s) {
    if (s.after < 0) {
      for (std::uint64_t i = 0; i < s.handlers; ++i) contexts_[i % 2]->step();
      judge();
      return;
    }
    pass_until(now() + duration{s.after});
  }
  void pass_until(time_point t) {
    run_until(now());
    for (time_point next = model_.next_event(); next < t && verdict_.is_good; next = model_.next_event()) {
      run_until(next);
      compare();
    }
    run_until(t);
  }

  void act(const share_step& s) {
    auto& l = limiters_[s.who];
    model& m = model_.at(s.who);
    const auto n = static_cast<std::uint64_t>(s.value);
    switch (s.what) {
      case share_deed::acquire:
      case share_deed::acquire_own:
        if (l) ask(s, *l, m);
        break;
      case share_deed::try_acquire:
        if (l) try_at_once(s, *l, m);
        break;
      case share_deed::cancel:
        cancel(s.target);
        break;
      case share_deed::release:
        release(s.target);
        break;
      case share_deed::settle:
        settle(s.target, n);
        break;
      case share_deed::set_rate:
        if (!l || plan_.rules[s.who].rates.empty()) break;
        l->set_rate(s.rate, rate_with(token_times[n]));
        m.set_token(s.rate, token_times[n]);
        break;
      case share_deed::set_burst:
        if (!l || plan_.rules[s.who].rates.empty()) break;
        l->set_burst(s.rate, n + 1);
        m.set_burst(s.rate, s.value + 1);
        break;
      case share_deed::set_places:
        if (!l) break;
        l->set_concurrency(n + 1);
        m.set_places(n + 1);
        break;
      case share_deed::resize:
        cap_.resize(n + 1);
        model_.resize(n + 1);
        break;
      case share_deed::pause:
      case share_deed::resume: {
        if (!l) break;
        const time_point until = s.what == share_deed::resume ? time_point::min()
                                 : n == 0                     ? time_point::max()
                                                              : now() + duration{s.value * plan_.token};
        l->pause_until(until);
        m.pause_until(until);
        break;
      }
      case share_deed::stop:
        if (l) l->stop();
        m.stop();
        break;
      case share_deed::destroy:
        granted(s.who);
        l.reset();
        m.stop();
        break;
    }
  }

  caller& make_caller(const share_step& s) {
    auto& c = callers_[s.id];
    c = std::make_unique<caller>();
    c->wanted = {.priority = s.priority,
                 .tokens = s.tokens,
                 .deadline = s.deadline < 0 ? time_point::max() : now() + duration{s.deadline}};
    c->who = s.who;
    c->used = s.tokens;
    ++verdict_.acquires;
    return *c;
  }

  void ask(const share_step& s, canigo::limiter& l, model& m) {
    caller& c = make_caller(s);
    auto handler = net::bind_cancellation_slot(c.signal.slot(), [this, id = s.id](std::error_code ec, permit p) {
      if (is_over_) return;
      caller& told = *callers_.at(id);
      if (std::exchange(told.has_ended, true)) fail("#" + std::to_string(id) + " ends twice");
      told.held = std::move(p);
      reports_.push_back({id, end_of(ec), contexts_[told.who % 2]->now()});
    });
    if (s.what == share_deed::acquire_own) {
      l.async_acquire(c.wanted, net::bind_executor(net::make_strand(l.get_executor()), std::move(handler)));
    } else {
      l.async_acquire(c.wanted, std::move(handler));
    }
    m.acquire(s.id, c.wanted);
  }

  void try_at_once(const share_step& s, canigo::limiter& l, model& m) {
    caller& c = make_caller(s);
    c.has_ended = true;
    try {
      if (auto p = l.try_acquire(c.wanted)) c.held = std::move(*p);
    } catch (const std::system_error&) {
    }
    if (m.try_acquire(c.wanted) != static_cast<bool>(c.held)) fail("try_acquire says the contrary");
  }

  caller* find(int id) {
    const auto found = callers_.find(id);
    return found == callers_.end() ? nullptr : found->second.get();
  }
  void cancel(int id) {
    caller* c = find(id);
    if (c == nullptr || c->has_ended) return;
    c->signal.emit(net::cancellation_type::total);
    model_.at(c->who).cancel(id);
  }
  void release(int id) {
    caller* c = find(id);
    if (c == nullptr || !c->held) return;
    c->held.release();
    model_.at(c->who).release(1);
  }
  void settle(int id, std::uint64_t used) {
    caller* c = find(id);
    if (c == nullptr || !c->held || !limiters_[c->who]) return;
    c->held.settle(used);
    model& m = model_.at(c->who);
    if (used > c->used) {
      m.charge(used - c->used);
      model_.serve();
    } else {
      m.refund(c->used - used);
    }
    c->used = used;
  }

  /// What the callers were told, now that the model has come as far.
  void judge() {
    for (const report& r : reports_) {
      const auto& expected = model_.at(callers_.at(r.id)->who).fates().at(r.id);
      note(static_cast<std::uint64_t>(r.id) << 8 | static_cast<std::uint64_t>(r.how));
      note(static_cast<std::uint64_t>(r.when.time_since_epoch().count()));
      if (r.how == expected.how && (r.when == expected.when || expected.how == end::waiting)) continue;
      fail("#" + std::to_string(r.id) + " ends as " + name_of(r.how) + " at " +
           canigo::to_string(r.when.time_since_epoch()) + ", not as " + name_of(expected.how) + " at " +
           canigo::to_string(expected.when.time_since_epoch()));
    }
    reports_.clear();
  }

  void compare() {
    if (!verdict_.is_good) return;
    const auto is = [this](std::uint64_t here, std::uint64_t expected, const char* what, std::size_t i) {
      if (here == expected) return;
      fail(std::string{what} + " of limiter " + std::to_string(i) + ": " + std::to_string(here) + ", not " +
           std::to_string(expected) + ", at " + canigo::to_string(contexts_[0]->elapsed()));
    };
    if (cap_.held() != model_.held()) {
      fail("held of all: " + std::to_string(cap_.held()) + ", not " + std::to_string(model_.held()));
    }
    if (model_.wastes_a_place()) fail("somebody waits beside a free place");
    for (std::size_t i = 0; i < limiters_.size(); ++i) {
      if (!limiters_[i]) continue;
      const model& m = model_.at(i);
      const canigo::limiter_stats s = limiters_[i]->stats();
      is(s.waiting, m.waiting(), "waiting", i);
      is(s.granted, m.count(end::granted), "granted", i);
      is(s.cancelled, m.count(end::cancelled), "cancelled", i);
      is(s.timed_out, m.count(end::timed_out), "timed out", i);
      is(s.evicted, m.count(end::evicted), "evicted", i);
      is(s.stopped, m.count(end::stopped), "stopped", i);
      is(s.held, m.held(), "held", i);
      const std::vector<std::int64_t> tokens = m.tokens();
      for (std::size_t k = 0; k < tokens.size(); ++k) {
        is(static_cast<std::uint64_t>(s.tokens[k]), static_cast<std::uint64_t>(tokens[k]), "tokens", i);
      }
    }
  }

  /// All that wait are let in, one after the other; then one context goes with those that wait there, or are about to
  /// be told.
  void finish() {
    if (!plan_.is_abandoned) {
      pass_until(now() + duration{plan_.token * 20});
      for (auto& [id, c] : callers_) {
        release(id);
        pass_until(now() + duration{plan_.token});
        compare();
      }
    }
    if (!verdict_.is_good) return;
    contexts_[1].reset();
    contexts_[0]->poll();
    std::uint64_t held = 0;
    for (auto& [id, c] : callers_) held += c->held.held();
    if (cap_.held() != held) fail("what went with a context still holds places");
    const auto& first = limiters_[0];
    if (first && cap_.held() < cap_.permits() && first->why_waiting().binds == canigo::wait_reason::cause::share) {
      fail("somebody waits beside what came free with a context");
    }
    for (auto& l : limiters_) l.reset();
    contexts_[0]->run();
    callers_.clear();
    if (cap_.held() != 0) fail("places are lost");
    reports_.clear();
  }

  const share_plan& plan_;
  verdict verdict_;
  bool is_over_ = false;
  std::map<int, std::unique_ptr<caller>> callers_;
  std::vector<report> reports_;
  canigo::shared_cap cap_;
  shared_model model_;
  std::optional<context> contexts_[2];
  std::vector<std::uint64_t> granted_;
  std::vector<std::unique_ptr<canigo::limiter>> limiters_;
};

}  // namespace

verdict play(const share_plan& p) { return share_world{p}.play(); }

}  // namespace simulated
