// The functions of engine that handle the connection and its bytes. All of them run on the client's strand.
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "awake.hpp"
#include "cause.hpp"
#include "engine.hpp"
#include "engine_change.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

// How long an attempt to connect continues when no caller waits for it any more. The attempt ends when both times have
// passed: `least_dial` since it began, and `dial_after_last_caller` since a caller last waited. A redis limit sends its
// next command within half a second, so the attempt is still running then.
constexpr duration least_dial = std::chrono::seconds{3};
constexpr duration dial_after_last_caller = std::chrono::seconds{1};

}  // namespace

void engine::turn() noexcept {
  const auto keep = shared_from_this();
  bool rang = false;
  {
    const std::lock_guard lock{mutex_};
    turn_.begin();
    rang = std::exchange(alarm_rang_, false);
    if (rang) alarm_.was_called();
  }
  act(rang);
}

void engine::act(bool rang) noexcept {
  bool has_waiting = false;
  bool only_abandoned = false;
  duration patience{};
  time_point silent_at = time_point::max();
  {
    const change decisions{*this};
    if (closing_) {
      fail_all(waiting_, errc::stopped);
      fail_all(sent_, errc::stopped);
      return shut_down();
    }
    // True if no caller waits for the outstanding replies, and the time for these replies is over.
    const bool is_forgotten = rang && waiting_.empty() && !sent_.empty() && abandoned_ == sent_.size();
    unwanted_at_ = waiting_.empty() ? std::min(unwanted_at_, time_->now()) : time_point::max();
    if (phase_ == phase::dialing && time_->now() >= end_of_unwanted_dial()) {
      if (!cause_) cause_ = errc::timed_out;
      drop_link();
    }
    const bool is_silent = time_->now() >= silent_at_;
    if ((std::exchange(is_suspect_, false) || is_silent || is_forgotten) && phase_ == phase::up) {
      fail_sent(error::connection_lost);
      ++stats_.failures;
      if (!cause_) cause_ = error::connection_lost;
      link_->doubt();
      drop_link();
      back_off(time_->now());
    }
    has_waiting = !waiting_.empty();
    only_abandoned = !sent_.empty() && abandoned_ == sent_.size();
    silent_at = silent_at_;
    patience = std::max(std::min(timeout_, enough_silence), line_.allowance());
  }
  if (!has_waiting) {
    set_alarm(phase_ == phase::dialing ? end_of_unwanted_dial()
              : only_abandoned         ? std::min(silent_at, saturating_add(time_->now(), patience))
                                       : silent_at);
  } else if (phase_ == phase::up) {
    set_alarm(silent_at);
    send_waiting();
  } else if (phase_ == phase::down) {
    dial_or_wait();
  }
}

time_point engine::end_of_unwanted_dial() const noexcept {
  return std::max(saturating_add(dialed_at_, least_dial), saturating_add(unwanted_at_, dial_after_last_caller));
}

void engine::dial_or_wait() noexcept {
  if (time_->now() < not_before_) return set_alarm(not_before_);
  set_alarm(time_point::max());
  dialed_at_ = time_->now();
  try {
    link_ = std::make_shared<link>(strand_, link_options_, std::shared_ptr<link_listener>{shared_from_this(), this});
    phase_ = phase::dialing;
    link_->dial();
  } catch (...) {
    drop_link();
    back_off(dialed_at_);
    set_alarm(not_before_);
  }
}

