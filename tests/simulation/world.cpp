#include "world.hpp"

#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/permit.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "context.hpp"
#include "end_of.hpp"
#include "limited.hpp"
#include "shortage.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace simulated {

namespace net = canigo::net;
using canigo::errc;
using canigo::permit;

namespace {

canigo::rate rate_of(std::int64_t token) { return canigo::rate{1, duration{token}}; }

bool has_units(const options& o) {
  return std::any_of(o.rates.begin(), o.rates.end(), [](const bucket& b) { return b.unit != 0; });
}

canigo::rate_limit limit_of(const bucket& b, bool has_units) {
  canigo::rate_limit l{rate_of(b.token), static_cast<std::uint64_t>(b.burst),
                       static_cast<std::uint64_t>(b.available())};
  if (has_units) l.unit = "unit " + std::to_string(b.unit);
  return l;
}

canigo::enforcement mode_of(const plan& p) {
  return p.is_shadow ? canigo::enforcement::shadow : canigo::enforcement::enforce;
}

/// What a request can have wrong whatever the mode.
bool is_wrong(end how) { return how == end::invalid_priority || how == end::invalid_argument || how == end::stopped; }

/// Scheduler, semaphore or limiter, spoken to alike.
class engine {
 public:
  engine(context& world, const plan& p) {
    const options& o = p.rules;
    const auto executor = world.get_executor();
    std::vector<canigo::rate_limit> rates;
    for (const bucket& b : o.rates) rates.push_back(limit_of(b, has_units(o)));
    switch (p.about) {
      case subject::scheduler:
        scheduler_.emplace(executor, canigo::scheduler_options{.rate = rates[0].rate,
                                                               .burst = rates[0].burst,
                                                               .initial_tokens = rates[0].initial_tokens,
                                                               .priorities = o.priorities,
                                                               .queue_limit = o.queue_limit,
                                                               .on_overflow = o.on_overflow,
                                                               .ageing = o.ageing,
                                                               .shedding = o.shedding,
                                                               .mode = mode_of(p)});
        break;
      case subject::semaphore:
        semaphore_.emplace(executor, canigo::semaphore_options{.permits = *o.places,
                                                               .priorities = o.priorities,
                                                               .queue_limit = o.queue_limit,
                                                               .on_overflow = o.on_overflow,
                                                               .ageing = o.ageing,
                                                               .shedding = o.shedding,
                                                               .mode = mode_of(p)});
        break;
      case subject::limiter:
        limiter_.emplace(executor, canigo::limiter_options{.rates = rates,
                                                           .concurrency = *o.places,
                                                           .priorities = o.priorities,
                                                           .queue_limit = o.queue_limit,
                                                           .on_overflow = o.on_overflow,
                                                           .ageing = o.ageing,
                                                           .shedding = o.shedding,
                                                           .mode = mode_of(p)});
        break;
    }
  }

  template <class Token>
  void acquire(const request& r, Token token) {
    if (scheduler_) scheduler_->async_acquire(r, std::move(token));
    if (semaphore_) semaphore_->async_acquire(r, std::move(token));
    if (limiter_) limiter_->async_acquire(r, std::move(token));
  }

  net::awaitable<permit> acquire(request r) {
    if (semaphore_) co_return co_await semaphore_->acquire(r);
    if (limiter_) co_return co_await limiter_->acquire(r);
    co_await scheduler_->acquire(r);
    co_return permit{};
  }

  net::awaitable<void> run(net::awaitable<void> op, request r) {
    if (semaphore_) return run_inside(std::move(op), *semaphore_, r);
    if (limiter_) return run_inside(std::move(op), *limiter_, r);
    return run_inside(std::move(op), *scheduler_, r);
  }

  /// Whether it was granted, and with what.
  std::pair<bool, permit> try_acquire(const request& r) {
    try {
      if (scheduler_) return {scheduler_->try_acquire(r), permit{}};
      auto p = semaphore_ ? semaphore_->try_acquire(r) : limiter_->try_acquire(r);
      if (p) return {true, std::move(*p)};
    } catch (const std::system_error&) {
    }
    return {false, permit{}};
  }

