// The ledger's calls of the script: when there is one to make, what it says, and what becomes of the answer.
#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"

#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <mutex>

namespace canigo::redis::detail {
namespace {

using std::chrono::microseconds;

constexpr duration delivery_retry = std::chrono::milliseconds{1};
constexpr backoff after_failures{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{5}};
constexpr std::size_t most_per_call = 1000;

}  // namespace

void ledger::alarm_called() noexcept {
  const auto keep = shared_from_this();
  const change c{*this};
  alarm_armed_ = false;
  self_.reset();
  may_send_ = true;
}

void ledger::post_turn() noexcept {
  try {
    net::post(executor_, [self = shared_from_this()] { self->turn(); });
  } catch (...) {
    const std::lock_guard lock{mutex_};
    turn_posted_ = false;
    set_alarm(saturating_add(time_->now(), delivery_retry));
  }
}

void ledger::turn() noexcept {
  const change c{*this};
  turn_posted_ = false;
  may_send_ = true;
}

bool ledger::is_leaving() const noexcept { return closing_ && held_ == 0; }

void ledger::step() noexcept {
  const bool may_send = std::exchange(may_send_, false);
  if (context_gone_) return;
  const time_point now = time_->now();
  if (is_registered_ && awake_or_not() >= lease_until_) lose_session();
  if (idle_until_ <= now) {
    give_back_idle();
    idle_until_ = time_point::max();
  }
  if (is_failing_) {
    const bool enough = saturating_add(failing_since_, options_.give_up) <= now;
    if (options_.on_failure.what() != failure_mode::kind::closed) {
      grant_without_redis(now);
    } else if (enough) {
      finish_all(errc::store_unavailable);
    }
    if (enough) {
      unsaid_ = 0;
      charged_ = charged_and_answered_;
    }
  }
  if (!under_way_ && wants_call(now)) {
    if (may_send) {
      try {
        call_ = prepare(now);
        under_way_ = true;
      } catch (...) {
        retry_at_ = saturating_add(now, delivery_retry);
      }
    } else {
      turn_wanted_ = true;
    }
  }
  if (!is_engaged()) {
    listen(false);
  } else if (!under_way_ && is_registered_ && (!asked_.empty() || options_.horizon > duration::zero())) {
    listen(true);
  }
  set_alarm(next_step(now));
}

/// Whether there is something to tell that can't wait for the next renewal.
bool ledger::has_news() const noexcept {
  return unsaid_ != 0 || charged_ != charged_and_answered_ || (is_registered_ && (must_tell_ || !cancels_.empty()));
}

bool ledger::wants_call(time_point now) const noexcept {
  if (now < retry_at_) return false;
  if (is_leaving()) return is_registered_ && !is_failing_;
  if (is_engaged() && (!fresh_.empty() || is_hinted_)) return true;
  if (has_news()) return true;
  if (is_engaged() && now >= renew_at_) return true;
  return !waiting_.empty() && now >= next_at_;
}

time_point ledger::next_step(time_point now) const noexcept {
  time_point t = time_point::max();
  if (!under_way_ && !turn_posted_ && !turn_wanted_) {
    const bool unsaid = has_news() && !is_leaving();
    if (is_engaged() || unsaid) {
      t = is_failing_ || unsaid || !fresh_.empty() ? std::max(retry_at_, now) : renew_at_;
      if (!waiting_.empty()) t = std::min(t, next_at_);
      t = std::max(t, retry_at_);
    }
  }
  if (held_ > 0) t = std::min(t, saturating_add(now, duration{lease_until_ - awake_or_not()}));
  t = std::min(t, idle_until_);
  if (is_failing_ && !waiting_.empty()) {
    t = std::min(t, options_.on_failure.what() == failure_mode::kind::closed
                        ? saturating_add(failing_since_, options_.give_up)
                        : local_at_);
  }
  return t;
}

command ledger::prepare(time_point now) {
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
  c = std::move(c).with_timeout(
      std::clamp(options_.lease / 3, duration{std::chrono::milliseconds{20}}, duration{std::chrono::seconds{2}}));
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
  is_hinted_ = must_tell_ = false;
  next_at_ = time_point::max();
  sent_at_ = awake_or_not();
  called_at_ = now;
  return c;
}

void ledger::send(const command& c) noexcept {
  const auto done = [self = shared_from_this()](std::error_code ec, const reply& r) { self->answered(ec, r); };
  try {
    start_call<call>{engine_}(done, c);
  } catch (...) {
    answered(make_error_code(errc::not_enough_memory), {});
  }
}

void ledger::answered(std::error_code ec, const reply& r) noexcept {
  const change c{*this};
  under_way_ = false;
  if (context_gone_) return;
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
    // Unknown after a restart or SCRIPT FLUSH: once more, with the text.
    if (ec == error::no_script && !std::exchange(send_text_, true)) {
      if (session_under_way_ == session_number_) {
        --sequence_;
        ask_again();
        must_tell_ = true;
      }
      return;
    }
    return failed(now);
  }
  send_text_ = false;
  ++stats_.round_trips;
  stats_.round_trip.record(now - called_at_);
  const unsigned changed = std::exchange(unsaid_under_way_, 0);
  if (session_under_way_ != session_number_) {
    unsaid_ |= changed;
    return;
  }
  try {
    const sync_answer a{r};
    if (a.what != sync_answer::status::ok) unsaid_ |= changed;
    if (a.what == sync_answer::status::no_session) return lose_session();
    if (a.what == sync_answer::status::ok) return read_answer(a);
  } catch (...) {
    // No memory for it: the next call asks again.
    unsaid_ |= changed;
  }
  failed(now);
}

