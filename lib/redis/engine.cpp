// The functions of a client's engine that any thread may call.
#include "engine.hpp"

#include "canigo/algorithms/backoff.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/error.hpp"

#include "engine_change.hpp"

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <utility>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;

std::shared_ptr<const link_options> checked(std::string_view url, const client_options& o) {
  const auto positive = [](std::string_view field, duration d) {
    if (d <= duration::zero()) throw_invalid(std::string{"client_options."}.append(field), d, "more than 0");
  };
  positive("connect_timeout", o.connect_timeout);
  positive("timeout", o.timeout);
  canigo::detail::check(o.reconnect, "client_options.reconnect");
  if (o.queue_limit < 1) throw_invalid("client_options.queue_limit", o.queue_limit, "1 or more");
  if (o.max_reply < 1024) throw_invalid("client_options.max_reply", o.max_reply, "1024 or more");
  if (o.name.find_first_of(" \r\n") != std::string::npos) {
    throw_invalid("client_options.name", o.name, "text without spaces");
  }
  if (o.cert_file.empty() && !o.key_file.empty()) {
    throw_invalid("client_options.key_file", o.key_file, "nothing where cert_file is empty");
  }
  const auto where = endpoint::parse(url);
  const bool has_own = !o.sentinel_user.empty() || !o.sentinel_password.empty();
  return std::make_shared<const link_options>(link_options{
      .where = where,
      .tls = {.verify = o.verify_tls, .ca_file = o.ca_file, .cert_file = o.cert_file, .key_file = o.key_file},
      .name = o.name,
      .connect_timeout = o.connect_timeout,
      .max_reply = o.max_reply,
      .sentinel_login = has_own ? login_of(o.sentinel_user, o.sentinel_password) : login_of(where.user, where.password),
      .is_sentinel_login_first = has_own});
}

}  // namespace

net::any_io_executor strand_on(const net::any_io_executor& executor) {
  const net::any_io_executor inner = canigo::detail::context_executor(executor);
  if (const auto* io = canigo::detail::target_of<net::io_context::executor_type>(inner)) return net::make_strand(*io);
  return net::make_strand(inner);
}

std::shared_ptr<engine> engine::open(const net::any_io_executor& executor, std::string_view url,
                                     const client_options& options) {
  return open(executor, checked(url, options), options);
}

std::shared_ptr<engine> engine::open(const net::any_io_executor& executor, std::shared_ptr<const link_options> link,
                                     const client_options& options) {
  auto* made = new engine{executor, std::move(link), options};
  made->join();
  return {made, [](engine* last) noexcept { last->release_ref(); }};
}

engine::engine(const net::any_io_executor& executor, std::shared_ptr<const link_options> link,
               const client_options& options)
    : delivery{executor},
      link_options_{std::move(link)},
      reconnect_{options.reconnect},
      timeout_{options.timeout},
      queue_limit_{options.queue_limit},
      strand_{strand_on(executor)},
      nodes_{*this, link_options_, options},
      turn_{strand_},
      alarm_{*time_, [](engine& e) { e.alarm_called(); }},
      random_{std::random_device{}()} {}

void engine::let_go_of_context() noexcept {
  // Normally a posted function shuts the subscriber down. A context that is being destroyed destroys this function
  // without calling it. So the subscriber is shut down here. Until then, the subscriber and its link own each other.
  if (const auto s = std::exchange(subscriber_, nullptr)) s->shut_down();
  strand_ = {};
  delivery::let_go_of_context();
}

void engine::end_with_context() noexcept {
  canigo::detail::suspended_list doomed;
  std::shared_ptr<subscriber> listener;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = closing_ = true;
    for (calls* list : {&waiting_, &sent_}) {
      for (const auto& [c, sent_at] : *list) {
        if (c == nullptr) continue;
        std::ignore = time_->cancel(c->deadline_);
        doomed.push(*c);
      }
      list->clear();
    }
    doomed.append(take_all());
    listener = std::exchange(subscriber_, nullptr);
  }
  const auto self = alarm_.disarm();
  const auto link = std::exchange(link_, nullptr);
  if (link != nullptr) link->close();
  if (listener != nullptr) listener->shut_down();
  {
    // The lock is held, because another thread may be in close() at the same time.
    const std::lock_guard lock{mutex_};
    let_go_of_context();
  }
  // The waiting coroutines are destroyed without the lock, because their frames may own any object, including this
  // client.
  while (auto* s = doomed.pop()) s->destroy();
}

void engine::start(call& c) noexcept {
  {
    const change decisions{*this};
    if (!context_gone_) {
      if (!c.error_ && closing_) c.error_ = errc::stopped;
      if (!c.error_ && waiting_.size() + sent_.size() >= queue_limit_) c.error_ = errc::queue_full;
      if (!c.error_) {
        try {
          c.place_ = waiting_.insert(waiting_.end(), call_place{&c});
        } catch (...) {
          c.error_ = errc::not_enough_memory;
        }
      }
      if (c.error_) return finish(c, c.error_);
      c.deadline_.set(*time_, saturating_add(time_->now(), c.timeout_.value_or(timeout_)));
      want_turn();
      return;
    }
  }
  c.destroy();
}

