// Functions of ledger for three tasks: to decide whether to call Redis; to serve waiters without Redis; and to set the
// timer for the next step.
#include "canigo/error.hpp"

#include "awake.hpp"
#include "cause.hpp"
#include "engine_change.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

// A session that Redis does not know is replaced if this many of its requests have ended without a report to Redis.
constexpr std::size_t most_untold = 1000;

}  // namespace

void ledger::alarm_called() noexcept {
  const change c{*this};
  alarm_.was_called();
  may_send_ = true;
}

void ledger::turn() noexcept {
  const change c{*this};
  turn_.begin();
  may_send_ = true;
}

sync_plan::needs ledger::needs() const noexcept {
  return {.is_registered = session_.is_registered(),
          .has_waiters = book_.has_waiters(),
          .has_fresh = book_.has_fresh(),
          .is_engaged = book_.is_engaged(),
          .has_returns = book_.has_returns(),
          .has_changes = terms_.has_untold(),
          .may_hold_there = book_.may_hold_there(),
          .is_leaving = is_leaving()};
}

void ledger::step() noexcept {
  const bool may_send = std::exchange(may_send_, false);
  if (context_gone_) return;
  const time_point now = time_->now();
  if (session_.is_lost(awake_or_not())) lose_session();
  give_back(book_.give_back_expired(now));
  if (plan_.turns_late(now)) call_is_late(now);
  if (plan_.may_do_without(now)) grant_without_redis(now);
  if (plan_.is_failing()) terms_.forget_overdue(now);
  if (plan_.next_call(needs(), now) > now) {
    // No call of Redis is needed at this time.
  } else if (!may_send) {
    // turn_, which sends the call, is posted after the waiters whose wait has ended. So the handlers of these waiters
    // run first, and their new requests go into the same call of Redis.
    if (turn_.ask(shared_from_this())) post_kept(turn_);
  } else {
    try {
      prepare(now);
    } catch (...) {
      plan_.call_again_at(saturating_add(now, canigo::detail::retry_after));
    }
  }
  if (!book_.is_engaged()) {
    listen(false);
  } else if (!plan_.is_under_way() && session_.is_registered() && now >= listen_after_ &&
             (book_.has_asked() || options_.horizon > duration::zero())) {
    listen(true);
  }
  set_alarm(next_step(now));
}

time_point ledger::next_step(time_point now) const noexcept {
  const sync_plan::needs n = needs();
  time_point t = std::min(plan_.next_look(n, now), book_.idle_until());
  if (!turn_.is_asked()) t = std::min(t, plan_.next_call(n, now));
  if (book_.held() > 0) t = std::min(t, saturating_add(now, session_.left(awake_or_not())));
  // If the subscription could not be ended for lack of memory, a later step tries again to end it.
  if (listening_to_ != 0 && !book_.is_engaged()) t = std::min(t, saturating_add(now, canigo::detail::retry_after));
  return t;
}

void ledger::set_alarm(time_point when) noexcept {
  // If the alarm is already set to a time before `when`, it is not changed. It then rings too early and causes one
  // needless step, which is cheaper than setting the alarm again. If no further step is needed, the alarm is cleared,
  // because a set alarm keeps the loop running.
  const bool looks_again = when != time_point::max() || plan_.is_under_way() || turn_.is_asked();
  if (!alarm_.is_set() || alarm_.when() > when || !looks_again) alarm_.set(when, *this);
}

/// Returns the text of an error, preceded by the URL of the node.
std::string ledger::located(std::error_code cause, std::string_view text) const noexcept {
  return text_of([&] {
    const std::string where = engine_->where();
    if (text.starts_with(where)) return std::string{text};
    return where + ": " + (text.empty() ? cause.message() : std::string{text});
  });
}

void ledger::failed(time_point now, std::error_code cause, std::string_view text) noexcept {
  const bool is_new = plan_.failed(now, cause, located(cause, text), is_permanent(cause, text), terms_.settings());
  book_.for_each([&](limit_request& r) {
    if (const std::error_code why = plan_.refusal(r.waits)) {
      end(waiter_of(r), why);
    } else if (is_new) {
      set_deadline(waiter_of(r));
    }
  });
  if (!session_.has_call()) return;
  if (!session_.is_registered() && book_.cancels() >= most_untold) {
    // Many requests of this session have ended, and Redis may never have received them. Each later call in this session
    // would have to report these ends. A new session does not report them: if Redis received the requests, it ends them
    // when the lease of the old session ends.
    begin_session();
  } else {
    book_.ask_again();
    book_.must_tell(session_.is_registered());
  }
}

