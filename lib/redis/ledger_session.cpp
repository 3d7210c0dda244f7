// The ledger's sessions, and what Redis tells them.
#include "canigo/error.hpp"

#include "engine_delivery.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string>

namespace canigo::redis::detail {
namespace {

using std::chrono::microseconds;

// So long nobody asks again to listen to what may not be listened to.
constexpr duration refused_for = std::chrono::seconds{30};

}  // namespace

/// Nobody knows the new one: it holds nothing, and all who wait stand in no queue. Their names are new too, or a late
/// message to the old one could grant what is not ours.
void ledger::begin_session() noexcept {
  listen(false);
  ++session_number_;
  char digits[20];
  session_.assign(session_base_).append(digits, std::to_chars(digits, digits + 20, session_number_).ptr);
  sequence_ = 0;
  is_registered_ = must_tell_ = may_hold_there_ = false;
  cancels_.clear();
  acknowledged_.clear();
  for (const auto& [place, w] : waiting_) {
    auto node = by_id_.extract(w->id_);
    w->id_ = next_id_++;
    w->is_known_ = false;
    node.key() = w->id_;
    by_id_.insert(std::move(node));
  }
  ask_again();
}

/// One that Redis still knows keeps its place.
void ledger::ask_again() noexcept { fresh_.merge(asked_); }

void ledger::lose_session() noexcept {
  for (const auto& [id, weak] : holdings_) {
    if (const auto h = weak.lock()) {
      h->now = holding::state::lost;
      h->next_to_tell = std::exchange(ended_, h);
    }
    ++stats_.lost_leases;
  }
  holdings_.clear();
  held_ = 0;
  if (!options_.rate) idle_ = 0;
  begin_session();
}

void ledger::tell_later(std::shared_ptr<holding> h) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return;
  h->next_to_tell = std::move(ended_);
  ended_ = std::move(h);
  set_alarm(saturating_add(time_->now(), delivery_retry));
}

/// Without memory for it the next step tries again.
void ledger::listen(bool wanted) noexcept {
  const std::uint64_t to = wanted ? session_number_ : 0;
  if (to == listening_to_) return;
  try {
    const auto s = engine_->subscriptions();
    if (s == nullptr) return;
    if (listening_to_ != 0) s->remove(channel(listening_to_));
    listening_to_ = 0;
    if (wanted) s->add(channel(to), std::weak_ptr<subscription>{shared_from_this()});
    listening_to_ = to;
  } catch (...) {
    // A message is a hint only.
  }
}

/// Something was published for us and has not come, or not yet: perhaps nothing does any more.
void ledger::check_listening(time_point now) noexcept {
  if (listening_to_ != session_number_ || now < check_after_) return;
  try {
    if (const auto s = engine_->subscriptions()) s->check(channel(session_number_));
    check_after_ = saturating_add(now, options_.lease / 3);
  } catch (...) {
    // No memory: the next that is missed leads here again.
  }
}

void ledger::subscribed() noexcept {
  const change c{*this};
  // What was published before is in Redis as well.
  is_hinted_ = true;
  unheard_.clear();
  unheard_text_.clear();
}

/// Then the calls that are made anyhow bring what there is, a third of a lease late at most.
void ledger::refused(std::error_code ec, const std::string& text) noexcept {
  const change c{*this};
  if (context_gone_) return;
  listening_to_ = 0;
  listen_after_ = saturating_add(time_->now(), refused_for);
  unheard_ = ec;
  unheard_text_ = text_of([&] { return engine_->where() + ": messages can't be listened to: " + text; });
}

void ledger::published(std::string_view message) noexcept {
  const change c{*this};
  if (message.size() < 3 || awake_or_not() >= lease_until_) return;
  const auto what = message.front();
  message.remove_prefix(2);
  const auto space = message.find(' ');
  const std::uint64_t id = number(message.substr(0, space));
  const auto last = message.rfind(' ');
  // One that is not here has it already, or does not want it any more; or Redis has forgotten that.
  const auto found = by_id_.find(id);
  if (what == 't') {
    next_at_ = std::min(next_at_, saturating_add(time_->now(), microseconds{static_cast<std::int64_t>(id)}));
  } else if (what == 'g' && space != std::string_view::npos) {
    if (number(message.substr(last + 1)) != static_cast<std::uint64_t>(epoch_)) {
      is_hinted_ = true;  // Redis has forgotten it, or we have not heard of the new epoch
    } else if (found == by_id_.end()) {
      is_hinted_ = !is_told_of(id) || is_hinted_;  // an answer will say whether it is held by nobody
    } else {
      grant(*found->second, static_cast<std::int64_t>(number(message.substr(space + 1))));
    }
  } else if (what == 'x') {
    if (found != by_id_.end()) grant(*found->second, 0);
  } else if (what == 'b') {
    // Somebody waits for what lies idle here. An answer will say when nobody does any more.
    stats_.waiting_of_all = std::max<std::size_t>(stats_.waiting_of_all, 1);
    give_back_idle();
  } else if (what == 'h') {
    is_hinted_ = true;
  }
}

/// Token 0: it weighs more than there is; -1: not now.
void ledger::grant(limit_waiter& w, std::int64_t token) {
  const std::uint64_t id = w.id_;
  if (token > 0) {
    last_token_ = std::max(last_token_, static_cast<std::uint64_t>(token));
    if (!options_.rate) {
      try {
        w.granted_ = hold(id, w.wanted_.tokens, static_cast<std::uint64_t>(token));
      } catch (...) {
        // As if it were cancelled: Redis takes it back.
        take_out(w);
        return finish(w, errc::not_enough_memory);
      }
    }
  }
  w.is_known_ = false;
  take_out(w);
  if (token > 0) acknowledged_.push_back(id);
  const std::error_code refused = token < 0 ? net::error::would_block : make_error_code(errc::too_large);
  finish(w, token > 0 ? std::error_code{} : refused);
}

permit ledger::hold(std::uint64_t id, std::uint64_t weight, std::uint64_t token) {
  auto h = std::make_shared<holding>();
  h->home = shared_from_this();
  h->id = id;
  h->weight = weight;
  h->token = token;
  holdings_.emplace(id, h);
  held_ += weight;
  may_hold_there_ = true;
  return permit{std::move(h)};
}

}  // namespace canigo::redis::detail