  void set_token(std::size_t rate, std::int64_t ns) {
    if (scheduler_) scheduler_->set_rate(rate_of(ns));
    if (limiter_) limiter_->set_rate(rate, rate_of(ns));
  }
  void set_burst(std::size_t rate, std::uint64_t n) {
    if (scheduler_) scheduler_->set_burst(n);
    if (limiter_) limiter_->set_burst(rate, n);
  }
  void set_places(std::uint64_t n) {
    if (semaphore_) semaphore_->resize(n);
    if (limiter_) limiter_->set_concurrency(n);
  }
  void refund(std::uint64_t n) { scheduler_->refund(n); }
  void charge(std::uint64_t n) { scheduler_->charge(n); }
  template <class Function>
  void with_any(Function f) {
    if (scheduler_) f(*scheduler_);
    if (semaphore_) f(*semaphore_);
    if (limiter_) f(*limiter_);
  }

  std::unique_ptr<canigo::flow> make_flow(const flow_terms& t) {
    canigo::flow_options o{.weight = t.weight, .queue_limit = t.queue_limit};
    if (t.places) o.concurrency = *t.places;
    if (t.rate) o.rates.push_back(limit_of(*t.rate, t.rate->unit != 0));
    std::unique_ptr<canigo::flow> made;
    with_any([&](auto& e) { made = std::make_unique<canigo::flow>(e, o); });
    return made;
  }

  canigo::queue_stats stats(std::vector<std::int64_t>& tokens, std::uint64_t& held,
                            canigo::shadow_stats* shadow = nullptr) const {
    if (scheduler_) {
      auto s = scheduler_->stats();
      tokens = {s.tokens};
      if (shadow != nullptr) *shadow = s.shadow;
      return s;
    }
    if (semaphore_) {
      auto s = semaphore_->stats();
      held = s.held;
      return s;
    }
    auto s = limiter_->stats();
    tokens = s.tokens;
    held = s.held;
    if (shadow != nullptr) *shadow = s.shadow;
    return s;
  }

 private:
  std::optional<canigo::scheduler> scheduler_;
  std::optional<canigo::semaphore> semaphore_;
  std::optional<canigo::limiter> limiter_;
};

class world {
 public:
  explicit world(const plan& p)
      : plan_{p}, context_{std::in_place, p.seed}, model_{p.rules}, engine_{std::in_place, *context_, p} {
    for (const flow_terms& t : p.rules.flows) tenants_.push_back({engine_->make_flow(t), tenants_.size()});
  }
  ~world() {
    is_over_ = true;
    engine_.reset();
    context_.reset();
  }

  verdict play() {
    for (const step& s : plan_.steps) {
      verdict_.step = static_cast<std::size_t>(s.id);
      pass(s);
      act(s);
      if (has_been_short_) recover();
      compare();
      if (!verdict_.is_good) return verdict_;
    }
    finish();
    verdict_.simulated = elapsed_;
    return verdict_;
  }

 private:
  struct caller {
    net::cancellation_signal signal;
    request wanted;
    deed then = deed::acquire;
    int target = 0;
    bool has_begun = false;
    bool has_ended = false;
    bool is_within = false;  // a limit of time, which is:
    time_point until{};
    bool is_cancelled = false;
    bool is_coroutine = false;
    bool is_reached = false;  // by the cancellation, if it is a coroutine
    permit held;
    permit part;  // split off from it
    std::size_t tenant = 0;
    std::size_t flow = 0;  // as the model names it
    amounts used = {};     // of each unit of a limiter that it has settled for
    model::fate in_shadow;
  };

  /// Somebody with a flow. The first has none.
  struct tenant {
    std::unique_ptr<canigo::flow> flow;
    std::size_t in_model = 0;
    std::size_t named() const { return flow != nullptr ? in_model : 0; }
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

  void pass(const step& s) {
    if (s.after < 0) {
      for (std::uint64_t i = 0; i < s.handlers; ++i) context_->step();
      return;
    }
    // Handlers act at the instant at which they run, so the model is taken from instant to instant with the engine.
    const time_point until = context_->now() + duration{s.after};
    pass_until(until);
  }

