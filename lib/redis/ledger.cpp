// The functions of a limit in Redis that any thread may call, and the completion of its requests.
#include "ledger.hpp"

#include "canigo/detail/admission/admission_counts.hpp"
#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"

#include "awake.hpp"
#include "ledger_change.hpp"
#include "names.hpp"
#include "slots.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;

ledger_options checked(ledger_options o) {
  const std::string type = o.units ? "limiter" : o.permits == 0 ? "scheduler" : "semaphore";
  if (o.name.empty()) throw_invalid(type + ": name", o.name, "a name");
  if (o.priorities < 1 || o.priorities > 256) throw_invalid(type + "_options.priorities", o.priorities, "1 to 256");
  if (o.queue_limit < 1) throw_invalid(type + "_options.queue_limit", o.queue_limit, "1 or more");
  if (o.on_overflow == overflow::wait) {
    throw_invalid(type + "_options.on_overflow", "wait", "reject_new, evict_oldest or evict_least_important");
  }
  if (o.give_up <= duration::zero()) throw_invalid(type + "_options.give_up", o.give_up, "more than 0");
  return o;
}

}  // namespace

void check(const failure_mode& f, std::string_view field) {
  const bool is_share = f.share() > 0 || f.what() != failure_mode::kind::local;
  if (f.share() < 0 || f.share() > 1 || !is_share) {
    throw_invalid(std::string{field} + ": share", f.share(), "more than 0, up to 1");
  }
}

std::shared_ptr<ledger> ledger::open(client& c, ledger_options o) {
  auto* made = new ledger{c, checked(std::move(o))};
  made->join();
  return {made, [](ledger* last) noexcept { last->release_ref(); }};
}

ledger::ledger(client& c, ledger_options o)
    : delivery{c.get_executor()},
      options_{std::move(o)},
      prefix_{"{canigo:" + escaped(options_.space) + ":" + escaped(options_.name) + "}:" + options_.kind + ":"},
      session_{name_of_process() + ":", options_.lease, has_cap()},
      book_{has_cap(), options_.horizon},
      terms_{options_.permits, options_.rates, options_.units, options_.alternatives},
      plan_{plan_options(options_, terms_), std::random_device{}()},
      home_{engine_of(c).shared_from_this()},
      slot_{slot_of(prefix_)},
      engine_{home_->cluster().of(slot_)},
      turn_{executor()},
      alarm_{*time_, [](ledger& l) { l.alarm_called(); }} {
  counts_.classes.resize(static_cast<std::size_t>(options_.priorities));
  for (const alternative_terms& a : options_.alternatives) stats_.alternatives.push_back({.name = a.name});
}

sync_plan::options ledger::plan_options(const ledger_options& o, const terms& t) {
  sync_plan::options made{
      .lease = o.lease, .give_up = o.give_up, .on_failure = o.on_failure, .rates = t.settings().rate_count};
  for (std::size_t i = 0; i < o.alternatives.size(); ++i) {
    const std::size_t first = t.first_rate_of(i);
    made.alternatives.push_back(
        {.first = first, .end = first + o.alternatives[i].rates, .prefer = o.alternatives[i].prefer});
  }
  return made;
}

void ledger::end_with_context() noexcept {
  canigo::detail::suspended_list doomed;
  std::shared_ptr<holding> ended;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = closing_ = true;
    book_.for_each([&](limit_request& r) {
      limit_waiter& w = waiter_of(r);
      std::ignore = time_->cancel(w.deadline_);
      doomed.push(w);
    });
    book_.clear();
    doomed.append(take_all());
    ended = book_.take_ended();
  }
  const auto self = alarm_.disarm();
  {
    // The lock is held, because another thread may be in close() at the same time.
    const std::lock_guard lock{mutex_};
    let_go_of_context();
  }
  // The waiting coroutines are destroyed without the lock, because their frames may own any object, including permits.
  while (auto* s = doomed.pop()) s->destroy();
}

