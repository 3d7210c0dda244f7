// The functions of ledger that call the Redis script of a limit, and read the answer.
#include "canigo/error.hpp"
#include "canigo/redis/error.hpp"

#include "awake.hpp"
#include "cause.hpp"
#include "engine_change.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::redis::detail {

void ledger::prepare(time_point now) {
  const std::int64_t awake = awake_or_not();
  const duration answer_within = engine_->answer_within();
  sync_call s;
  s.prefix = prefix_;
  s.session = session_.name();
  s.sequence = session_.next_call();
  s.lease = options_.lease;
  s.quarantine = options_.quarantine;
  s.leave = is_leaving();
  s.is_subscribed = is_listening() && is_subscribed_;
  s.seen = session_.last_token();
  s.latest = session_.latest_there(awake);
  s.epoch = session_.epoch();
  terms_.write(s, now);
  book_.write(s, may_keep_idle());
  command c = s.encoded(send_text_);
  c.set_is_restated(true);
  call_ = std::move(c).with_timeout(plan_.time_limit(needs(), answer_within));
  // No statement from here on can fail, so all parts of the state change together.
  session_.call_begins(awake, s.leave);
  terms_.call_begins();
  book_.call_begins();
  plan_.call_begins(now, answer_within);
}

void ledger::send(command c) noexcept {
  auto whom = std::exchange(for_once_, nullptr);
  c.set_asks_first(whom != nullptr);
  if (whom == nullptr) whom = engine_;
  const auto done = [self = shared_from_this(), whom](const answer& a) { self->answered(*whom, a); };
  try {
    start_call<answered_call>{whom}(done, c);
  } catch (...) {
    answered(*whom, {make_error_code(errc::not_enough_memory), {}});
  }
}

void ledger::answered(engine& from, const answer& given) noexcept {
  const change c{*this};
  if (given.sent_at != 0) session_.sent(given.sent_at);
  plan_.call_ended();
  const time_point now = time_->now();
  if (given.error == errc::stopped) {  // after close() of the client, the limit stops calling Redis
    closing_ = true;
    plan_.stop();
    return finish_all(errc::stopped);
  }
  if (given.error) return call_failed(from, given, now);
  redirections_ = 0;
  send_text_ = false;
  ++stats_.round_trips;
  stats_.round_trip.record(now - plan_.called_at());
  book_.was_heard();
  const bool is_ours = session_.has_call();
  std::error_code cause = error::bad_reply;
  try {
    const sync_answer a{given.what};
    const bool is_ok = a.what == sync_answer::status::ok;
    if (!is_ok || !is_ours) terms_.tell_again();
    if (is_ok) {
      plan_.recovered();
      if (is_ours) {
        read_answer(a, now);
        terms_.told();
      }
      return;
    }
    if (a.what == sync_answer::status::other_form) {
      cause = {a.form, form_category()};
    } else if (a.what == sync_answer::status::other_shape) {
      cause = error::other_shape;
    } else if (!is_ours || a.what == sync_answer::status::no_session) {
      // A replica that may not write also answers that it does not know the session. So this answer does not end an
      // outage. An outage ends only when a server registers this process.
      plan_.call_again();
      return is_ours ? lose_session() : void();
    }
  } catch (...) {
    // There was no memory for the answer, so the next call sends the same changes again.
    terms_.tell_again();
    cause = errc::not_enough_memory;
  }
  failed(now, cause);
}

void ledger::call_failed(engine& from, const answer& given, time_point now) noexcept {
  const std::error_code ec = given.error;
  ++stats_.failed_calls;
  terms_.tell_again();
  // After a restart or SCRIPT FLUSH, Redis does not know the script, so the next call sends the text of the script.
  // After the error `moved`, the next call goes to the node that has the keys.
  const bool is_unknown = ec == error::no_script && !std::exchange(send_text_, true);
  if (is_unknown || (ec == error::moved && is_redirected(from, given.what))) {
    if (session_.has_call()) {
      session_.was_not_run();
      book_.ask_again();
      book_.must_tell();
    }
    return plan_.call_again();
  }
  const std::string slow = text_of([&] { return ec == errc::timed_out ? why_slow() : std::string{}; });
  failed(now, given.cause ? given.cause : ec, slow.empty() ? std::string_view{given.what.text()} : slow);
  redirections_ = 0;
  if (is_of_the_node(ec)) home_->cluster().failed(from);
  use(home_->cluster().of(slot_));
}