  void pass_until(time_point t) {
    context_->poll();
    model_.pass_to(context_->now());
    context_->run_until(context_->now());
    for (time_point next = next_of_model(); next < t && verdict_.is_good; next = next_of_model()) {
      model_.pass_to(next);
      context_->run_until(next);
      compare();
    }
    model_.pass_to(t);
    context_->run_until(t);
  }

  /// When something may happen next, in the model or to it.
  time_point next_of_model() {
    instants_.erase(instants_.begin(), instants_.upper_bound(context_->now()));
    const time_point next = model_.next_event();
    return instants_.empty() ? next : std::min(next, *instants_.begin());
  }

  /// What could not be posted for want of memory is posted a millisecond later. Until then nobody does anything else.
  void recover() {
    using namespace std::chrono_literals;
    pass_until(context_->now() + 1ms);
    has_been_short_ = false;
  }

  /// Calls the engine, with little memory if the plan wants that. That never comes out of it as an exception.
  template <class Function>
  void with_engine(const step& s, Function f) {
    bool has_thrown = false;
    {
      const shortage one{s.fails_at};
      try {
        f();
      } catch (const std::bad_alloc&) {
        has_thrown = true;
      }
      has_been_short_ = has_been_short_ || one.has_struck();
    }
    if (has_thrown) fail("bad_alloc comes out of " + describe(s));
  }

  request request_of(const step& s) const {
    request r{.priority = s.priority,
              .tokens = s.tokens,
              .deadline = s.deadline < 0 ? time_point::max() : context_->now() + duration{s.deadline},
              .flow = tenants_[s.flow].flow.get()};
    if (s.others[1] != 0) {
      r.amounts = {{1, s.others[0]}, {2, s.others[1]}};
    } else if (s.others[0] != 0) {
      r.amounts = {{1, s.others[0]}};
    }
    return r;
  }

  void change_flow(const step& s) {
    tenant& t = tenants_[s.flow];
    if (s.flow == 0 || !engine_) return;
    const flow_terms& terms = plan_.rules.flows[s.flow - 1];
    if (s.what == deed::drop_flow) {
      if (t.flow != nullptr) {
        model_.drop_flow(t.in_model);
        with_engine(s, [&] { t.flow.reset(); });
      } else if (may_make(terms)) {
        t = {engine_->make_flow(terms), model_.add_flow(terms)};
      }
    } else if (t.flow == nullptr) {
    } else if (s.what == deed::set_flow_weight) {
      const std::uint32_t weight = flow_weights[static_cast<std::size_t>(s.value)];
      model_.set_flow_weight(t.in_model, weight);
      with_engine(s, [&] { t.flow->set_weight(weight); });
    } else if (s.what == deed::set_flow_rate && terms.rate) {
      const std::int64_t ns = token_times[static_cast<std::size_t>(s.value)];
      model_.set_flow_token(t.in_model, ns);
      with_engine(s, [&] { t.flow->set_rate(0, rate_of(ns)); });
    } else if (s.what == deed::set_flow_places && plan_.about != subject::scheduler) {
      const auto places = s.value == 0 ? std::nullopt : std::optional{static_cast<std::uint64_t>(s.value)};
      model_.set_flow_places(t.in_model, places);
      with_engine(s, [&] { t.flow->set_concurrency(places.value_or(canigo::unlimited)); });
    } else if (s.what == deed::pause_flow) {
      const time_point end = end_of_pause(s);
      model_.pause_flow(t.in_model, end);
      with_engine(s, [&] { t.flow->pause_until(end); });
    } else if (s.what == deed::resume_flow) {
      model_.pause_flow(t.in_model, time_point::min());
      with_engine(s, [&] { t.flow->resume(); });
    }
  }

  time_point end_of_pause(const step& s) const {
    if (s.value == 0) return time_point::max();
    return context_->now() + duration{s.value * plan_.steps.front().value * 1'000'000};
  }

  /// The limit may have less of a burst by now.
  bool may_make(const flow_terms& t) const {
    return !t.rate || plan_.rules.rates.empty() || model_.deepest(t.rate->unit) >= t.rate->burst;
  }