void ledger::start(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  {
    const change c{*this};
    if (!context_gone_) {
      const request& r = w.wanted;
      const time_point now = time_->now();
      if (!w.error_) w.error_ = why_not(r, w.amounts, now);
      if (!w.error_ && has_alternatives()) w.set = terms_.that_fit(r.alternatives, demand_of(w));
      if (!w.error_) plan_.request_came();
      const bool is_full = book_.waiters() >= options_.queue_limit;
      if (!w.error_ && plan_.is_before_retry(now)) w.error_ = plan_.refusal(w.waits);
      // If the limit has alternatives, waiters do not always delay a new request. Only Redis knows whether the waiters
      // want the same alternatives as the request.
      const bool is_behind = book_.has_waiters() && !has_alternatives();
      if (!w.error_ && !w.waits && is_behind) w.error_ = net::error::would_block;
      if (!w.error_ && is_full && !may_evict_for(r)) w.error_ = errc::queue_full;
      if (!w.error_ && !w.waits && plan_.is_late(now)) {
        w.since = now;
        return finish(w, decide(w, now));
      }
      book_.number(w, now);
      if (!w.error_ && is_idle_enough(r, now)) {
        try {
          if (gives_permits()) w.granted_ = hold(w.id, w.amounts, session_.last_token());
          book_.take_idle(r.tokens);
          ++stats_.granted_ahead;
          return finish(w, {});
        } catch (...) {
          w.error_ = errc::not_enough_memory;
        }
      }
      if (!w.error_ && !book_.add(w)) w.error_ = errc::not_enough_memory;
      if (w.error_) return finish(w, w.error_);
      if (is_full) evict();
      return set_deadline(w);
    }
  }
  w.destroy();
}

/// Computes the amount of each unit to request from Redis. Without a rate, a limiter counts only slots. Returns false
/// if the request's amounts are invalid.
bool ledger::resolve(const request& r, amounts_by_unit& amounts) const noexcept {
  amounts = {r.tokens};
  if (options_.units == nullptr) return r.amounts.empty();
  if (!options_.units->resolve(r.tokens, r.amounts, amounts)) return false;
  if (options_.rates.empty()) amounts[0] = 1;
  return true;
}

std::error_code ledger::why_not(const request& r, amounts_by_unit& amounts, time_point now) const noexcept {
  if (r.priority < 0 || r.priority >= options_.priorities) return errc::invalid_priority;
  if (closing_) return errc::stopped;
  if (r.tokens == 0 || r.flow != nullptr || !resolve(r, amounts)) return errc::invalid_argument;
  if (!terms_.fits({amounts[0], &amounts})) return errc::too_large;
  if (has_alternatives()) {
    if ((r.alternatives & terms_.all_alternatives()) == 0) return errc::invalid_argument;
    if (terms_.that_fit(r.alternatives, {amounts[0], &amounts}) == 0) return errc::too_large;
  }
  if (r.deadline < now) return errc::deadline_unreachable;
  return {};
}

/// Whether a full queue evicts a waiter in favour of this request.
bool ledger::may_evict_for(const request& r) const noexcept {
  if (options_.on_overflow == overflow::reject_new) return false;
  return options_.on_overflow == overflow::evict_oldest || book_.least_important().wanted.priority > r.priority;
}

/// Whether this process may grant the request from the unused permits or tokens that it keeps, without a call to Redis.
bool ledger::is_idle_enough(const request& r, time_point now) const noexcept {
  if (!book_.is_idle_enough(r.tokens, now) || now < terms_.paused_until()) return false;
  return !has_cap() || session_.lasts(awake_or_not());
}

bool ledger::try_acquire(const request& r, permit* granted) {
  const std::error_code ec = take_idle(r, granted);
  if (ec == errc::invalid_priority || ec == errc::invalid_argument || ec == errc::too_large) fail(ec, r);
  return !ec;
}

std::error_code ledger::take_idle(const request& r, permit* granted) {
  const change c{*this};
  if (context_gone_) return errc::stopped;
  const time_point now = time_->now();
  amounts_by_unit amounts{};
  if (const auto ec = why_not(r, amounts, now)) return ec;
  if (!is_idle_enough(r, now)) return net::error::would_block;
  if (granted != nullptr) *granted = hold(book_.new_id(), amounts, session_.last_token());
  book_.take_idle(r.tokens);
  ++stats_.granted_ahead;
  count_grant(r.priority, duration::zero());
  return {};
}

void ledger::cancel(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  const change c{*this};
  if (!w.deadline_.has_ended()) end(w, net::error::operation_aborted);
}

void ledger::time_is_up(limit_waiter& w, due why) noexcept {
  if (why == due::shutdown) return;
  const auto keep = w.home_;
  const change c{*this};
  if (w.deadline_.rang()) return post_kept(w);
  const time_point now = time_->now();
  // If Redis has answered since the timer was set, the waiter's deadline may be later now.
  if (now < plan_.end_of(w)) return set_deadline(w);
  if (!plan_.is_closed() && !std::exchange(w.has_looked, true)) {
    const bool is_away = plan_.is_away(now, engine_->has_trouble());
    const std::error_code ec = is_away ? decide(w, now) : net::error::would_block;
    return ec ? set_deadline(w) : end(w, {});
  }
  end(w, plan_.is_failing() || !book_.has_heard_of(w) ? errc::store_unavailable : errc::timed_out);
}

