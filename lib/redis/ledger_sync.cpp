// A ledger's call of the script, and its answer.
#include "canigo/error.hpp"
#include "canigo/redis/error.hpp"

#include "cause.hpp"
#include "engine_delivery.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace canigo::redis::detail {
namespace {

using std::chrono::microseconds;

constexpr std::size_t most_per_call = 1000;

// A request that can't wait is decided after so long. That is later where it would be refused, maybe only because the
// machine was busy, than where its failure mode lets it through.
constexpr duration decided_if_closed = std::chrono::milliseconds{500};
constexpr duration decided_soonest = std::chrono::milliseconds{200};
constexpr duration decided_latest = std::chrono::seconds{2};

// A call for nobody, which only asks whether Redis is back, takes no longer.
constexpr duration longest_probe = std::chrono::milliseconds{500};

}  // namespace

/// The time that it can be at most where the script runs, in us; 0 if that is not known well enough.
std::int64_t ledger::latest_there(std::int64_t as_of) const noexcept {
  const std::int64_t since = (as_of - told_at_) / 1000;
  const std::int64_t drift = since / 1000;  // of two clocks
  const bool is_known = told_now_ != 0 && since >= 0 && drift <= options_.lease.count() / 1000 / 32;
  return is_known ? told_now_ + since + drift : 0;
}

/// A slow line is given more time, as far as the lease permits. Once to be connected, and once from when it was sent.
duration ledger::time_for_answer() const noexcept {
  // Who has nothing to lose waits for a connection longer than a short lease lasts.
  const duration least = std::chrono::milliseconds{is_registered_ ? 20 : 1000};
  duration usual = std::clamp(options_.lease / 3, least, duration{std::chrono::seconds{2}});
  if (is_failing_ && !is_engaged() && !has_news()) usual = std::min(usual, longest_probe);
  return std::max(usual, std::min(engine_->answer_within(), longest_round_trip()));
}

command ledger::prepare(time_point now) {
  const std::int64_t sent_at = awake_or_not();
  sync_call s;
  s.prefix = prefix_;
  s.session = session_;
  leave_under_way_ = s.leave = is_leaving();
  s.sequence = sequence_ + 1;
  s.lease = options_.lease;
  s.quarantine = options_.quarantine;
  const bool keeps = options_.horizon > duration::zero() && !closing_;
  s.held = held_ + (options_.rate ? 0 : idle_);
  s.idle = options_.rate ? idle_ : keeps ? s.held : 0;
  s.charged_before = charged_and_answered_;
  s.charged = charged_;
  s.ahead = keeps && options_.rate && !fresh_.empty() ? ahead_ : 0;
  s.settings = settings_;
  s.settings.pause = paused_until_ == time_point::max() ? -1
                     : paused_until_ <= now             ? 0
                                                        : std::chrono::ceil<microseconds>(paused_until_ - now).count();
  s.changes = unsaid_;
  s.seen = last_token_;
  s.latest = latest_there(sent_at);
  s.epoch = epoch_;
  s.acknowledged = &acknowledged_;
  s.cancels = &cancels_;
  const std::size_t wanted = std::min(fresh_.size(), most_per_call);
  s.wanted.reserve(wanted);
  auto place = fresh_.begin();
  for (std::size_t i = 0; i < wanted; ++i, ++place) {
    const limit_waiter& w = *waiting_.at(*place);
    s.wanted.push_back({w.id_, w.waits_ ? w.wanted_.priority : -1, w.wanted_.tokens});
  }
  command c = s.encoded(send_text_);
  c.set_is_restated(true);
  c = std::move(c).with_timeout(time_for_answer());
  // Nothing fails from here on.
  for (auto p = fresh_.begin(); p != place;) {
    waiting_.at(*p)->is_known_ = true;
    asked_.insert(fresh_.extract(p++));
  }
  ++sequence_;
  session_under_way_ = session_number_;
  acknowledged_under_way_ = acknowledged_.size();
  cancels_under_way_ = cancels_.size();
  unsaid_under_way_ = std::exchange(unsaid_, 0);
  charged_under_way_ = charged_;
  is_hinted_ = must_tell_ = is_wanted_ = false;
  if (now < known_until_) known_until_ = time_point::max();  // until it has answered or failed
  next_at_ = time_point::max();
  sent_at_ = sent_at;
  called_at_ = now;
  asked_before_ = wanted == most_per_call ? heard_before_ : next_arrival_;
  const duration soonest = is_closed_without() ? decided_if_closed : decided_soonest;
  late_at_ = saturating_add(now, std::clamp(engine_->answer_within(), soonest, decided_latest));
  is_decided_ = false;
  return c;
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
  const std::error_code ec = given.error;
  // It may have waited for a connection.
  if (given.sent_at != 0) sent_at_ = given.sent_at;
  under_way_ = false;
  const time_point now = time_->now();
  if (ec == errc::stopped) {  // the client has gone
    closing_ = true;
    is_failing_ = true;
    retry_at_ = time_point::max();
    return finish_all(errc::stopped);
  }
  if (ec) {
    ++stats_.failed_calls;
    unsaid_ |= std::exchange(unsaid_under_way_, 0);
    // Unknown after a restart or SCRIPT FLUSH: once more, with the text. Or to the node of a cluster that has the keys.
    const bool is_unknown = ec == error::no_script && !std::exchange(send_text_, true);
    if (is_unknown || (ec == error::moved && is_redirected(from, given.what))) {
      if (session_under_way_ == session_number_) {
        --sequence_;
        ask_again();
        must_tell_ = true;
      }
      is_wanted_ = is_failing_;
      return;
    }
    const std::string slow = text_of([&] { return ec == errc::timed_out ? why_slow() : std::string{}; });
    failed(now, given.cause ? given.cause : ec, slow.empty() ? std::string_view{given.what.text()} : slow);
    redirections_ = 0;
    if (is_of_the_node(ec)) home_->cluster().failed(from);
    return use(home_->cluster().of(slot_));
  }
  redirections_ = 0;
  send_text_ = false;
  ++stats_.round_trips;
  heard_before_ = asked_before_;
  stats_.round_trip.record(now - called_at_);
  const unsigned changed = std::exchange(unsaid_under_way_, 0);
  std::error_code cause = error::bad_reply;
  try {
    const sync_answer a{given.what};
    const bool is_ours = session_under_way_ == session_number_;
    const bool is_ok = a.what == sync_answer::status::ok;
    if (!is_ok || !is_ours) unsaid_ |= changed;
    if (is_ok) {
      recovered();
    } else if (a.what == sync_answer::status::other_form) {
      cause = {a.form, form_category()};
    } else if (!is_ours || a.what == sync_answer::status::no_session) {
      // A replica that may not write says so, too: only one that takes us in has come back.
      is_wanted_ = is_failing_;
      return is_ours ? lose_session() : void();
    }
    if (is_ok) return is_ours ? read_answer(a) : void();
  } catch (...) {
    // No memory for it: the next call asks again.
    unsaid_ |= changed;
    cause = errc::not_enough_memory;
  }
  failed(now, cause);
}

