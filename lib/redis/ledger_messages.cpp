// The functions of ledger that handle the messages of Redis for a limit. Each message is a hint: the next call of the
// Redis script brings the same information.
#include "canigo/error.hpp"

#include "awake.hpp"
#include "engine_change.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace canigo::redis::detail {
namespace {

// How long the process waits before it subscribes again after Redis has refused the subscription.
constexpr duration refused_for = std::chrono::seconds{30};

}  // namespace

/// Begins or ends the subscription to the messages of this session. If there is no memory for that, the next step tries
/// again; see next_step().
void ledger::listen(bool wanted) noexcept {
  if (wanted ? is_listening() : listening_to_ == 0) return;
  try {
    if (listening_to_ != 0) {
      // subscriptions() returns null if the client is closed.
      if (const auto s = listening_at_->subscriptions()) s->remove(channel(listening_to_));
      stop_listening();
      unheard_.clear();
      unheard_text_.clear();
    }
    if (!wanted) return;
    const auto s = engine_->subscriptions();
    if (s == nullptr) return;
    s->add(channel(session_.number()), std::weak_ptr<subscription>{shared_from_this()});
    listening_to_ = session_.number();
    listening_at_ = engine_;
  } catch (...) {
    // An exception is ignored, because the limit works without messages.
  }
}

/// Called if an answer of Redis reports a grant, but no message has reported this grant. The message may be lost or
/// late, or the subscription may be broken. So this function checks the subscription, at most once per third of a
/// lease.
void ledger::check_listening(time_point now) noexcept {
  if (!is_listening() || now < check_after_) return;
  try {
    if (const auto s = listening_at_->subscriptions()) s->check(channel(listening_to_));
    check_after_ = saturating_add(now, options_.lease / 3);
  } catch (...) {
    // There was no memory to check the subscription. The next missed message starts another check.
  }
}

void ledger::subscribed() noexcept {
  const change c{*this};
  // Messages from before the subscription are lost, so a call must ask Redis for the grants that they reported.
  plan_.hint();
  is_subscribed_ = listening_to_ != 0;
  unheard_.clear();
  unheard_text_.clear();
}

/// Called if the server has refused the subscription. After that, only calls of the Redis script bring grants. This
/// process makes such a call at the latest when a third of the lease is over, to renew the lease.
void ledger::refused(std::error_code ec, const std::string& text) noexcept {
  const change c{*this};
  if (context_gone_) return;
  stop_listening();
  listen_after_ = saturating_add(time_->now(), refused_for);
  note_unheard(ec, text);
}

void ledger::unheard(std::error_code ec, const std::string& text) noexcept {
  const change c{*this};
  // If the subscription was ended since this event was posted, the event is ignored.
  if (!context_gone_ && listening_to_ != 0) note_unheard(ec, text);
}

void ledger::note_unheard(std::error_code ec, const std::string& text) noexcept {
  is_subscribed_ = false;
  unheard_ = ec;
  unheard_text_ = text_of(
      [&] { return engine_->where() + ": messages can't be listened to: " + (text.empty() ? ec.message() : text); });
}

void ledger::published(std::string_view message) noexcept {
  const change c{*this};
  if (message.size() < 3 || !session_.lasts(awake_or_not())) return;
  const auto what = message.front();
  message.remove_prefix(2);
  const auto space = message.find(' ');
  const std::uint64_t id = number(message.substr(0, space));
  const auto last = message.rfind(' ');
  // `r` is null if this process does not know the request. Such a request was granted or cancelled earlier, and Redis
  // may have forgotten that.
  limit_request* const r = book_.find(id);
  if (what == 't') {
    const auto in = static_cast<std::int64_t>(std::min<std::uint64_t>(id, INT64_MAX));
    plan_.is_useful_at(saturating_add(time_->now(), us(in)));
  } else if (what == 'g' && space != std::string_view::npos) {
    if (number(message.substr(last + 1)) != static_cast<std::uint64_t>(session_.epoch())) {
      // The epochs differ: Redis has forgotten a cancellation, or this process does not know the new epoch yet. The
      // next call of the Redis script finds out which of the two is true.
      plan_.hint();
    } else if (r != nullptr) {
      // If the limit has alternatives, the message is "id token alternative epoch"; otherwise "id token epoch".
      const std::string_view behind = message.substr(space + 1);
      const std::uint64_t from = has_alternatives() ? number(behind.substr(std::min(behind.find(' '), last) + 1)) : 1;
      grant(waiter_of(*r), static_cast<std::int64_t>(number(behind)), static_cast<std::size_t>(from - 1));
    } else if (!book_.is_told_of(id)) {
      plan_.hint();  // the next call of the Redis script finds out whether the grant belongs to a request
    }
  } else if (what == 'x') {
    if (r != nullptr) grant(waiter_of(*r), 0, 0);
  } else if (what == 'b') {
    // Another process waits for permits or tokens that are idle in this process. A later answer of Redis reports when
    // no process waits any more.
    stats_.waiting_of_all = std::max<std::size_t>(stats_.waiting_of_all, 1);
    give_back_idle();
  } else if (what == 'h') {
    plan_.hint();
  }
}

}  // namespace canigo::redis::detail
