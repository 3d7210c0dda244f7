#include "ledger.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"

#include "ledger_change.hpp"
#include "names.hpp"
#include "slots.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <mutex>
#include <random>
#include <tuple>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;

constexpr std::uint64_t exact_in_lua = std::uint64_t{1} << 53;
constexpr std::uint64_t most_tokens = std::uint64_t{1} << 31;

ledger_options checked(ledger_options o) {
  const std::string type = o.rate ? "scheduler" : "semaphore";
  if (o.name.empty()) throw_invalid(type + ": name", o.name, "a name");
  if (o.priorities < 1 || o.priorities > 256) throw_invalid(type + "_options.priorities", o.priorities, "1 to 256");
  if (o.queue_limit < 1) throw_invalid(type + "_options.queue_limit", o.queue_limit, "1 or more");
  if (o.give_up <= duration::zero()) throw_invalid(type + "_options.give_up", o.give_up, "more than 0");
  return o;
}

}  // namespace

std::shared_ptr<ledger> ledger::open(client& c, ledger_options o) {
  auto* made = new ledger{c, checked(std::move(o))};
  made->join();
  return {made, [](ledger* last) noexcept { last->release_ref(); }};
}

ledger::ledger(client& c, ledger_options o)
    : counted_member{c.get_executor()},
      options_{std::move(o)},
      prefix_{"{canigo:" + escaped(options_.space) + ":" + escaped(options_.name) + "}:" + options_.kind + ":"},
      home_{engine_of(c).shared_from_this()},
      slot_{slot_of(prefix_)},
      engine_{home_->cluster().of(slot_)},
      executor_{c.get_executor()},
      session_base_{name_of_process() + ":"},
      random_{std::random_device{}()},
      local_{options_.rate.value_or(canigo::rate::per_second(1)), 1, 0, time_->now()},
      alarm_{*this} {
  counts_.classes.resize(static_cast<std::size_t>(options_.priorities));
  settings_.permits = options_.permits;
  settings_.burst = options_.burst;
  if (options_.rate) std::tie(settings_.tokens, settings_.period) = in_micros(*options_.rate, options_.burst);
  session_.reserve(session_base_.size() + 20);
  begin_session();
}

/// Redis' clock counts microseconds.
ledger::micro_rate ledger::in_micros(const canigo::rate& r, std::uint64_t burst) {
  const auto least = r.reduced();
  auto tokens = static_cast<std::uint64_t>(least.tokens());
  auto period = static_cast<std::uint64_t>(least.period().count());
  if (period % 1000 == 0) {
    period /= 1000;
  } else {
    tokens *= 1000;
  }
  if (burst > most_tokens || burst * std::max(tokens, period / tokens + 1) >= exact_in_lua) {
    throw_invalid("scheduler_options.burst", burst, "less, at this rate: burst times period below 2^53 us");
  }
  return {tokens, period};
}

// A strand's would reach for its context when this goes.
void ledger::let_go_of_context() noexcept { executor_ = {}; }

ledger::alarm::alarm(ledger& l) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) static_cast<alarm&>(d).owner->alarm_called();
      }},
      owner{&l} {}

void ledger::end_with_context() noexcept {
  canigo::detail::suspended_list doomed;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = closing_ = true;
    for (const auto& [place, w] : waiting_) {
      time_->cancel(w->limit_);
      doomed.push(*w);
    }
    waiting_.clear();
    by_id_.clear();
    fresh_.clear();
    asked_.clear();
    ended_.reset();
  }
  time_->cancel(alarm_);
  self_.reset();
  let_go_of_context();
  // Their frames may hold anything, permits too.
  while (auto* s = doomed.pop()) s->destroy();
}

// ---- callers --------------------------------------------------------------------------------------------------------

void ledger::start(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  {
    const change c{*this};
    if (!context_gone_) {
      const request& r = w.wanted_;
      const time_point now = time_->now();
      if (!w.error_) w.error_ = why_not(r, now);
      if (!w.error_ && is_failing_ && !is_closed_without()) is_wanted_ = true;
      if (!w.error_ && waiting_.size() >= options_.queue_limit) w.error_ = errc::queue_full;
      if (!w.error_ && now < retry_at_) w.error_ = refusal(w);
      if (!w.error_ && !w.waits_ && !waiting_.empty()) w.error_ = net::error::would_block;
      if (!w.error_ && !w.waits_ && is_late(now)) {
        w.since_ = now;
        return finish(w, decide_without_redis(w, now));
      }
      w.since_ = now;
      w.id_ = next_id_++;
      w.arrival_ = next_arrival_++;
      if (!w.error_ && is_idle_enough(r, now)) {
        try {
          if (!options_.rate) w.granted_ = hold(w.id_, r.tokens, last_token_);
          idle_ -= r.tokens;
          ++stats_.granted_ahead;
          return finish(w, {});
        } catch (...) {
          w.error_ = errc::not_enough_memory;
        }
      }
      if (!w.error_) {
        try {
          // So that nothing can fail when it leaves.
          make_room(cancels_, cancels_.size() + waiting_.size() + 1);
          make_room(acknowledged_, acknowledged_.size() + waiting_.size() + 1);
          const order place{r.priority, w.arrival_};
          waiting_.emplace(place, &w);
          by_id_.emplace(w.id_, &w);
          fresh_.insert(place);
        } catch (...) {
          waiting_.erase({r.priority, w.arrival_});
          by_id_.erase(w.id_);
          w.error_ = errc::not_enough_memory;
        }
      }
      if (w.error_) return finish(w, w.error_);
      return limit(w);
    }
  }
  w.destroy();
}