void ledger::close() noexcept {
  const change c{*this};
  closing_ = true;
  give_back_idle();
  if (!context_gone_) finish_all(errc::stopped);
}

bool ledger::release(holding& h) noexcept {
  const change c{*this};
  if (!book_.release(h)) return false;
  if (!has_cap()) return true;
  // A released permit stays in this process for its next caller, unless another process is known to wait for a permit.
  const bool is_asked_for = stats_.waiting_of_all != 0 || stats_.held_by_all > terms_.settings().permits;
  if (may_keep_idle() && !is_asked_for && !book_.has_waiters()) {
    book_.put_idle(h.weight, time_->now(), terms_.settings().rates[0]);
  } else {
    book_.must_tell();
  }
  return true;
}

bool ledger::lease_lasts() const noexcept {
  const std::lock_guard lock{mutex_};
  return !has_cap() || session_.lasts(awake_or_not());
}

permit ledger::hold(std::uint64_t id, const amounts_by_unit& amounts, std::uint64_t token, std::size_t alternative) {
  auto h = book_.hold(shared_from_this(), id, places(amounts), token, alternative);
  h->amounts = amounts;
  h->settles = !options_.rates.empty() && token != 0;
  return permit{std::move(h)};
}

std::size_t ledger::find_unit(unit_key unit) const {
  static const unit_table none{{}, ""};
  const unit_table& units = options_.units != nullptr ? *options_.units : none;
  const std::size_t found = units.find(unit);
  if (found == units.size()) throw_invalid("permit.settle: unit", unit_table::quoted(unit), units.listed(0));
  return found;
}

void ledger::settle(holding& h, std::size_t unit, std::uint64_t used) {
  checked_tokens("permit.settle: used", used, 0);
  const change c{*this};
  if (!h.settles) return;
  const std::uint64_t before = std::exchange(h.amounts[unit], used);
  if (used == before) return;
  const auto more = static_cast<std::int64_t>(used) - static_cast<std::int64_t>(before);
  terms_.charge(unit, more, tell_until());
  if (has_alternatives()) terms_.charge_at(h.alternative, unit, more, tell_until());
}

void ledger::give_back(std::uint64_t tokens) noexcept {
  if (tokens > 0) terms_.charge(0, -static_cast<std::int64_t>(tokens), tell_until());
}

/// Returns the time limit for reporting a change of the limit's settings to Redis, if the change is made now. During an
/// outage of Redis, the change is dropped after this time.
time_point ledger::tell_until() const noexcept {
  return context_gone_ ? time_point::max() : saturating_add(time_->now(), options_.give_up);
}

void ledger::set_permits(std::uint64_t n) {
  const change c{*this};
  terms_.set_permits(n, tell_until());
  give_back_idle();
}

void ledger::rates_changed() noexcept {
  if (!context_gone_) plan_.rates_changed(time_->now(), terms_.settings());
}

void ledger::set_rate(std::size_t index, const canigo::rate& r) {
  const change c{*this};
  terms_.set_rate(index, r, tell_until());
  rates_changed();
}

void ledger::set_burst(std::size_t index, std::uint64_t n) {
  const change c{*this};
  terms_.set_burst(index, n, tell_until());
  rates_changed();
}

void ledger::set_rate_of(std::size_t alternative, std::size_t index, const canigo::rate& r) {
  const change c{*this};
  terms_.set_rate_of(alternative, index, r, tell_until());
  rates_changed();
}

void ledger::set_burst_of(std::size_t alternative, std::size_t index, std::uint64_t n) {
  const change c{*this};
  terms_.set_burst_of(alternative, index, n, tell_until());
  rates_changed();
}

void ledger::set_permits_of(std::size_t alternative, std::uint64_t n) {
  const change c{*this};
  terms_.set_permits_of(alternative, n, tell_until());
}

void ledger::pause_alternative(std::size_t alternative, time_point t, bool may_end) {
  const change c{*this};
  if (context_gone_) return;
  terms_.pause_alternative(alternative, t, may_end, time_->now(), tell_until());
}

void ledger::pause_until(time_point t) {
  const change c{*this};
  if (context_gone_) return;
  terms_.pause_until(t, time_->now(), tell_until());
  if (!has_cap()) give_back_idle();
}

