// What a ledger does while Redis does not answer.
#include "canigo/detail/base/random.hpp"
#include "canigo/error.hpp"

#include "cause.hpp"
#include "engine_delivery.hpp"
#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {
namespace {

// Short, as the engine has delays of its own for what it can't reach: both together are less than 2 s.
constexpr backoff after_failures{.first = std::chrono::milliseconds{50}, .cap = std::chrono::milliseconds{500}};

// Longer than the longest of those: while somebody asks, one failure is known until the next.
constexpr duration known_for = std::chrono::seconds{1};

constexpr std::size_t most_untold = 1000;

// What is left of a deadline when it is nearly over.
constexpr duration last_moment = std::chrono::milliseconds{20};

}  // namespace

void ledger::recovered() noexcept {
  is_failing_ = is_permanent_ = is_wanted_ = false;
  cause_.clear();
  cause_text_.clear();
  failing_since_ = time_point::max();
  known_until_ = time_point::min();
  failures_ = 0;
  retry_at_ = time_point::min();
  has_share_ = false;
}

/// Whether it is the first.
bool ledger::begin_failure(std::error_code cause, std::string_view text) noexcept {
  const bool is_new = !std::exchange(is_failing_, true);
  cause_ = cause;
  is_permanent_ = is_permanent(cause, text);
  cause_text_ = text_of([&] {
    const std::string where = engine_->where();
    if (text.starts_with(where)) return std::string{text};
    return where + ": " + (text.empty() ? cause.message() : std::string{text});
  });
  if (is_new) failing_since_ = local_at_ = called_at_;
  return is_new;
}

/// This process's share of the rate, which it has from then on; nothing has gathered before.
void ledger::begin_share(time_point since) noexcept {
  if (options_.on_failure.what() != failure_mode::kind::local || std::exchange(has_share_, true)) return;
  const double share = options_.on_failure.share();
  const auto period = static_cast<double>(settings_.period) * 1000 / share;
  const auto longest = static_cast<double>(duration::max().count() / 2);
  local_ = token_bucket{
      canigo::rate{static_cast<std::int64_t>(settings_.tokens),
                   duration{static_cast<duration::rep>(std::min(period, longest))}},
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(settings_.burst) * share)), 0, since};
}

void ledger::failed(time_point now, std::error_code cause, std::string_view text) noexcept {
  const bool is_new = begin_failure(cause, text);
  begin_share(now);
  ++failures_;
  retry_at_ = saturating_add(now, after_failures.delay(failures_, canigo::detail::next_random(random_)));
  known_until_ = saturating_add(now, known_for);
  for (auto p = waiting_.begin(); p != waiting_.end();) {
    limit_waiter& w = *(p++)->second;
    if (const std::error_code why = refusal(w)) {
      take_out(w);
      finish(w, why);
    } else if (is_new) {
      limit(w);
    }
  }
  if (session_under_way_ != session_number_) return;
  if (!is_registered_ && cancels_.size() >= most_untold) {
    // None of it may ever have got there. What did goes with that session's lease.
    begin_session();
  } else {
    ask_again();
    must_tell_ = is_registered_;
  }
}

/// A call takes longer than what can't wait waits for it. What the connection says of why counts as its answer.
void ledger::answer_is_late(time_point now) noexcept {
  const bool was_failing = is_failing_;
  const bool has_trouble = !was_failing && engine_->has_trouble();
  if (has_trouble) {
    const auto [cause, text] = engine_->trouble();
    begin_failure(cause, text);
  }
  // Redis is away still, or is now, as far as is known until this call ends.
  if (is_failing_) known_until_ = time_point::max();
  begin_share(called_at_);
  for (auto p = waiting_.begin(); p != waiting_.end();) {
    limit_waiter& w = *(p++)->second;
    if (!w.waits_) {
      const std::error_code ec = decide_without_redis(w, now);
      take_out(w);
      finish(w, ec);
    } else if (has_trouble) {
      limit(w);
    }
  }
}

