#include "engine.hpp"

#include "canigo/detail/post.hpp"
#include "canigo/error.hpp"

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/ssl/error.hpp>
#include <asio/strand.hpp>

#include <algorithm>
#include <mutex>
#include <random>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;

constexpr duration delivery_retry = std::chrono::milliseconds{1};
constexpr duration longest_wait_for_abandoned = std::chrono::seconds{1};

std::shared_ptr<const link_options> checked(std::string_view url, const client_options& o) {
  const auto positive = [](std::string_view field, duration d) {
    if (d <= duration::zero()) throw_invalid(std::string{"client_options."}.append(field), d, "more than 0");
  };
  positive("connect_timeout", o.connect_timeout);
  positive("timeout", o.timeout);
  if (o.queue_limit < 1) throw_invalid("client_options.queue_limit", o.queue_limit, "1 or more");
  if (o.max_reply < 1024) throw_invalid("client_options.max_reply", o.max_reply, "1024 or more");
  if (o.name.find_first_of(" \r\n") != std::string::npos) {
    throw_invalid("client_options.name", o.name, "text without spaces");
  }
  return std::make_shared<const link_options>(link_options{.where = endpoint::parse(url),
                                                           .tls = {.verify = o.verify_tls, .ca_file = o.ca_file},
                                                           .name = o.name,
                                                           .connect_timeout = o.connect_timeout,
                                                           .max_reply = o.max_reply});
}

/// Whether trying again is of no use: the server, or we, will say the same again.
bool is_final(std::error_code ec) noexcept {
  return ec == error::wrong_password || ec == error::auth_required || ec == error::no_permission ||
         ec == error::command_failed || ec.category() == net::error::get_ssl_category();
}

/// Whether another server, or this one later, would answer otherwise.
bool wants_other_server(error e) noexcept {
  return e == error::read_only || e == error::loading || e == error::master_down || e == error::cluster_down;
}

/// What `make` returns, and nothing where there is no memory for it: the code says enough.
template <class Make>
std::string text_of(Make make) noexcept {
  try {
    return make();
  } catch (...) {
    return {};
  }
}

}  // namespace

net::any_io_executor strand_on(const net::any_io_executor& executor) {
  const net::any_io_executor inner = canigo::detail::context_executor(executor);
  if (const auto* io = canigo::detail::target_of<net::io_context::executor_type>(inner)) return net::make_strand(*io);
  return net::make_strand(inner);
}

/// Holds the lock; what was decided under it is carried out after it.
struct engine::delivery {
  explicit delivery(engine& e) noexcept : owner{e.shared_from_this()} { e.mutex_.lock(); }
  delivery(const delivery&) = delete;
  delivery& operator=(const delivery&) = delete;
  ~delivery() {
    canigo::detail::suspended_list ready{std::move(owner->ready_)};
    const bool post = std::exchange(owner->turn_wanted_, false) && !owner->turn_posted_ && !owner->context_gone_;
    if (post) owner->turn_posted_ = true;
    owner->mutex_.unlock();
    if (post) owner->post_turn();
    while (auto* s = ready.pop()) {
      try {
        s->post();
      } catch (...) {
        owner->deliver_later(static_cast<call&>(*s));
      }
    }
  }

  const std::shared_ptr<engine> owner;
};

std::shared_ptr<engine> engine::open(const net::any_io_executor& executor, std::string_view url,
                                     const client_options& options) {
  return std::shared_ptr<engine>{new engine{executor, url, options}};
}

engine::engine(const net::any_io_executor& executor, std::string_view url, const client_options& options)
    : link_options_{checked(url, options)},
      reconnect_{options.reconnect},
      timeout_{options.timeout},
      queue_limit_{options.queue_limit},
      time_{&time_source::of(executor)},
      context_{&net::use_service<canigo::detail::context_service>(net::query(executor, net::execution::context))},
      executor_{executor},
      strand_{strand_on(executor)},
      alarm_{*this},
      random_{std::random_device{}() * 0x9e3779b97f4a7c15u} {
  context_->add(*this);
}

engine::~engine() {
  if (!context_gone_) context_->remove(*this);
  // Its last turn was dropped by a context that goes. A subscriber and its link keep each other.
  if (subscriber_ != nullptr) subscriber_->shut_down();
}

engine::alarm::alarm(engine& e) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) static_cast<alarm&>(d).owner->alarm_called();
      }},
      owner{&e} {}