void ledger::read_answer(const sync_answer& a) {
  const time_point now = time_->now();
  is_failing_ = false;
  failing_since_ = time_point::max();
  failures_ = 0;
  retry_at_ = time_point::min();
  is_registered_ = !leave_under_way_;
  charged_and_answered_ = charged_under_way_;
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
    acknowledged_.reserve(acknowledged_.size() + waiting_.size() + 2);
    acknowledged_.push_back(from);
    must_tell_ = true;
  }
}

/// Whether the next call, or one that is under way, says what has become of this waiter.
bool ledger::is_told_of(std::uint64_t id) const noexcept {
  return std::find(acknowledged_.begin(), acknowledged_.end(), id) != acknowledged_.end() ||
         std::any_of(cancels_.begin(), cancels_.end(), [id](const auto& c) { return c.first == id; });
}

/// Something was published for us and has not come, or not yet: perhaps nothing does any more.
void ledger::check_listening(time_point now) noexcept {
  if (!is_listening_ || now < check_after_) return;
  try {
    if (const auto s = engine_->subscriptions()) s->check(channel());
    check_after_ = saturating_add(now, options_.lease / 3);
  } catch (...) {
    // No memory: the next that is missed leads here again.
  }
}

void ledger::failed(time_point now) noexcept {
  if (!is_failing_) {
    is_failing_ = true;
    failing_since_ = now;
    local_at_ = now;
    if (options_.rate && options_.on_failure.what() == failure_mode::kind::local) {
      const double share = options_.on_failure.share();
      const auto period = static_cast<double>(settings_.period) * 1000 / share;
      const auto longest = static_cast<double>(duration::max().count() / 2);
      local_ = token_bucket{
          canigo::rate{static_cast<std::int64_t>(settings_.tokens),
                       duration{static_cast<duration::rep>(std::min(period, longest))}},
          std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(settings_.burst) * share)), 0, now};
    }
  }
  ++failures_;
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  retry_at_ = saturating_add(now, after_failures.delay(failures_, random_));
  if (session_under_way_ != session_number_) return;
  ask_again();
  must_tell_ = is_registered_;
  // Who does not wait does not wait for the next call.
  for (auto p = waiting_.begin(); p != waiting_.end();) {
    limit_waiter& w = *(p++)->second;
    if (w.waits_ || options_.on_failure.what() != failure_mode::kind::closed) continue;
    take_out(w);
    finish(w, errc::store_unavailable);
  }
}

void ledger::grant_without_redis(time_point now) noexcept {
  const bool open = options_.on_failure.what() == failure_mode::kind::open;
  while (!waiting_.empty()) {
    limit_waiter& w = *waiting_.begin()->second;
    if (now < paused_until_) {
      local_at_ = paused_until_;
      return;
    }
    if (!open && !local_.try_take(now, w.wanted_.tokens)) {
      if (!w.waits_) {
        take_out(w);
        finish(w, net::error::would_block);
        continue;
      }
      local_at_ = local_.ready_at(now, w.wanted_.tokens);
      return;
    }
    ++stats_.granted_locally;
    take_out(w);
    finish(w, {});
  }
}

void ledger::set_alarm(time_point when) noexcept {
  if (alarm_armed_) {
    // One that rings too early looks again, which costs less than to set it anew whenever it is due later. One that
    // rings for nothing would keep the loop running.
    const bool looks_again = when != time_point::max() || under_way_ || turn_wanted_ || turn_posted_;
    if (alarm_at_ <= when && looks_again) return;
    if (!time_->cancel(alarm_)) return;  // it is being called just now, and looks again
    alarm_armed_ = false;
  }
  alarm_at_ = when;
  if (when != time_point::max()) alarm_armed_ = time_->arm(alarm_, when);
  if (alarm_armed_ != (self_ != nullptr)) self_ = alarm_armed_ ? shared_from_this() : nullptr;
}

}  // namespace canigo::redis::detail
