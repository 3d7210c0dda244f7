// What a ledger does while Redis does not answer.
#include "canigo/detail/random.hpp"
#include "canigo/error.hpp"

#include "ledger.hpp"
#include "ledger_change.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <system_error>

namespace canigo::redis::detail {
namespace {

constexpr backoff after_failures{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{5}};

constexpr std::size_t most_untold = 1000;

}  // namespace

void ledger::failed(time_point now, std::error_code other_form) noexcept {
  other_form_ = other_form;
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
  retry_at_ = saturating_add(now, after_failures.delay(failures_, canigo::detail::next_random(random_)));
  if (session_under_way_ != session_number_) return;
  if (!is_registered_ && cancels_.size() >= most_untold) {
    // None of it may ever have got there. What did goes with that session's lease.
    begin_session();
  } else {
    ask_again();
    must_tell_ = is_registered_;
  }
  for (auto p = waiting_.begin(); p != waiting_.end();) {
    limit_waiter& w = *(p++)->second;
    const std::error_code why = refusal(w);
    if (!why) continue;
    take_out(w);
    finish(w, why);
  }
}

/// What is said at once: to who does not wait for the next call, and to all where that would be told the same.
std::error_code ledger::refusal(const limit_waiter& w) const noexcept {
  if (!is_failing_ || options_.on_failure.what() != failure_mode::kind::closed) return {};
  if (other_form_) return other_form_;
  return w.waits_ ? std::error_code{} : make_error_code(errc::store_unavailable);
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

}  // namespace canigo::redis::detail