  void act(const step& s) {
    switch (s.what) {
      case deed::acquire:
      case deed::acquire_own:
      case deed::await:
      case deed::await_within:
      case deed::with_limit:
        if (engine_) ask(s);
        break;
      case deed::try_acquire:
        if (engine_) try_at_once(s);
        break;
      case deed::cancel:
        cancel(s.target, s);
        break;
      case deed::refund:
      case deed::charge:
        if (engine_ && plan_.about == subject::scheduler) settle_all(s);
        break;
      case deed::set_rate:
        if (engine_ && s.rate < plan_.rules.rates.size()) {
          const std::int64_t ns = token_times[static_cast<std::size_t>(s.value)];
          model_.set_token(s.rate, ns);
          with_engine(s, [&] { engine_->set_token(s.rate, ns); });
        }
        break;
      case deed::set_burst:
        if (engine_ && s.rate < plan_.rules.rates.size()) {
          model_.set_burst(s.rate, s.value + 1);
          with_engine(s, [&] { engine_->set_burst(s.rate, static_cast<std::uint64_t>(s.value + 1)); });
        }
        break;
      case deed::set_places:
        if (engine_ && plan_.rules.places) {
          model_.set_places(static_cast<std::uint64_t>(s.value + 1));
          with_engine(s, [&] { engine_->set_places(static_cast<std::uint64_t>(s.value + 1)); });
        }
        break;
      case deed::release:
        release(s.target, s);
        break;
      case deed::settle:
        if (engine_) settle(s.target, static_cast<std::uint64_t>(s.value), s);
        break;
      case deed::split:
        split(s.target, static_cast<std::uint64_t>(s.value));
        break;
      case deed::pause: {
        if (!engine_) break;
        const time_point t = end_of_pause(s);
        model_.pause_until(t);
        with_engine(s, [&] { engine_->with_any([&](auto& e) { e.pause_until(t); }); });
        break;
      }
      case deed::resume:
        if (!engine_) break;
        model_.pause_until(time_point::min());
        with_engine(s, [this] { engine_->with_any([](auto& e) { e.resume(); }); });
        break;
      case deed::stop:
        if (!engine_) break;
        model_.stop();
        has_stopped_ = true;
        with_engine(s, [this] { engine_->with_any([](auto& e) { e.stop(); }); });
        break;
      case deed::destroy:
        model_.stop();
        engine_.reset();
        break;
      case deed::set_flow_weight:
      case deed::set_flow_rate:
      case deed::set_flow_places:
      case deed::drop_flow:
      case deed::pause_flow:
      case deed::resume_flow:
        change_flow(s);
        break;
    }
  }

  caller& make_caller(const step& s, const request& r) {
    auto& c = callers_[s.id];
    c = std::make_unique<caller>();
    c->wanted = r;
    c->then = s.then;
    c->target = s.target;
    c->used = wanted_by(r);
    c->tenant = s.flow;
    c->flow = tenants_[s.flow].named();
    ++verdict_.acquires;
    return *c;
  }

  auto handler(int id) {
    return [this, id](std::error_code ec, permit p = {}) { ended(id, ec, std::move(p)); };
  }

  void ask(const step& s) {
    caller& c = make_caller(s, request_of(s));
    const auto spawn = [&](net::awaitable<void> coroutine) {
      c.is_coroutine = true;
      net::co_spawn(context_->get_executor(), std::move(coroutine),
                    net::bind_cancellation_slot(c.signal.slot(), net::detached));
    };
    const duration some{s.value * plan_.steps.front().value * 1'000'000};
    if (s.what == deed::await) return spawn(awaiting(*this, s.id, c.wanted));
    if (s.what == deed::await_within) return spawn(awaiting_within(*this, s.id, c.wanted, some));
    if (s.what == deed::with_limit) return spawn(working(*this, s.id, c.wanted, some));
    c.has_begun = true;
    const auto own = s.what == deed::acquire_own ? net::any_io_executor{net::make_strand(context_->get_executor())}
                                                 : net::any_io_executor{};
    const std::uint64_t asked = requested();
    with_engine(s, [&] {
      const auto slot = c.signal.slot();
      if (own) {
        engine_->acquire(c.wanted, net::bind_cancellation_slot(slot, net::bind_executor(own, handler(s.id))));
      } else {
        engine_->acquire(c.wanted, net::bind_cancellation_slot(slot, handler(s.id)));
      }
    });
    // Nobody has been told yet, whatever became of it.
    if (has_been_short_ && requested() == asked) {
      model_.lack_memory(s.id);
    } else {
      model_.acquire(s.id, c.wanted, c.flow);
      go_in_shadow(s.id);
    }
  }

