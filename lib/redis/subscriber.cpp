#include "subscriber.hpp"

#include "canigo/detail/base/random.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/error.hpp"

#include <asio/post.hpp>

#include <chrono>
#include <random>
#include <utility>

namespace canigo::redis::detail {
namespace {

using clock = net::steady_timer::clock_type;

constexpr duration linger = std::chrono::seconds{1};

}  // namespace

subscriber::subscriber(net::any_io_executor strand, std::shared_ptr<const link_options> options,
                       const backoff& reconnect)
    : strand_{std::move(strand)},
      options_{std::move(options)},
      reconnect_{reconnect},
      timer_{strand_},
      silence_{strand_},
      random_{std::random_device{}()} {}

void subscriber::add(std::string channel, std::weak_ptr<subscription> s) {
  net::post(strand_, [self = shared_from_this(), channel = std::move(channel), s = std::move(s)]() mutable {
    self->change([&] {
      self->channels_[channel] = std::move(s);
      if (self->is_up_) self->ask_for(channel, "SUBSCRIBE");
    });
  });
}

void subscriber::remove(std::string channel) {
  net::post(strand_, [self = shared_from_this(), channel = std::move(channel)] {
    self->change([&] {
      if (self->channels_.erase(channel) != 0 && self->is_up_) self->ask_for(channel, "UNSUBSCRIBE");
    });
  });
}

void subscriber::check(std::string channel) {
  net::post(strand_, [self = shared_from_this(), channel = std::move(channel)] {
    self->change([&] { self->listen_for_anything(channel); });
  });
}

void subscriber::follow(const std::string& run_id) noexcept {
  if (!is_up_ || run_id.empty() || link_->run_id().empty() || link_->run_id() == run_id) return;
  link_down(make_error_code(error::connection_lost), {}, {});
}

void subscriber::close() noexcept {
  is_closing_ = true;
  channels_.clear();
  if (const auto l = std::exchange(link_, nullptr)) l->close();
  is_up_ = false;
  heard();
  timer_->cancel();
}

void subscriber::shut_down() noexcept {
  channels_.clear();
  if (const auto l = std::exchange(link_, nullptr)) l->close();
  timer_.reset();
  silence_.reset();
  strand_ = {};
}

template <class Change>
void subscriber::change(Change c) noexcept {
  // after close() no link is made, because a link and its listener own each other and would never be destroyed
  if (is_closing_) return;
  try {
    c();
    act();
  } catch (...) {
    link_down(make_error_code(error::connection_lost), {}, {});
  }
}

void subscriber::act() {
  if (is_waiting_ && channels_.empty() == is_up_) return;
  if (channels_.empty()) {
    if (link_ != nullptr) {
      wait(linger);
    } else if (is_waiting_) {
      timer_->cancel();  // the timer is cancelled, because a running timer would keep the event loop running
    }
  } else if (link_ == nullptr) {
    const time_point now = clock::now();
    if (now < not_before_) return wait(not_before_ - now);
    link_ = std::make_shared<link>(strand_, options_, std::shared_ptr<link_listener>{shared_from_this(), this});
    asked_.clear();
    link_->dial();
  }
}

void subscriber::ask_for(const std::string& channel, const char* what) {
  asked_.push_back(channel);
  link_->send(command{what, channel}.encoded());
}

void subscriber::wait(duration d) {
  timer_->expires_after(d);
  timer_->async_wait([self = shared_from_this()](std::error_code) {
    self->is_waiting_ = false;
    if (self->channels_.empty()) {
      if (const auto l = std::exchange(self->link_, nullptr)) l->close();
      self->is_up_ = false;
      self->heard();
    } else {
      self->change([] {});
    }
  });
  is_waiting_ = true;
}

void subscriber::listen_for_anything(const std::string& channel) {
  if (!is_up_ || is_asked_ || !channels_.contains(channel)) return;
  // Sends SUBSCRIBE for a channel that is subscribed to already. That changes nothing, but the server must answer it.
  // If no answer comes, the connection counts as broken.
  ask_for(channel, "SUBSCRIBE");
  expect_anything();
}

void subscriber::expect_anything() {
  silence_->expires_after(options_->connect_timeout);
  silence_->async_wait([self = shared_from_this()](std::error_code ec) {
    if (!ec && self->is_asked_ && self->silence_->expiry() <= clock::now()) {
      self->link_down(make_error_code(error::connection_lost), make_error_code(errc::timed_out), {});
    }
  });
  is_asked_ = true;
}

void subscriber::heard() noexcept {
  if (std::exchange(is_asked_, false)) silence_->cancel();
}

void subscriber::link_up() noexcept {
  is_up_ = true;
  change([this] {
    const auto l = link_;  // keeps the link alive, because each call of ask_for() may end it
    for (auto it = channels_.begin(); it != channels_.end() && is_up_; ++it) ask_for(it->first, "SUBSCRIBE");
    if (is_up_ && !channels_.empty()) expect_anything();
    l->read();
  });
}

bool subscriber::link_reply(reply&& r) noexcept {
  heard();
  if (r.is_error()) return was_refused(r.text());
  const auto& parts = r.elements();
  if (parts.size() != 3) return false;
  const auto& what = parts[0].text();
  if (what != "message" && !asked_.empty()) asked_.pop_front();
  failures_ = 0;  // reset here, not after the login: after the login, the server may still reject the subscription
  const auto found = channels_.find(parts[1].text());
  // if the channel was removed after the server had sent the message, the message is dropped
  if (found == channels_.end()) return true;
  const auto who = found->second.lock();
  if (who == nullptr) return true;
  if (what == "subscribe") who->subscribed();
  if (what == "message") who->published(parts[2].text());
  return true;
}

bool subscriber::was_refused(const std::string& text) noexcept {
  if (asked_.empty()) return false;
  const auto found = channels_.find(asked_.front());
  asked_.pop_front();
  if (found == channels_.end()) return true;
  const auto who = found->second.lock();
  channels_.erase(found);
  if (who != nullptr) who->refused(make_error_code(error_of(text)), text);
  change([] {});
  return true;
}

void subscriber::link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept {
  is_up_ = false;
  for (const auto& [channel, s] : channels_) {
    if (const auto who = s.lock()) who->unheard(cause ? cause : ec, text);
  }
  heard();
  if (const auto l = std::exchange(link_, nullptr)) l->close();
  ++failures_;
  const duration delay = reconnect_.delay(failures_, canigo::detail::next_random(random_));
  not_before_ = saturating_add(clock::now(), delay);
  try {
    if (!channels_.empty() && !is_waiting_) wait(delay);
  } catch (...) {
    // There was no memory for the timer that starts the next connection. The next call of add() makes the connection.
  }
}

}  // namespace canigo::redis::detail