/// Whether it does not answer, as it seems by now.
bool ledger::is_away(time_point now) const noexcept {
  return is_failing_ || is_late(now) || (under_way_ && engine_->has_trouble());
}

/// What becomes of one that does not wait for the answer.
std::error_code ledger::decide_without_redis(const limit_waiter& w, time_point now) noexcept {
  if (is_closed_without()) return is_permanent_ ? cause_ : make_error_code(errc::store_unavailable);
  begin_share(called_at_);
  const bool is_open = options_.on_failure.what() == failure_mode::kind::open;
  if (now < paused_until_ || !(is_open || local_.try_take(now, w.wanted_.tokens))) return net::error::would_block;
  ++stats_.granted_locally;
  return {};
}

/// What an error says of a line that is too slow for the lease; nothing where it is not.
std::string ledger::why_slow() const {
  const duration took = std::max(slow_, engine_->shortest_round_trip());
  if (options_.rate || took <= longest_round_trip()) return {};
  return engine_->where() + ": a round trip takes " + to_string(took) + ", and a lease of " +
         to_string(options_.lease) + " stands " + to_string(longest_round_trip()) + " at most";
}

/// Whether who waits is to be served from here: Redis has failed a moment ago, or is being asked once more. A process
/// that was idle since then asks first, as Redis may have come back meanwhile.
bool ledger::may_do_without(time_point now) const noexcept {
  return is_failing_ && !is_closed_without() && now < known_until_;
}

/// What is said at once: to who does not wait for the next call, and to all where that would be told the same.
std::error_code ledger::refusal(const limit_waiter& w) const noexcept {
  if (!is_failing_ || !is_closed_without()) return {};
  if (is_permanent_) return cause_;
  return w.waits_ ? std::error_code{} : make_error_code(errc::store_unavailable);
}

/// When it ends if it is not granted: at its deadline, or once Redis has failed to answer for so long as it waits. One
/// that may do without Redis looks a little earlier whether it has to.
time_point ledger::end_of(const limit_waiter& w) const noexcept {
  const time_point deadline = w.wanted_.deadline;
  if (!is_closed_without()) {
    if (w.has_looked_ || deadline == time_point::max()) return deadline;
    return deadline - std::min(last_moment, (deadline - w.since_) / 4);
  }
  if (!is_failing_) return deadline;
  return std::min(deadline, saturating_add(std::max(w.since_, failing_since_), options_.give_up));
}

void ledger::limit(limit_waiter& w) noexcept {
  if (w.limit_armed_ && !time_->cancel(w.limit_)) return;  // it is being called just now, and looks itself
  const time_point end = end_of(w);
  w.limit_armed_ = end != time_point::max() && time_->arm(w.limit_, end);
}

/// Something was changed here, of which Redis is told for so long.
void ledger::must_be_told() noexcept {
  if (!context_gone_) tell_until_ = saturating_add(time_->now(), options_.give_up);
}

void ledger::fail(std::error_code ec) const {
  std::string text;
  std::shared_ptr<engine> node;
  {
    const std::lock_guard lock{mutex_};
    if (ec == errc::store_unavailable || ec == cause_) text = cause_text_;
    if (text.empty() && (ec == errc::lease_lost || ec == errc::timed_out)) text = why_slow();
    node = engine_;
  }
  if (text.empty() && ec == errc::store_unavailable) text = node->trouble().second;
  if (text.empty() && ec == errc::store_unavailable) text = node->where() + ": no answer in time";
  if (text.empty()) throw std::system_error{ec};
  throw std::system_error{ec, text};
}

void ledger::grant_without_redis(time_point now) noexcept {
  while (!waiting_.empty()) {
    limit_waiter& w = *waiting_.begin()->second;
    if (now < paused_until_) {
      local_at_ = paused_until_;
      return;
    }
    const std::error_code ec = decide_without_redis(w, now);
    if (ec && w.waits_) {
      local_at_ = local_.ready_at(now, w.wanted_.tokens);
      return;
    }
    take_out(w);
    finish(w, ec);
  }
}

}  // namespace canigo::redis::detail