  /// In shadow mode the model alone makes one wait that has asked just now.
  void go_in_shadow(int id) {
    if (!plan_.is_shadow) return;
    caller& c = *callers_.at(id);
    const model::fate& there = model_.fates().at(id);
    c.in_shadow = is_wrong(there.how) ? there : model::fate{end::granted, context_->now()};
    count_in_shadow(c.in_shadow.how == end::granted, c.flow);
  }

  void count_in_shadow(bool has_gone, std::size_t flow) {
    if (has_gone) ++gone_, ++gone_of_flow_[flow];
  }

  std::uint64_t requested() const {
    std::vector<std::int64_t> tokens;
    std::uint64_t held = 0;
    return engine_->stats(tokens, held).requested;
  }

  /// A coroutine is about to ask the engine, between which and this nothing else runs; or there is nobody to ask.
  bool begins(int id, request& r) {
    caller& c = *callers_.at(id);
    (engine_ ? c.has_begun : c.has_ended) = true;
    r.flow = tenants_[c.tenant].flow.get();
    c.flow = tenants_[c.tenant].named();
    if (engine_) {
      model_.acquire(id, r, c.flow);
      go_in_shadow(id);
    }
    return c.has_begun;
  }

  /// A filter of cancellations that tells the model of one when the operation is told. Asio may bring it to a coroutine
  /// later than emit() (docs/decisions/0071).
  auto seen(int id) {
    return [this, id](net::cancellation_type type) {
      if (!is_over_ && callers_.at(id)->has_begun) {
        const plenty here;
        callers_.at(id)->is_reached = true;
        model_.cancel(id);
      }
      return type;
    };
  }

  static net::awaitable<void> awaiting(world& w, int id, request r) {
    co_await net::this_coro::reset_cancellation_state(w.seen(id), net::enable_total_cancellation());
    if (!w.begins(id, r)) co_return;
    std::error_code ec;
    permit p;
    try {
      p = co_await w.engine_->acquire(r);
    } catch (const std::system_error& e) {
      ec = e.code();
    }
    w.ended(id, ec, std::move(p));
  }

  /// Its strand is where it is cancelled, so the model hears of that there and then.
  static net::awaitable<permit> acquire_seen(world& w, int id, request r) {
    co_await net::this_coro::reset_cancellation_state(w.seen(id), net::enable_total_cancellation());
    if (!w.begins(id, r)) throw std::system_error{errc::stopped};
    co_return co_await w.engine_->acquire(r);
  }

  static net::awaitable<void> awaiting_within(world& w, int id, request r, duration d) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    w.callers_.at(id)->is_within = true;
    w.callers_.at(id)->until = w.context_->now() + d;
    w.instants_.insert(w.context_->now() + d);
    std::error_code ec;
    permit p;
    try {
      p = co_await canigo::with_timeout(acquire_seen(w, id, r), d);
    } catch (const std::system_error& e) {
      ec = e.code();
    }
    if (w.callers_.at(id)->has_begun) {
      w.ended(id, ec, std::move(p));
    } else {
      w.callers_.at(id)->has_ended = true;
    }
  }

  static net::awaitable<void> work(world& w, int id, request r, duration lasts) {
    w.ended(id, {}, permit{});
    w.instants_.insert(w.context_->now() + lasts);
    co_await canigo::sleep_for(lasts);
    // From here to the engine nothing else runs.
    w.leave(id, r);
  }

  void leave(int id, const request& r) {
    const std::size_t flow = callers_.at(id)->flow;
    if (plan_.about == subject::semaphore) model_.release(r.tokens, flow);
    if (plan_.about == subject::limiter) model_.release(1, flow);
  }