void engine::context_shutdown() noexcept {
  const auto keep = shared_from_this();
  canigo::detail::suspended_list doomed;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = closing_ = true;
    for (calls* list : {&waiting_, &sent_}) {
      for (call* c : *list) {
        if (c == nullptr) continue;
        time_->cancel(c->limit_);
        doomed.push(*c);
      }
      list->clear();
    }
  }
  time_->cancel(alarm_);
  const auto link = std::exchange(link_, nullptr);
  if (link != nullptr) link->close();
  if (subscriber_ != nullptr) subscriber_->shut_down();
  strand_ = {};
  executor_ = {};  // a strand's would reach for its context when this goes
  self_.reset();
  // Their frames may hold anything, this client too.
  while (auto* s = doomed.pop()) s->destroy();
}

// ---- from any thread ------------------------------------------------------------------------------------------------

void engine::start(call& c) noexcept {
  {
    const delivery d{*this};
    if (!context_gone_) {
      if (!c.error_ && closing_) c.error_ = errc::stopped;
      if (!c.error_ && waiting_.size() + sent_.size() >= queue_limit_) c.error_ = errc::queue_full;
      if (!c.error_) {
        try {
          c.place_ = waiting_.insert(waiting_.end(), &c);
        } catch (...) {
          c.error_ = errc::not_enough_memory;
        }
      }
      if (c.error_) return finish(c, c.error_);
      const time_point end = saturating_add(time_->now(), c.timeout_.value_or(timeout_));
      if (end != time_point::max()) c.limit_armed_ = time_->arm(c.limit_, end);
      turn_wanted_ = true;
      return;
    }
  }
  c.destroy();
}

void engine::cancel(call& c) noexcept {
  const delivery d{*this};
  if (c.ended_) return;
  take_out(c);
  finish(c, net::error::operation_aborted);
  turn_wanted_ = true;
}

void engine::limit_called(call& c, due why) noexcept {
  if (why == due::shutdown) {
    // Nobody else knows one that has ended and could not be delivered.
    if (c.ended_) c.destroy();
    return;
  }
  const delivery d{*this};
  c.limit_armed_ = false;
  if (c.ended_) return ready_.push(c);
  const bool was_sent = c.sent_at_ != time_point::max();
  take_out(c);
  if (!was_sent) {
    const auto why_not = [&] {
      const std::string what = !why_down_.empty() ? why_down_ : cause_ ? cause_.message() : "no connection in time";
      return link_options_->where.to_string() + ": " + what;
    };
    c.reply_ = reply{reply::kind::error, text_of(why_not)};
  } else if (last_read_ < c.sent_at_) {
    is_suspect_ = true;
  }
  finish(c, was_sent ? errc::timed_out : errc::store_unavailable);
  turn_wanted_ = true;
}

void engine::close() noexcept {
  const delivery d{*this};
  closing_ = true;
  turn_wanted_ = true;
}