void engine::cancel(call& c) noexcept {
  const change decisions{*this};
  if (c.deadline_.has_ended()) return;
  take_out(c);
  want_turn();
  finish(c, net::error::operation_aborted);
}

void engine::time_is_up(call& c, due why) noexcept {
  if (why == due::shutdown) return;
  const change decisions{*this};
  if (c.deadline_.rang()) return post_kept(c);
  const bool was_sent = c.sent_at_ != time_point::max();
  const time_point now = time_->now();
  const duration limit = c.timeout_.value_or(timeout_);
  if (was_sent && c.is_restated_ && now - c.sent_at_ < limit) {
    c.deadline_.set(*time_, saturating_add(c.sent_at_, limit));
    return;
  }
  take_out(c);
  want_turn();
  if (!was_sent) {
    c.cause_ = cause_;
    c.reply_ = reply{reply::kind::error, text_of([&] { return why_down("no connection in time"); })};
  } else {
    silent_at_ = std::min(silent_at_, end_of_patience(limit));
  }
  finish(c, was_sent ? errc::timed_out : errc::store_unavailable);
}

/// Returns the time from which the connection counts as dead, unless a byte arrives on it earlier. Called after a call
/// on the connection has timed out. `waited`: the time limit of that call.
///
/// Closing the connection loses the results of all other sent calls. This loss does no harm if later calls repeat the
/// content of all these calls. In that case the connection may be silent for `waited`, but at most for enough_silence.
/// If the loss does harm, the connection may be silent for the connect timeout. In both cases the silence may last at
/// least line_.allowance().
time_point engine::end_of_patience(duration waited) const noexcept {
  const duration enough = minding_ == 0 ? std::min(waited, enough_silence) : link_options_->connect_timeout;
  return saturating_add(std::max(last_read_, sent_.front().sent_at), std::max(enough, line_.allowance()));
}

bool engine::has_trouble() const noexcept {
  const std::lock_guard lock{mutex_};
  return static_cast<bool>(cause_);
}

duration engine::answer_within() const noexcept {
  const std::lock_guard lock{mutex_};
  return phase_ == phase::up ? line_.allowance() : 2 * line_.allowance();
}

duration engine::shortest_round_trip() const noexcept {
  const std::lock_guard lock{mutex_};
  return line_.shortest();
}

void engine::close() noexcept {
  nodes_.close();
  const change decisions{*this};
  closing_ = true;
  want_turn();
}

/// Returns the reason why there is no connection, or `otherwise` if no reason is known. Precondition: the lock is held.
std::string engine::why_down(const char* otherwise) const {
  return where() + ": " + (!why_down_.empty() ? why_down_ : cause_ ? cause_.message() : otherwise);
}

std::string engine::where() const { return link_options_->where.to_string(); }

std::pair<std::error_code, std::string> engine::trouble() const noexcept {
  const std::lock_guard lock{mutex_};
  return {cause_, cause_ ? text_of([&] { return why_down(""); }) : std::string{}};
}

client_stats engine::stats() const {
  const std::lock_guard lock{mutex_};
  client_stats s = stats_;
  if (cause_) s.last_error = why_down("");
  s.waiting = waiting_.size();
  s.in_flight = sent_.size();
  return s;
}

std::shared_ptr<subscriber> engine::subscriptions() {
  const std::lock_guard lock{mutex_};
  if (subscriber_ == nullptr && !closing_) {
    subscriber_ = std::make_shared<subscriber>(strand_, link_options_, reconnect_);
  }
  return subscriber_;
}

/// Removes a waiting call from its list. The list entry of a sent call stays, but no longer refers to the call. The
/// call's reply needs that entry later.
void engine::take_out(call& c) noexcept {
  if (c.sent_at_ == time_point::max()) {
    waiting_.erase(c.place_);
  } else {
    c.place_->whose = nullptr;
    ++abandoned_;
    if (!c.is_restated_) --minding_;
  }
}

void engine::finish(call& c, std::error_code ec) noexcept {
  c.error_ = ec;
  if (c.deadline_.end(*time_)) post_kept(c);  // if end() returns false, the deadline's handler posts the call later
}

void engine::fail_all(calls& list, std::error_code ec) noexcept {
  while (!list.empty()) {
    call* c = list.front().whose;
    list.pop_front();
    if (c != nullptr) finish(*c, ec);
  }
}

void engine::fail_sent(std::error_code first) noexcept {
  while (!sent_.empty()) {
    call* c = sent_.front().whose;
    sent_.pop_front();
    if (c == nullptr) continue;
    finish(*c, first);
    first = error::connection_lost;
  }
  abandoned_ = minding_ = 0;
  silent_at_ = time_point::max();
}

void engine::want_turn() noexcept {
  if (!context_gone_ && turn_.ask(shared_from_this())) post_kept(turn_);
}

void engine::alarm_called() noexcept {
  const change decisions{*this};
  alarm_rang_ = true;
  want_turn();
}

}  // namespace canigo::redis::detail