/// Follows the redirection to another node of the cluster; `r` is the reply that contains it. Returns false if the
/// redirection can't be followed.
bool ledger::is_redirected(engine& from, const reply& r) noexcept {
  try {
    auto next = home_->cluster().follow(from, r.text());
    if (next.where == nullptr || ++redirections_ > most_redirections) return false;
    if (next.is_once) {
      for_once_ = std::move(next.where);
    } else {
      use(std::move(next.where));
    }
    return true;
  } catch (...) {
    return false;  // there is no memory to follow the redirection, so the call counts as failed
  }
}

void ledger::use(std::shared_ptr<engine> node) noexcept {
  if (node == engine_) return;
  listen(false);
  engine_ = std::move(node);
}

void ledger::read_answer(const sync_answer& a, time_point now) {
  session_.answered(awake_or_not(), a.now);
  plan_.answered(now, session_.renew_in(awake_or_not()));
  if (a.next) plan_.is_useful_at(saturating_add(now, *a.next));
  stats_.waiting_of_all = static_cast<std::size_t>(a.queue);
  stats_.held_by_all = a.held_by_all;
  stats_.quarantine = a.quarantine;
  for (std::size_t i = 0; i < std::min(a.alternatives.size(), stats_.alternatives.size()); ++i) {
    stats_.alternatives[i].held_by_all = a.alternatives[i].held_by_all;
  }
  terms_.charged();
  terms_.heard(plan_.called_at(), a.quarantine, a.empty);
  if (a.settings) adopt(*a.settings, now);
  if (session_.follow(a.epoch)) book_.ask_again();
  book_.was_told();
  if (a.ahead > 0) book_.put_idle(a.ahead, now, terms_.settings().rates[0]);
  if (a.queue > 0 || (has_cap() && a.held_by_all > terms_.settings().permits)) give_back_idle();
  if (session_.is_lost(awake_or_not())) return lose_session();
  book_.held_there(a.held_by_all);
  if (read_grants(a)) check_listening(now);
}

/// Grants the requests that the answer names. Returns true if an earlier message or answer contained one of these
/// grants, but was lost.
bool ledger::read_grants(const sync_answer& a) {
  bool was_missed = false;
  for (const auto& run : a.grants) {
    const std::uint64_t past = std::min(run.first + run.count, book_.next_id());
    std::uint64_t next = run.first;
    while (limit_request* r = book_.find_from(next, past)) {
      if (run.token > 0) book_.take_note(next, r->id);
      next = r->id + 1;
      was_missed = was_missed || !run.is_news;
      grant(waiter_of(*r), run.token > 0 ? run.token + static_cast<std::int64_t>(r->id - run.first) : run.token,
            run.from);
    }
    if (run.token > 0) book_.take_note(next, past);
  }
  return was_missed;
}

/// Ends a waiter with the result that Redis has sent. A `token` above 0 is a grant. The value 0 means that the request
/// is too large, and -1 that it can't be granted now. The value -2 means that waiters have too many different sets of
/// alternatives.
void ledger::grant(limit_waiter& w, std::int64_t token, std::size_t from) {
  const std::uint64_t id = w.id;
  if (token > 0) {
    session_.see(static_cast<std::uint64_t>(token));
    w.alternative = has_alternatives() && from < options_.alternatives.size() ? from : 0;
    if (gives_permits()) {
      try {
        w.granted_ = hold(id, w.amounts, static_cast<std::uint64_t>(token), w.alternative);
      } catch (...) {
        // The request is removed as if it were cancelled, so Redis takes the grant back.
        return end(w, errc::not_enough_memory);
      }
    }
  }
  w.is_known = false;
  book_.take_out(w);
  if (token > 0) book_.acknowledge(id);
  if (token > 0 && has_alternatives()) ++stats_.alternatives[w.alternative].granted;
  std::error_code refused = errc::too_large;
  if (token == -1) refused = net::error::would_block;
  if (token == -2) refused = errc::queue_full;
  finish(w, token > 0 ? std::error_code{} : refused);
}

void ledger::adopt(const limit_settings& s, time_point now) noexcept {
  terms_.adopt(s, now);
  // Ends the requests that are too large for the new settings. Redis has already refused them, but the message about
  // the refusal may be lost.
  book_.for_each([&](limit_request& r) {
    const bool has_none = has_alternatives() && terms_.that_fit(r.set, demand_of(r)) == 0;
    if (has_none || !terms_.fits(demand_of(r))) end(waiter_of(r), errc::too_large);
  });
}

void ledger::begin_session() noexcept {
  session_.begin();
  book_.begin_session();
}

void ledger::lose_session() noexcept {
  stats_.lost_leases += book_.lose_all();
  begin_session();
}

}  // namespace canigo::redis::detail