void ledger::charge(std::int64_t tokens) {
  const change c{*this};
  terms_.charge(0, tokens, tell_until());
}

duration ledger::estimate(const request& r) const {
  check(r);
  const std::lock_guard lock{mutex_};
  if (context_gone_) return duration::max();
  const time_point now = time_->now();
  const duration wait = terms_.opens_at(now) - now;
  if (wait == duration::zero() && is_idle_enough(r, now)) return wait;
  amounts_by_unit own{};
  std::ignore = resolve(r, own);
  std::array<double, most_units> tokens{};
  const auto add = [&](const amounts_by_unit& amounts) {
    for (std::size_t unit = 0; unit < most_units; ++unit) {
      if (own[unit] > 0) tokens[unit] += static_cast<double>(amounts[unit]);
    }
  };
  add(own);
  if (!has_alternatives()) {
    book_.for_each([&](const limit_request& w) {
      if (w.wanted.priority <= r.priority) add(w.amounts);
    });
    return std::max(wait, terms_.time_until(tokens, now));
  }
  // Only waiters with the same set of alternatives as this request are counted. Other waiters may be served after this
  // request, or by other alternatives.
  const std::array<double, most_units> alone = tokens;
  const std::uint64_t set = terms_.that_fit(r.alternatives, {own[0], &own});
  book_.for_each([&](const limit_request& w) {
    if (w.wanted.priority <= r.priority && w.set == set) add(w.amounts);
  });
  return std::max({wait, terms_.time_until(tokens, now), terms_.time_until_any(set, alone, tokens, now)});
}

limit_stats ledger::stats() const {
  const std::lock_guard lock{mutex_};
  limit_stats s = stats_;
  static_cast<queue_stats&>(s) = counts_;
  s.waiting = book_.waiters();
  book_.for_each([&](const limit_request& r) { ++s.classes[static_cast<std::size_t>(r.wanted.priority)].waiting; });
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
  s.held = has_cap() ? book_.held() : book_.out();
  s.idle = book_.idle();
  s.paused_until = terms_.paused_until();
  for (std::size_t i = 0; i < s.alternatives.size(); ++i) {
    alternative_state& a = s.alternatives[i];
    a.held = book_.held_at(i);
    const std::uint64_t permits = terms_.settings().alternatives[i].permits;
    if (permits > 0) a.concurrency = permits;
    a.paused_until = terms_.alternative_paused_until(i);
  }
  s.available = !plan_.is_failing();
  s.has_session = session_.is_registered() || plan_.is_under_way();
  if (plan_.is_failing()) {
    s.last_error_code = plan_.cause();
    s.last_error = plan_.cause_text();
  } else if (session_.too_slow() != duration::zero()) {
    s.last_error_code = errc::timed_out;
    s.last_error = why_slow();
  } else {
    s.last_error_code = unheard_;
    s.last_error = unheard_text_;
  }
  return s;
}

void ledger::fail(std::error_code ec, const request& r) const {
  if (ec == errc::invalid_priority || ec == errc::invalid_argument || ec == errc::too_large) check(r);
  std::string text;
  std::shared_ptr<engine> node;
  {
    const std::lock_guard lock{mutex_};
    if (ec == errc::store_unavailable || ec == plan_.cause()) text = plan_.cause_text();
    if (text.empty() && (ec == errc::lease_lost || ec == errc::timed_out)) text = why_slow();
    node = engine_;
  }
  if (text.empty() && ec == errc::store_unavailable) text = node->trouble().second;
  if (text.empty() && ec == errc::store_unavailable) text = node->where() + ": no answer in time";
  if (text.empty()) throw std::system_error{ec};
  // std::system_error appends the message of `ec` to the text. So this message is removed from the end of the text.
  if (const std::string message = ": " + ec.message(); text.ends_with(message)) {
    text.resize(text.size() - message.size());
  }
  throw std::system_error{ec, text};
}