client_stats engine::stats() const noexcept {
  const std::lock_guard lock{mutex_};
  client_stats s = stats_;
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

/// The place of one that was sent stays.
void engine::take_out(call& c) noexcept {
  if (c.sent_at_ == time_point::max()) {
    waiting_.erase(c.place_);
  } else {
    *c.place_ = nullptr;
    ++abandoned_;
  }
}

void engine::finish(call& c, std::error_code ec) noexcept {
  c.ended_ = true;
  c.error_ = ec;
  // If its limit is being called just now, that call leads to its delivery.
  if (c.limit_armed_ && !time_->cancel(c.limit_)) return;
  c.limit_armed_ = false;
  ready_.push(c);
}

void engine::fail_all(calls& list, std::error_code ec) noexcept {
  while (!list.empty()) {
    call* c = list.front();
    list.pop_front();
    if (c != nullptr) finish(*c, ec);
  }
}

void engine::fail_sent(std::error_code first) noexcept {
  while (!sent_.empty()) {
    call* c = sent_.front();
    sent_.pop_front();
    if (c == nullptr) continue;
    finish(*c, first);
    first = error::connection_lost;
  }
  abandoned_ = 0;
}

void engine::deliver_later(call& c) noexcept {
  bool is_armed = false;
  {
    const std::lock_guard lock{mutex_};
    is_armed = c.limit_armed_ = time_->arm(c.limit_, saturating_add(time_->now(), delivery_retry));
  }
  if (!is_armed) c.destroy();
}

void engine::post_turn() noexcept {
  try {
    net::post(strand_, [self = shared_from_this()] { self->turn(); });
  } catch (...) {
    // No memory. The next command, or the deadline of this one, tries again.
    const std::lock_guard lock{mutex_};
    turn_posted_ = false;
  }
}

void engine::alarm_called() noexcept {
  const delivery d{*this};
  alarm_rang_ = true;
  turn_wanted_ = true;
}

// ---- on the strand --------------------------------------------------------------------------------------------------

void engine::turn() noexcept {
  const auto keep = shared_from_this();
  bool rang = false;
  {
    const std::lock_guard lock{mutex_};
    turn_posted_ = false;
    rang = std::exchange(alarm_rang_, false);
    if (rang) {
      alarm_armed_ = false;
      self_.reset();
    }
  }
  act(rang);
}

void engine::act(bool rang) noexcept {
  bool has_waiting = false;
  bool only_abandoned = false;
  {
    const delivery d{*this};
    if (closing_) {
      fail_all(waiting_, errc::stopped);
      fail_all(sent_, errc::stopped);
      abandoned_ = 0;
      return shut_down();
    }
    // Nobody waits for what is to come, and it has had its time.
    const bool is_forgotten = rang && waiting_.empty() && !sent_.empty() && abandoned_ == sent_.size();
    if ((std::exchange(is_suspect_, false) || is_forgotten) && phase_ == phase::up) {
      fail_sent(error::connection_lost);
      ++stats_.failures;
      drop_link();
      back_off();
    }
    has_waiting = !waiting_.empty();
    only_abandoned = !sent_.empty() && abandoned_ == sent_.size();
  }
  if (!has_waiting) {
    const duration wait = std::min(timeout_, longest_wait_for_abandoned);
    set_alarm(only_abandoned ? saturating_add(time_->now(), wait) : time_point::max());
  } else if (phase_ == phase::up) {
    set_alarm(time_point::max());
    send_waiting();
  } else if (phase_ == phase::down) {
    dial_or_wait();
  }
}

void engine::dial_or_wait() noexcept {
  if (time_->now() < not_before_) return set_alarm(not_before_);
  set_alarm(time_point::max());
  try {
    link_ = std::make_shared<link>(strand_, link_options_, std::shared_ptr<link_listener>{shared_from_this(), this});
    phase_ = phase::dialing;
    link_->dial();
  } catch (...) {
    drop_link();
    back_off();
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
  // Closed while nobody looked: no failure, and nothing lost.
  if (was_idle && !link_->is_open()) {
    drop_link();
    return dial_or_wait();
  }
  try {
    const std::lock_guard lock{mutex_};
    std::size_t size = 0;
    for (const call* c : waiting_) size += c->bytes_.size();
    bytes.reserve(size);
    const time_point now = time_->now();
    constexpr auto length = command::run_id_placeholder.size();
    std::string id = link_->run_id();
    id.resize(length, '?');
    // Nothing fails from here on.
    for (call* c : waiting_) {
      bytes += c->bytes_;
      if (c->run_id_at_ != std::string::npos) {
        bytes.replace(bytes.size() - c->bytes_.size() + c->run_id_at_, length, id);
      }
      c->sent_at_ = now;
    }
    stats_.sent += waiting_.size();
    sent_.splice(sent_.end(), waiting_);
  } catch (...) {
    return set_alarm(saturating_add(time_->now(), delivery_retry));
  }
  const auto l = link_;
  try {
    l->send(bytes);
  } catch (...) {
    // Some of it may be on its way.
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

void engine::back_off() noexcept {
  ++failures_;
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  not_before_ = saturating_add(time_->now(), reconnect_.delay(failures_, random_));
}

void engine::set_alarm(time_point when) noexcept {
  if (alarm_armed_) {
    if (when == alarm_at_) return;
    if (!time_->cancel(alarm_)) return;  // it is being called just now, and its turn leads back here
    alarm_armed_ = false;
  }
  alarm_at_ = when;
  if (when != time_point::max()) alarm_armed_ = time_->arm(alarm_, when);
  if (alarm_armed_ != (self_ != nullptr)) self_ = alarm_armed_ ? shared_from_this() : nullptr;
}

void engine::link_up() noexcept {
  phase_ = phase::up;
  {
    const std::lock_guard lock{mutex_};
    why_down_.clear();
    cause_ = {};
    ++stats_.connects;
  }
  act();
}

bool engine::link_reply(reply&& r) noexcept {
  failures_ = 0;
  const delivery d{*this};
  last_read_ = time_->now();
  if (sent_.empty()) return false;
  call* c = sent_.front();
  sent_.pop_front();
  ++stats_.answered;
  std::error_code ec;
  if (r.is_error()) {
    const error e = error_of(r.text());
    ec = e;
    is_suspect_ = is_suspect_ || wants_other_server(e);
  }
  if (c == nullptr) {
    --abandoned_;
    return true;
  }
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
  back_off();
  {
    const delivery d{*this};
    ++stats_.failures;
    cause_ = cause ? cause : ec;
    why_down_ = text_of([&] { return text; });
    if (was_up) {
      fail_sent(ec);
    } else if (is_final(ec)) {
      for (call* c : waiting_) c->reply_ = reply{reply::kind::error, text_of([&] { return text; })};
      fail_all(waiting_, ec);
    }
  }
  act();
}

}  // namespace canigo::redis::detail