  static net::awaitable<void> working(world& w, int id, request r, duration lasts) {
    co_await net::this_coro::reset_cancellation_state(w.seen(id), net::enable_total_cancellation());
    if (!w.begins(id, r)) co_return;
    std::error_code ec;
    try {
      co_await w.engine_->run(work(w, id, r, lasts), r);
    } catch (const std::system_error& e) {
      ec = e.code();
    }
    if (!ec) co_return;
    caller& c = *w.callers_.at(id);
    if (c.is_cancelled && ec == net::error::operation_aborted && w.model_.fates().at(id).how == end::granted) {
      // It was let in, and cancelled before it could begin.
      c.has_ended = true;
      w.leave(id, r);
    } else {
      w.ended(id, ec, permit{});
    }
  }

  void try_at_once(const step& s) {
    caller& c = make_caller(s, request_of(s));
    c.has_begun = c.has_ended = true;
    const bool there = model_.try_acquire(c.wanted, c.flow);
    const bool is_right = c.wanted.priority >= 0 && c.wanted.priority < plan_.rules.priorities && c.wanted.tokens > 0;
    const bool expected = plan_.is_shadow ? is_right && !has_stopped_ : there;
    if (plan_.is_shadow) {
      count_in_shadow(expected, c.flow);
      if (!there && expected) ++refused_at_once_;
    }
    auto [granted, p] = engine_->try_acquire(c.wanted);
    if (granted != expected) fail("try_acquire says " + std::to_string(granted));
    c.held = std::move(p);
    note(granted ? 1 : 2);
  }

  void cancel(int id, const step& s = {}) {
    const auto found = callers_.find(id);
    if (found == callers_.end() || !found->second->has_begun || found->second->has_ended) return;
    caller& c = *found->second;
    c.is_cancelled = true;
    if (!c.is_coroutine) model_.cancel(id);
    with_engine(s, [&] {
      try {
        c.signal.emit(net::cancellation_type::total);
      } catch (const std::bad_alloc&) {
        if (!c.is_coroutine || c.is_reached) throw;  // else Asio could not hand it on
      }
    });
  }

  void settle_all(const step& s) {
    const auto n = static_cast<std::uint64_t>(s.value);
    if (s.what == deed::refund) {
      model_.refund(n);
      with_engine(s, [&] { engine_->refund(n); });
    } else {
      model_.charge(n);
      with_engine(s, [&] { engine_->charge(n); });
    }
  }

  void settle(int id, std::uint64_t used, const step& s) {
    const auto found = callers_.find(id);
    if (found == callers_.end() || !found->second->held || plan_.about != subject::limiter) return;
    caller& c = *found->second;
    std::uint64_t& was = c.used[s.unit];
    if (used != was) model_.settle(was, used, c.flow, s.unit);
    was = used;
    with_engine(s, [&] { s.unit == 0 ? c.held.settle(used) : c.held.settle(s.unit, used); });
  }

  void split(int id, std::uint64_t places) {
    const auto found = callers_.find(id);
    if (found == callers_.end() || !found->second->held || found->second->part) return;
    caller& c = *found->second;
    const std::uint64_t before = c.held.held();
    c.part = c.held.split(1 + places % before);
    if (c.held.held() + c.part.held() != before) fail("a permit is not what its parts are");
  }

  void release(int id, const step& s = {}) {
    const auto found = callers_.find(id);
    if (found == callers_.end()) return;
    permit p = std::move(found->second->held ? found->second->held : found->second->part);
    if (!p) return;
    if (!plan_.is_shadow) model_.release(p.held(), found->second->flow);
    with_engine(s, [&] { p.release(); });
  }