std::error_code ledger::why_not(const request& r, time_point now) const noexcept {
  if (r.priority < 0 || r.priority >= options_.priorities) return errc::invalid_priority;
  if (closing_) return errc::stopped;
  if (r.tokens == 0) return errc::invalid_argument;
  if (r.tokens > most()) return errc::too_large;
  if (r.deadline < now) return errc::deadline_unreachable;
  return {};
}

void ledger::cancel(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  const change c{*this};
  if (w.ended_) return;
  take_out(w);
  finish(w, net::error::operation_aborted);
}

void ledger::limit_called(limit_waiter& w, due why) noexcept {
  if (why == due::shutdown) {
    // Nobody else knows one that has ended and could not be delivered.
    if (w.ended_) w.destroy();
    return;
  }
  const auto keep = w.home_;
  const change c{*this};
  w.limit_armed_ = false;
  if (w.ended_) return ready_.push(w);
  const time_point now = time_->now();
  if (now < end_of(w)) return limit(w);  // it was to give up, and Redis has answered since
  if (!is_closed_without() && !std::exchange(w.has_looked_, true)) {
    const std::error_code ec = is_away(now) ? decide_without_redis(w, now) : net::error::would_block;
    if (ec) return limit(w);
    take_out(w);
    return finish(w, {});
  }
  take_out(w);
  finish(w, is_failing_ || w.arrival_ >= heard_before_ ? errc::store_unavailable : errc::timed_out);
}

bool ledger::release(holding& h) noexcept {
  const change c{*this};
  if (h.now != holding::state::held) return false;
  h.now = holding::state::released;
  const auto found = holdings_.find(h.id);
  h.next_to_tell = std::exchange(ended_, found->second.lock());
  holdings_.erase(found);
  held_ -= h.weight;
  // Nobody else waits for it, as far as is known here: the next caller here may.
  const bool is_asked_for = stats_.waiting_of_all != 0 || stats_.held_by_all > settings_.permits;
  if (options_.horizon > duration::zero() && !is_asked_for && waiting_.empty() && !closing_) {
    put_idle(h.weight, time_->now());
  } else {
    must_tell_ = true;
  }
  return true;
}

bool ledger::lease_lasts() const noexcept {
  const std::lock_guard lock{mutex_};
  return awake_or_not() < lease_until_;
}

void ledger::close() noexcept {
  const change c{*this};
  closing_ = true;
  give_back_idle();
  if (!context_gone_) finish_all(errc::stopped);
}

limit_stats ledger::stats() const {
  const std::lock_guard lock{mutex_};
  limit_stats s = stats_;
  static_cast<queue_stats&>(s) = counts_;
  s.waiting = waiting_.size();
  for (const auto& [place, w] : waiting_) ++s.classes[static_cast<std::size_t>(std::get<0>(place))].waiting;
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
  s.held = held_;
  s.idle = idle_;
  s.available = !is_failing_;
  s.last_error_code = is_failing_ ? cause_ : slow_ != duration::zero() ? make_error_code(errc::timed_out) : unheard_;
  s.last_error = is_failing_ ? cause_text_ : slow_ != duration::zero() ? why_slow() : unheard_text_;
  return s;
}

void ledger::take_out(limit_waiter& w) noexcept {
  const order place{w.wanted_.priority, w.arrival_};
  waiting_.erase(place);
  fresh_.erase(place);
  asked_.erase(place);
  by_id_.erase(w.id_);
  if (w.is_known_) cancels_.emplace_back(w.id_, w.wanted_.tokens);
}

void ledger::finish(limit_waiter& w, std::error_code ec) noexcept {
  w.ended_ = true;
  w.error_ = ec;
  if (!ec) {
    count_grant(w.wanted_.priority, time_->now() - w.since_);
  } else if (ec == net::error::would_block) {
    // Nothing has become of it, as of a try_acquire.
  } else if (ec == net::error::operation_aborted) {
    ++counts_.cancelled;
  } else if (ec == errc::timed_out || ec == errc::store_unavailable) {
    ++counts_.timed_out;
  } else if (ec == errc::stopped) {
    ++counts_.stopped;
  } else {
    ++counts_.rejected;
  }
  // If its limit is being called just now, that call leads to its delivery.
  if (w.limit_armed_ && !time_->cancel(w.limit_)) return;
  w.limit_armed_ = false;
  ready_.push(w);
}

void ledger::count_grant(int priority, duration waited) noexcept {
  auto& c = counts_.classes[static_cast<std::size_t>(priority)];
  ++counts_.granted;
  ++c.granted;
  c.wait.record(waited);
}

void ledger::finish_all(errc code) noexcept {
  while (!waiting_.empty()) {
    limit_waiter& w = *waiting_.begin()->second;
    take_out(w);
    finish(w, code);
  }
}

void ledger::deliver_later(limit_waiter& w) noexcept {
  bool is_armed = false;
  {
    const std::lock_guard lock{mutex_};
    is_armed = w.limit_armed_ = time_->arm(w.limit_, saturating_add(time_->now(), delivery_retry));
  }
  if (!is_armed) w.destroy();
}

}  // namespace canigo::redis::detail