void engine::send_waiting() noexcept {
  std::string bytes;
  bool was_idle = false;
  {
    const std::lock_guard lock{mutex_};
    was_idle = sent_.empty();
  }
  if (was_idle && !link_->is_open()) {
    // If the server has closed the connection without any answer, it would probably close the next one, too. So the
    // next attempt to connect begins after a delay.
    if (!has_answered_) return link_down(error::connection_lost, {}, {});
    // The server has answered before, so it has closed an idle connection. That is no failure, and no command is lost.
    drop_link();
    return dial_or_wait();
  }
  try {
    const std::lock_guard lock{mutex_};
    static const std::string asking = command{"ASKING"}.encoded();
    std::size_t size = 0;
    calls answers_to_asking;  // entries for the replies to ASKING, which have no caller
    for (const auto& [c, sent_at] : waiting_) {
      size += c->bytes_.size();
      if (!c->asks_first_) continue;
      size += asking.size();
      answers_to_asking.push_back({nullptr, time_->now()});
    }
    bytes.reserve(size);
    const time_point now = time_->now();
    const std::int64_t awake_now = awake_or_not();
    constexpr auto length = command::run_id_placeholder.size();
    std::string id = link_->run_id();
    id.resize(length, '?');
    // From here on, no statement of this block can fail. So all waiting calls are moved to the list of sent calls.
    for (auto& [c, sent_at] : waiting_) {
      if (c->asks_first_) {
        bytes += asking;
        waiting_.splice(c->place_, answers_to_asking, answers_to_asking.begin());
        ++abandoned_;
      }
      bytes += c->bytes_;
      if (c->run_id_at_ != std::string::npos) {
        bytes.replace(bytes.size() - c->bytes_.size() + c->run_id_at_, length, id);
      }
      c->sent_at_ = sent_at = now;
      if (!c->is_restated_) ++minding_;
      c->awake_at_ = awake_now;
    }
    stats_.sent += waiting_.size();
    sent_.splice(sent_.end(), waiting_);
  } catch (...) {
    return set_alarm(saturating_add(time_->now(), canigo::detail::retry_after));
  }
  const auto l = link_;
  try {
    l->send(bytes);
  } catch (...) {
    // Some of the bytes may already be on their way, so the connection can't be used any more.
    link_down(error::connection_lost, make_error_code(errc::not_enough_memory), {});
    return;
  }
  l->read();
}

void engine::shut_down() noexcept {
  if (const auto s = std::exchange(subscriber_, nullptr)) s->close();
  drop_link();
  set_alarm(time_point::max());
}

void engine::drop_link() noexcept {
  phase_ = phase::down;
  if (const auto l = std::exchange(link_, nullptr)) l->close();
}

void engine::back_off(time_point since) noexcept {
  ++failures_;
  not_before_ = saturating_add(since, reconnect_.delay(failures_, canigo::detail::next_random(random_)));
}

void engine::link_up() noexcept {
  phase_ = phase::up;
  has_answered_ = false;
  std::shared_ptr<subscriber> listener;
  {
    const std::lock_guard lock{mutex_};
    listener = subscriber_;
    why_down_.clear();
    cause_ = {};
    line_.begin(link_->round_trip());
    ++stats_.connects;
  }
  if (listener != nullptr) listener->follow(link_->run_id());
  // Asks this node for the other nodes of the cluster now. If this node fails later, only these other nodes know which
  // node takes over its slots. A server without a cluster answers with an error, which has no effect.
  if (link_options_->asks_for_nodes && link_->may_be_in_cluster()) nodes_.ask(shared_from_this());
  act();
}

bool engine::link_reply(reply&& r) noexcept {
  has_answered_ = true;
  failures_ = 0;
  const change decisions{*this};
  last_read_ = time_->now();
  silent_at_ = time_point::max();
  if (sent_.empty()) return false;
  const auto [c, sent_at] = sent_.front();
  sent_.pop_front();
  line_.add(sent_at, last_read_);
  ++stats_.answered;
  std::error_code ec;
  if (r.is_error()) {
    const error e = error_of(r.text());
    ec = e;
    is_suspect_ = is_suspect_ || wants_other_server(e, !link_options_->where.master.empty());
  }
  if (c == nullptr) {
    --abandoned_;
    return true;
  }
  if (!c->is_restated_) --minding_;
  c->reply_ = std::move(r);
  finish(*c, ec);
  return true;
}

bool engine::link_wants_more() noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (!is_suspect_) return !sent_.empty();
  }
  act();
  return false;
}

void engine::link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept {
  const bool was_up = phase_ == phase::up;
  drop_link();
  // If an attempt to connect has failed, the delay counts from the beginning of that attempt. So after a long attempt,
  // the next one begins immediately, and finds a server that has come back.
  back_off(was_up ? time_->now() : dialed_at_);
  {
    const change decisions{*this};
    ++stats_.failures;
    cause_ = cause ? cause : ec;
    why_down_ = text_of([&] { return text; });
    if (was_up) {
      fail_sent(ec);
    } else if (is_permanent(ec, text)) {
      for (const auto& [c, sent_at] : waiting_) c->reply_ = reply{reply::kind::error, text_of([&] { return text; })};
      fail_all(waiting_, ec);
    }
  }
  act();
}

}  // namespace canigo::redis::detail
