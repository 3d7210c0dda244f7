#include "canigo/error.hpp"

#include "engine.hpp"

#include <asio/error.hpp>
#include <asio/prefer.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <utility>

// The functions of engine that start a transfer, watch its deadlines, and give its result to its caller.

namespace canigo::http::detail {
namespace {

/// Whether the text of an error with this code should name the host. The text for a malformed URL should not, because
/// such a URL may have any text in the host's place.
bool is_of_host(std::error_code ec) noexcept {
  return ec != errc::stopped && ec != errc::invalid_argument && ec != errc::not_enough_memory &&
         ec != error::malformed_url && ec != error::unsupported_protocol;
}

}  // namespace

void engine::begin(transfer& t) noexcept {
  if (t.error_) return finish(t, t.error_);
  if (!multi_.is_open()) return finish(t, errc::stopped);
  if (t.request_.timeout && *t.request_.timeout <= duration::zero()) return finish(t, errc::invalid_argument);
  set_timeout(t, t.sent_at_);
  try {
    queue_.push(t);
    if (!work_guard_) work_guard_ = net::prefer(loop_executor_, net::execution::outstanding_work.tracked);
  } catch (...) {
    finish(t, errc::not_enough_memory);
  }
}

void engine::start_waiting_ones() noexcept {
  while (transfer* t = queue_.next()) {
    std::error_code ec;
    try {
      ec = hand_to_curl(*t);
    } catch (const std::system_error& e) {
      ec = e.code();
    } catch (...) {
      ec = errc::not_enough_memory;
    }
    if (ec) finish(*t, ec);
  }
}

std::error_code engine::hand_to_curl(transfer& t) {
  if (const auto ec = multi_.add(t)) return ec;
  const time_point now = time_->now();
  t.response_.timing.queued = time_between(t.sent_at_, now);
  t.connect_by_ = saturating_add(now, options_.connect_timeout);
  set_deadline(t);
  return {};
}

void engine::set_deadline(transfer& t) noexcept {
  const time_point when = t.connected_ ? t.done_by_ : std::min(t.connect_by_, t.done_by_);
  // If the deadline expires during this call, its event in the mailbox leads to deadline_passed(). That function sets
  // the deadline again, or ends the transfer.
  t.deadline_.set(*time_, when);
}

void engine::set_timeout(transfer& t, time_point begin) noexcept {
  t.done_by_ = saturating_add(begin, t.request_.timeout.value_or(options_.timeout));
  set_deadline(t);
}

std::string engine::passed_limit(const transfer& t) const noexcept {
  const bool is_connecting = t.easy_ != nullptr && !t.connected_;
  const auto* missing = t.easy_ == nullptr            ? "one of the client's connections was free"
                        : is_connecting               ? easy_handle::of(t).missing_to_send()
                        : t.response_.headers.empty() ? "a header of the response came"
                                                      : "the response was complete";
  try {
    if (is_connecting && t.connect_by_ <= t.done_by_) return easy_handle::of(t).passed_connect_timeout();
    const bool is_own = t.request_.timeout.has_value();
    return (is_own ? "request.timeout of " : "client_options.timeout of ") +
           to_string(is_own ? *t.request_.timeout : options_.timeout) + " passed before " + missing;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

bool engine::deadline_passed(transfer& t) noexcept {
  // Before the connection exists, the deadline is the end of the connect timeout or of the request's timeout, whichever
  // comes first. So one of the two timeouts has passed, and done_by_ need not be compared.
  if (!t.connected_ || time_->now() >= t.done_by_) {
    if (!t.is_left()) t.response_.problem = passed_limit(t);
    give_up(t, errc::timed_out);
    return true;
  }
  set_deadline(t);
  return false;
}

void engine::head_came(transfer& t) noexcept {
  time_of_caller_begins(t);
  has_news(t);
}

void engine::time_of_caller_begins(transfer& t) noexcept {
  t.done_by_ = time_point::max();
  set_deadline(t);
}

step* engine::waiting_step(const stream& s) const noexcept {
  const std::lock_guard lock{mutex_};
  return s.waiting_;
}

void engine::tell(stream& s) {
  step* w = nullptr;
  {
    const std::lock_guard lock{mutex_};
    const bool has_ended = s.deadline_.has_ended();
    if (s.waiting_ == nullptr || !s.waiting_->settle(s, has_ended)) return;
    w = std::exchange(s.waiting_, nullptr);
    // From now on the caller may release the stream. If the stream has ended, the release destroys it. So a stream that
    // has ended is removed from the engine's lists here.
    if (has_ended) {
      transfer_mail_.remove(s);
      transfers_.remove(s);
    }
  }
  try {
    w->post();
  } catch (...) {
    const std::lock_guard lock{mutex_};
    s.waiting_ = w;
    throw;
  }
}

void engine::resume(transfer& t) noexcept {
  if (!t.is_stream() || t.easy_ == nullptr) return;
  has_news(t);
  if (t.has_written_all() && t.connected_ && t.done_by_ == time_point::max() && !easy_handle::of(t).has_told_head()) {
    set_timeout(t, time_->now());
  }
  t.read_ahead();
  if (const auto ec = multi_.resume(t)) finish(t, ec);
}

void engine::read_results() noexcept {
  while (const auto o = multi_.next_outcome()) {
    const auto ec = multi_.remove(*o->ended, o->result);
    finish(*o->ended, o->error ? o->error : ec);
  }
}

std::string engine::with_place(const transfer& t, std::error_code ec) noexcept {
  const std::string& problem = t.response_.problem;
  try {
    const std::string host =
        is_of_host(ec) ? host_in(t.response_.url.empty() ? t.request_.url : t.response_.url) : std::string{};
    if (host.empty()) return problem;
    std::string text = (host_queue::is_waiting(t) ? "in the queue for " : "at ") + host;
    return problem.empty() ? text : text + ", " + problem;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void engine::give_up(transfer& t, std::error_code ec) noexcept {
  const duration more = t.lingers();
  // If the request has `linger`, and curl has sent the whole request, the server may be working on the request. Then
  // the transfer continues for a while without its caller. In all other cases the transfer ends now, and the rest of
  // the body is not sent.
  if (more == duration::zero() || t.easy_ == nullptr || !easy_handle::of(t).has_sent_all()) return finish(t, ec);
  easy_handle::of(t).send_no_more();
  t.done_by_ = saturating_add(time_->now(), more);
  set_deadline(t);
  t.leave(ec, with_place(t, ec));
}

void engine::finish(transfer& t, std::error_code ec) noexcept {
  if (t.easy_ != nullptr) multi_.abort(t);
  if (ec) t.response_.problem = with_place(t, ec);
  queue_.remove(t);
  {
    const std::lock_guard lock{mutex_};
    ++stats_.finished;
    note_stats();
    t.error_ = ec;
  }
  hand_over(t);
}

void engine::hand_over(transfer& t) noexcept {
  undelivered_.remove(t);
  {
    const std::lock_guard lock{mutex_};
    // If the transfer's deadline expires at this moment, end() returns false. The event of the deadline in the mailbox
    // then leads to another call of hand_over().
    if (!t.deadline_.end(*time_)) return;
    transfer_mail_.remove(t);
    transfers_.remove(t);
  }
  try {
    t.post();
  } catch (...) {
    const std::lock_guard lock{mutex_};
    transfers_.push(t);
    undelivered_.push(t);
  }
}

void engine::deliver() noexcept {
  linked_list<transfer, in_delivery> list{std::move(undelivered_)};
  while (transfer* t = list.pop()) {
    if (t->deadline_.has_ended()) {
      hand_over(*t);
      continue;
    }
    try {
      t->tell();
    } catch (...) {
      undelivered_.push(*t);
    }
  }
}

}  // namespace canigo::http::detail