  void ended(int id, std::error_code ec, permit p) {
    if (is_over_) return;
    caller& c = *callers_.at(id);
    const auto& expected = plan_.is_shadow ? c.in_shadow : model_.fates().at(id);
    end how = end_of(ec);
    if (c.is_within && expected.how == end::cancelled) {
      if (how == end::cancelled && !c.is_cancelled) fail("#" + std::to_string(id) + " ends as cancelled by nobody");
      if (how == end::timed_out) how = end::cancelled;
    }
    if (c.is_within && context_->now() > c.until) fail("#" + std::to_string(id) + " ends after its time");
    note(static_cast<std::uint64_t>(id) << 8 | static_cast<std::uint64_t>(how));
    note(static_cast<std::uint64_t>(context_->elapsed().count()));
    const std::string who = "#" + std::to_string(id) + " ";
    if (c.has_ended) fail(who + "ends twice");
    if (how != expected.how) {
      fail(who + "ends as " + name_of(how) + " at " + canigo::to_string(context_->elapsed()) + ", not as " +
           name_of(expected.how));
    } else if (has_been_short_ ? context_->now() < expected.when : context_->now() != expected.when) {
      fail(who + name_of(how) + " at " + canigo::to_string(context_->elapsed()) + ", not at " +
           canigo::to_string(expected.when.time_since_epoch()));
    }
    c.has_ended = true;
    c.held = std::move(p);
    if (how == end::granted) grants_.emplace_back(context_->now(), c.wanted.tokens);
    if (has_been_short_) return;
    if (c.then == deed::refund && how == end::granted && engine_ && plan_.about == subject::scheduler) {
      model_.refund(1);
      engine_->refund(1);
    } else if (c.then == deed::cancel) {
      cancel(c.target);
    } else if (c.then == deed::release) {
      release(id);
    }
  }

  void compare() {
    if (!verdict_.is_good) return;
    const auto is = [this](std::uint64_t here, std::uint64_t expected, const char* what) {
      if (here != expected) {
        fail(std::string{what} + ": " + std::to_string(here) + ", not " + std::to_string(expected) + ", at " +
             canigo::to_string(context_->elapsed()));
      }
    };
    if (!engine_) return;
    if (plan_.is_shadow) return compare_in_shadow();
    const std::vector<std::int64_t> expected_tokens = model_.tokens();
    std::vector<std::int64_t> tokens = expected_tokens;
    std::uint64_t held = model_.held();
    const auto s = engine_->stats(tokens, held);
    is(s.waiting, model_.waiting(), "waiting");
    is(s.granted, model_.count(end::granted), "granted");
    is(s.cancelled, model_.count(end::cancelled), "cancelled");
    is(s.timed_out, model_.count(end::timed_out), "timed out");
    is(s.evicted, model_.count(end::evicted), "evicted");
    is(s.stopped, model_.count(end::stopped), "stopped");
    is(s.shed, model_.count(end::shed), "shed");
    is(held, model_.held(), "held");
    for (std::size_t i = 0; i < expected_tokens.size(); ++i) {
      is(static_cast<std::uint64_t>(tokens.at(i)), static_cast<std::uint64_t>(expected_tokens[i]), "tokens");
    }
    for (const tenant& t : tenants_) {
      if (t.flow == nullptr) continue;
      const auto here = t.flow->stats();
      const auto there = model_.counts_of(t.in_model);
      is(here.waiting, there.waiting, "waiting of a flow");
      is(here.granted, there.granted, "granted to a flow");
      is(here.held, plan_.about == subject::scheduler ? 0 : there.held, "held by a flow");
      if (!plan_.is_short) is(here.failed, there.failed, "failed of a flow");
      for (const std::int64_t n : here.available) {
        is(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(there.tokens), "tokens of a flow");
      }
    }
    is(s.requested, s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped + s.shed,
       "requested");
  }

  /// What the limit counts is what the model has done.
  void compare_in_shadow() {
    const auto is = [this](std::uint64_t here, std::uint64_t expected, const char* what) {
      if (here != expected) fail(std::string{what} + ": " + std::to_string(here) + ", not " + std::to_string(expected));
    };
    const std::vector<std::int64_t> expected_tokens = model_.tokens();
    std::vector<std::int64_t> tokens = expected_tokens;
    std::uint64_t held = 0;
    canigo::shadow_stats shadow;
    const auto s = engine_->stats(tokens, held, &shadow);
    is(s.waiting, 0, "waiting in shadow mode");
    is(s.granted, gone_, "gone in shadow mode");
    is(shadow.waited, model_.waited(), "would have waited");
    is(static_cast<std::uint64_t>(shadow.wait.max().count()), static_cast<std::uint64_t>(model_.longest_wait().count()),
       "longest wait in shadow mode");
    is(shadow.shed, model_.count(end::shed), "would have been shed");
    std::uint64_t refused = refused_at_once_;
    for (const end e : {end::unreachable, end::queue_full, end::evicted, end::too_large}) refused += in_queue(e);
    is(shadow.refused, refused, "would have been refused");
    for (std::size_t i = 0; i < expected_tokens.size(); ++i) {
      is(static_cast<std::uint64_t>(tokens.at(i)), static_cast<std::uint64_t>(expected_tokens[i]), "tokens");
    }
    for (const tenant& t : tenants_) {
      if (t.flow == nullptr) continue;
      const auto here = t.flow->stats();
      is(here.waiting, 0, "waiting of a flow in shadow mode");
      is(here.granted, gone_of_flow_[t.in_model], "gone of a flow");
      for (const std::int64_t n : here.available) {
        is(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(model_.counts_of(t.in_model).tokens),
           "tokens of a flow");
      }
    }
  }