/// Whether another node of the cluster is asked next.
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
    return false;  // no memory
  }
}

void ledger::use(std::shared_ptr<engine> node) noexcept {
  if (node == engine_) return;
  listen(false);
  engine_ = std::move(node);
}

void ledger::read_answer(const sync_answer& a) {
  const time_point now = time_->now();
  is_registered_ = !leave_under_way_;
  charged_and_answered_ = charged_under_way_;
  const duration took{awake_or_not() - sent_at_};
  slow_ = options_.rate || took <= longest_round_trip() ? duration::zero() : took;
  told_at_ = sent_at_;
  told_now_ = a.now;
  // A tenth for clocks that run at different speeds, and for the time that cancelling takes.
  lease_until_ = sent_at_ + options_.lease.count() / 10 * 9;
  renew_at_ = saturating_add(now, options_.lease / 3 - duration{awake_or_not() - sent_at_});
  if (a.next) next_at_ = std::min(next_at_, saturating_add(now, *a.next));
  stats_.waiting_of_all = static_cast<std::size_t>(a.queue);
  stats_.held_by_all = a.held_by_all;
  stats_.quarantine = a.quarantine;
  closed_until_ = saturating_add(called_at_, a.quarantine);
  empty_at_ = saturating_add(called_at_, a.empty);
  if (a.settings) adopt(*a.settings, now);
  if (a.epoch != epoch_) {
    if (epoch_ != 0) ask_again();
    epoch_ = a.epoch;
  }
  acknowledged_.erase(acknowledged_.begin(),
                      acknowledged_.begin() + static_cast<std::ptrdiff_t>(acknowledged_under_way_));
  cancels_.erase(cancels_.begin(), cancels_.begin() + static_cast<std::ptrdiff_t>(cancels_under_way_));
  if (a.ahead > 0) put_idle(a.ahead, now);
  if (a.queue > 0 || (!options_.rate && a.held_by_all > settings_.permits)) give_back_idle();
  if (is_registered_ && awake_or_not() >= lease_until_) return lose_session();
  bool was_missed = false;
  may_hold_there_ = held_ > 0 || idle_ > 0 || must_tell_ || a.held_by_all > 0;
  for (const auto& run : a.grants) {
    const std::uint64_t end = std::min(run.first + run.count, next_id_);
    std::uint64_t next = run.first;
    for (auto p = by_id_.lower_bound(next); p != by_id_.end() && p->first < end;) {
      const auto [id, w] = *(p++);
      if (run.token > 0) take_note(next, id);
      next = id + 1;
      was_missed = was_missed || !run.is_news;
      grant(*w, run.token > 0 ? run.token + static_cast<std::int64_t>(id - run.first) : run.token);
    }
    if (run.token > 0) take_note(next, end);
  }
  if (was_missed) check_listening(now);
}

/// These were granted, and none of them waits here. Where that was not so a moment ago Redis has forgotten what it was
/// told, as a replica has that was behind when it took over, and is told again: else they would be held by nobody.
void ledger::take_note(std::uint64_t from, std::uint64_t to) {
  for (; from < to; ++from) {
    if (is_told_of(from)) continue;
    make_room(acknowledged_, acknowledged_.size() + waiting_.size() + 2);
    acknowledged_.push_back(from);
    must_tell_ = true;
  }
}

/// Whether the next call, or one that is under way, says what has become of this waiter.
bool ledger::is_told_of(std::uint64_t id) const noexcept {
  return std::find(acknowledged_.begin(), acknowledged_.end(), id) != acknowledged_.end() ||
         std::any_of(cancels_.begin(), cancels_.end(), [id](const auto& c) { return c.first == id; });
}

}  // namespace canigo::redis::detail