/// Called when an answer of Redis is late. Grants or refuses, without Redis, the requests that can't wait for this
/// answer. If the connection has already reported why Redis is unreachable, Redis counts as failed immediately, before
/// the late call ends.
void ledger::call_is_late(time_point now) noexcept {
  const bool has_trouble = !plan_.is_failing() && engine_->has_trouble();
  if (has_trouble) {
    const auto [cause, text] = engine_->trouble();
    plan_.fails(cause, located(cause, text), is_permanent(cause, text));
  }
  plan_.do_without_until_answer(terms_.settings());
  book_.for_each([&](limit_request& r) {
    limit_waiter& w = waiter_of(r);
    if (!w.waits) {
      end(w, decide(w, now));
    } else if (has_trouble) {
      set_deadline(w);
    }
  });
}

/// Grants or refuses a waiter without Redis, or lets it wait; see sync_plan::decide() for the result. `except`:
/// alternatives that are reserved for other waiters.
std::error_code ledger::decide(limit_waiter& w, time_point now, std::uint64_t except) noexcept {
  const bool is_permit_due = gives_permits() && !plan_.is_closed();
  permit p;
  try {
    if (is_permit_due) p = hold(book_.new_id(), w.amounts, 0);
  } catch (...) {
    return errc::not_enough_memory;
  }
  const std::uint64_t set = terms_.not_paused(w.set, now) & ~except;
  const std::error_code ec =
      plan_.decide(now, demand_of(w), terms_.paused_until(), terms_.settings(), set, &w.alternative);
  if (!ec) {
    ++stats_.granted_locally;
    if (p.holding_ != nullptr) p.holding_->alternative = w.alternative;
    if (has_alternatives()) ++stats_.alternatives[w.alternative].granted;
    w.granted_ = std::move(p);
  } else if (is_permit_due) {
    book_.forget(*std::exchange(p.holding_, nullptr));
  }
  return ec;
}

/// Serves waiters without Redis, in the same order as the Redis script. If a waiter lacks capacity in all of its
/// alternatives, these are reserved for the waiter. If it lacks capacity only in the common limits, no later waiter is
/// served.
void ledger::grant_any_without_redis(time_point now) noexcept {
  std::uint64_t kept = 0;
  bool is_open = now >= terms_.paused_until();
  if (!is_open) return plan_.look_again_for(now, {1}, terms_.paused_until());
  plan_.look_again_for_none();
  book_.for_each([&](limit_request& r) {
    limit_waiter& w = waiter_of(r);
    if (!is_open || (w.set & ~kept) == 0) return;
    const std::error_code ec = decide(w, now, kept);
    if (!ec || ec == errc::store_unavailable || !w.waits) return end(w, ec);
    const std::uint64_t set = w.set & ~kept;
    plan_.look_again_for_any(now, demand_of(w), terms_.not_paused(set, now),
                             terms_.first_resumes_at(set & ~terms_.not_paused(set, now)));
    is_open = plan_.has_common_share(now, demand_of(w));
    kept |= w.set;
  });
}

void ledger::grant_without_redis(time_point now) noexcept {
  if (has_alternatives()) return grant_any_without_redis(now);
  while (book_.has_waiters()) {
    limit_waiter& w = waiter_of(book_.first());
    const bool is_paused = now < terms_.paused_until();
    const std::error_code ec = is_paused ? net::error::would_block : decide(w, now);
    // If a request exceeds the share of the limit that this process may grant without Redis, the request ends with an
    // error. So it does not block the waiters after it.
    const bool is_for_later = is_paused || (ec && ec != errc::store_unavailable && w.waits);
    if (is_for_later) return plan_.look_again_for(now, demand_of(w), terms_.paused_until());
    end(w, ec);
  }
}

}  // namespace canigo::redis::detail