void ledger::check(const request& r) const {
  if (r.priority < 0 || r.priority >= options_.priorities) {
    throw_invalid("request.priority", r.priority, "0 to " + std::to_string(options_.priorities - 1),
                  errc::invalid_priority);
  }
  if (r.tokens == 0) throw_invalid("request.tokens", r.tokens, "1 or more");
  if (r.flow != nullptr) throw_invalid("request.flow", "a flow", "none, because flows share a limit of one process");
  if (options_.units != nullptr) {
    options_.units->check(r.amounts);
    if (options_.rates.empty()) return;  // without a rate, a limiter counts only slots, so token amounts have no effect
  } else if (!r.amounts.empty()) {
    throw_invalid("request.amounts.size()", r.amounts.size(), "0, because this limit has no other unit");
  }
  if (has_alternatives()) check_alternatives(r);
  const std::lock_guard lock{mutex_};
  const auto check_amount = [&](const std::string& field, std::size_t unit, std::uint64_t amount) {
    const std::uint64_t most = terms_.most(unit);
    const char* least = unit == 0 ? "1 to " : "0 to ";
    if (amount > most) throw_invalid(field, amount, least + std::to_string(most), errc::too_large);
  };
  check_amount("request.tokens", 0, r.tokens);
  for (const unit_amount& a : r.amounts) {
    check_amount("request.amounts[" + unit_table::quoted(a.unit) + "]", options_.units->find(a.unit), a.amount);
  }
}

void ledger::check_alternatives(const request& r) const {
  const std::lock_guard lock{mutex_};
  const std::uint64_t set = r.alternatives & terms_.all_alternatives();
  if (set == 0) {
    throw_invalid("request.alternatives", r.alternatives,
                  "a set with an alternative of 0 to " + std::to_string(options_.alternatives.size() - 1));
  }
  amounts_by_unit amounts{};
  if (!resolve(r, amounts) || terms_.that_fit(set, {amounts[0], &amounts}) != 0) return;
  const std::uint64_t most = terms_.most_of(set, 0);
  if (r.tokens > most) throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(most), errc::too_large);
  for (const unit_amount& a : r.amounts) {
    const std::uint64_t here = terms_.most_of(set, options_.units->find(a.unit));
    if (a.amount <= here) continue;
    throw_invalid("request.amounts[" + unit_table::quoted(a.unit) + "]", a.amount, "0 to " + std::to_string(here),
                  errc::too_large);
  }
  throw_invalid("request.tokens", r.tokens, "what one alternative can give together with the amounts", errc::too_large);
}

/// Returns the error text if the connection is too slow for the lease; otherwise an empty text.
std::string ledger::why_slow() const {
  const duration stands = longest_round_trip(options_.lease);
  const duration took = std::max(session_.too_slow(), engine_->shortest_round_trip());
  if (!has_cap() || took <= stands) return {};
  return engine_->where() + ": a round trip takes " + to_string(took) + ", and a lease of " +
         to_string(options_.lease) + " stands " + to_string(stands) + " at most";
}

void ledger::end(limit_waiter& w, std::error_code ec) noexcept {
  book_.take_out(w);
  finish(w, ec);
}

void ledger::finish(limit_waiter& w, std::error_code ec) noexcept {
  w.error_ = ec;
  const bool is_ours = ec.category() == error_category();
  if (!ec) {
    count_grant(w.wanted.priority, time_->now() - w.since);
  } else if (ec == net::error::would_block) {
    // A request that may not wait, and could not be granted immediately, is not counted. It is like a failed
    // try_acquire().
  } else if (ec == net::error::operation_aborted) {
    ++counts_.cancelled;
  } else if (ec == errc::timed_out || ec == errc::store_unavailable) {
    ++counts_.timed_out;
  } else if (ec == errc::stopped) {
    ++counts_.stopped;
  } else if (ec == errc::evicted) {
    ++counts_.evicted;
  } else {
    canigo::detail::count_rejection(counts_, is_ours ? static_cast<errc>(ec.value()) : errc::store_unavailable);
  }
  if (w.deadline_.end(*time_)) post_kept(w);  // otherwise the deadline's function is running, and posts the waiter
}

/// Evicts a waiter of a full queue. The new request is already in the queue.
void ledger::evict() noexcept {
  const bool is_oldest = options_.on_overflow == overflow::evict_oldest;
  end(waiter_of(is_oldest ? book_.oldest() : book_.least_important()), errc::evicted);
}

void ledger::finish_all(errc code) noexcept {
  book_.for_each([&](limit_request& r) { end(waiter_of(r), code); });
}

void ledger::count_grant(int priority, duration waited) noexcept {
  auto& c = counts_.classes[static_cast<std::size_t>(priority)];
  ++counts_.granted;
  ++c.granted;
  c.wait.record(waited);
}

void ledger::tell_later(std::shared_ptr<holding> h) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return;
  book_.tell_again(std::move(h));
  set_alarm(saturating_add(time_->now(), canigo::detail::retry_after));
}

}  // namespace canigo::redis::detail