  /// Of those that asked to wait, how many ended so.
  std::uint64_t in_queue(end e) const {
    std::uint64_t n = 0;
    for (const auto& [id, fate] : model_.fates()) n += fate.how == e;
    return n;
  }

  void finish() {
    std::int64_t slowest = 50'000;
    for (const bucket& b : plan_.rules.rates) slowest = std::max(slowest, b.token);
    pass_until(context_->now() + duration{slowest * 20});
    compare();
    check_windows();
    if (plan_.is_abandoned) {
      elapsed_ = context_->elapsed();
      return;
    }
    model_.stop();
    if (engine_) engine_->with_any([](auto& e) { e.stop(); });
    context_->run();
    model_.pass_to(context_->now());  // some were still at work
    compare();
    for (auto& [id, c] : callers_) {
      if (c->has_begun && !c->has_ended) fail("#" + std::to_string(id) + " never ends");
      release(id);
      release(id);  // what was split off
    }
    compare();
    if (model_.held() != 0 && !plan_.is_shadow) fail("the model still holds permits");
    std::vector<std::int64_t> tokens;
    std::uint64_t held = 0;
    if (engine_) (void)engine_->stats(tokens, held);
    if (held != 0) fail("the limit still holds permits");
    if (!canigo::time_source::of(context_->get_executor()).idle()) fail("something is left armed");
    elapsed_ = context_->elapsed();
  }

  /// R1, without the model: where nothing but acquires happened, no window holds more than the burst and its tokens.
  void check_windows() {
    if (plan_.is_short || plan_.is_shadow) return;  // some were told late, or too early
    for (const step& s : plan_.steps) {
      if (s.what > deed::cancel || s.what == deed::try_acquire || s.then == deed::refund) return;
    }
    if (has_units(plan_.rules)) return;
    for (const bucket& b : plan_.rules.rates) check_windows_of(b);
  }

  void check_windows_of(const bucket& b) {
    for (std::size_t from = 0; from < grants_.size(); ++from) {
      std::uint64_t sum = 0;
      for (std::size_t to = from; to < grants_.size(); ++to) {
        sum += grants_[to].second;
        const std::int64_t came = (grants_[to].first - grants_[from].first).count() / b.token;
        if (sum > static_cast<std::uint64_t>(b.burst + came)) fail("a window holds too much");
      }
    }
  }

  const plan& plan_;
  verdict verdict_;
  duration elapsed_{};
  bool is_over_ = false;
  std::map<int, std::unique_ptr<caller>> callers_;
  std::vector<std::pair<time_point, std::uint64_t>> grants_;
  std::multiset<time_point> instants_;  // at which something happens that the model does not know of
  bool has_been_short_ = false;         // of memory, a moment ago
  // In shadow mode: who went, of all and of each flow, and whom try_acquire would have refused.
  std::uint64_t gone_ = 0;
  std::map<std::size_t, std::uint64_t> gone_of_flow_;
  std::uint64_t refused_at_once_ = 0;
  bool has_stopped_ = false;
  std::optional<context> context_;
  model model_;
  std::optional<engine> engine_;
  std::vector<tenant> tenants_ = std::vector<tenant>(1);
};

}  // namespace

verdict play(const plan& p) { return world{p}.play(); }

}  // namespace simulated
