#include "ledger.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"

#include "script.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <mutex>
#include <random>
#include <unistd.h>

namespace canigo::redis::detail {
namespace {

using canigo::detail::throw_invalid;
using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr duration delivery_retry = std::chrono::milliseconds{1};
constexpr backoff after_failures{.first = std::chrono::milliseconds{50}, .cap = std::chrono::seconds{5}};
constexpr std::size_t most_per_call = 1000;
constexpr std::uint64_t exact = std::uint64_t{1} << 53;  // what Lua's numbers hold

/// Nanoseconds of a clock that goes on while the machine sleeps, as the server's does.
std::int64_t awake_or_not() noexcept {
  timespec t{};
#ifdef CLOCK_BOOTTIME
  ::clock_gettime(CLOCK_BOOTTIME, &t);
#else
  ::clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// As part of a key: what would end it, or its hash tag, is written as %xx.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
    if (plain) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text += '%';
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}

/// "host:pid:random", so that a person can see who it is.
std::string name_of_process() {
  char host[64] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  std::random_device random;
  const std::uint64_t bits = std::uint64_t{random()} << 32 | random();
  char hex[17] = {};
  std::to_chars(hex, hex + 16, bits, 16);
  return escaped(host) + ":" + std::to_string(::getpid()) + ":" + hex;
}

std::uint64_t number(std::string_view text) noexcept {
  std::uint64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

ledger_options checked(ledger_options o) {
  if (o.name.empty()) throw_invalid("name", o.name, "a name");
  if (o.priorities < 1 || o.priorities > 256) throw_invalid("options.priorities", o.priorities, "1 to 256");
  if (o.queue_limit < 1) throw_invalid("options.queue_limit", o.queue_limit, "1 or more");
  if (o.give_up <= duration::zero()) throw_invalid("options.give_up", o.give_up, "more than 0");
  return o;
}

}  // namespace

/// Holds the lock; then does what there is to do, and after it what was decided under it.
struct ledger::change {
  explicit change(ledger& l) noexcept : owner{l.shared_from_this()} { l.mutex_.lock(); }
  change(const change&) = delete;
  change& operator=(const change&) = delete;
  ~change() {
    ledger& l = *owner;
    l.step();
    canigo::detail::suspended_list ready{std::move(l.ready_)};
    std::shared_ptr<holding> ended = std::move(l.ended_);
    std::optional<command> call;
    call.swap(l.call_);
    l.mutex_.unlock();
    if (call) l.send(*call);
    while (ended != nullptr) {
      std::shared_ptr<holding> h = std::exchange(ended, std::move(ended->next_to_tell));
      try {
        h->ended.cancel();
      } catch (...) {
        l.tell_later(std::move(h));
      }
    }
    while (auto* s = ready.pop()) {
      try {
        s->post();
      } catch (...) {
        l.deliver_later(static_cast<limit_waiter&>(*s));
      }
    }
  }

  const std::shared_ptr<ledger> owner;
};

std::shared_ptr<ledger> ledger::open(client& c, ledger_options o) {
  return std::shared_ptr<ledger>{new ledger{c, checked(std::move(o))}};
}

ledger::ledger(client& c, ledger_options o)
    : options_{std::move(o)},
      prefix_{"{canigo:" + escaped(options_.space) + ":" + escaped(options_.name) + "}:" + options_.kind + ":"},
      engine_{engine_of(c).shared_from_this()},
      time_{&time_source::of(c.get_executor())},
      context_{
          &net::use_service<canigo::detail::context_service>(net::query(c.get_executor(), net::execution::context))},
      executor_{c.get_executor()},
      session_base_{name_of_process() + ":"},
      random_{std::random_device{}() * 0x9e3779b97f4a7c15u},
      local_{options_.rate.value_or(canigo::rate::per_second(1)), 1, 0, time_->now()},
      alarm_{*this} {
  counts_.classes.resize(static_cast<std::size_t>(options_.priorities));
  if (options_.rate) {
    // Redis' clock counts microseconds.
    const auto r = options_.rate->reduced();
    auto tokens = static_cast<std::uint64_t>(r.tokens());
    auto period = static_cast<std::uint64_t>(r.period().count());
    if (period % 1000 == 0) {
      period /= 1000;
    } else {
      tokens *= 1000;
    }
    if (options_.burst * std::max(tokens, period / tokens + 1) >= exact) {
      throw_invalid("scheduler_options.burst", options_.burst, "less, at this rate: burst times period below 2^53 us");
    }
    rate_tokens_ = tokens;
    rate_period_ = period;
  }
  session_.reserve(session_base_.size() + 20);
  begin_session();
  context_->add(*this);
}

ledger::~ledger() {
  if (!context_gone_) context_->remove(*this);
}

ledger::alarm::alarm(ledger& l) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) static_cast<alarm&>(d).owner->alarm_called();
      }},
      owner{&l} {}

void ledger::context_shutdown() noexcept {
  const auto keep = shared_from_this();
  canigo::detail::suspended_list doomed;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = closing_ = true;
    for (const auto& [place, w] : waiting_) {
      time_->cancel(w->limit_);
      doomed.push(*w);
    }
    waiting_.clear();
    by_id_.clear();
    fresh_.clear();
    asked_.clear();
    ended_.reset();
  }
  time_->cancel(alarm_);
  self_.reset();
  executor_ = {};  // a strand's would reach for its context when this goes
  // Their frames may hold anything, permits too.
  while (auto* s = doomed.pop()) s->destroy();
}

// ---- callers --------------------------------------------------------------------------------------------------------

void ledger::start(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  {
    const change c{*this};
    if (!context_gone_) {
      const request& r = w.wanted_;
      const time_point now = time_->now();
      const std::uint64_t most = options_.permits != 0 ? options_.permits : options_.burst;
      if (!w.error_ && (r.priority < 0 || r.priority >= options_.priorities)) w.error_ = errc::invalid_priority;
      if (!w.error_ && closing_) w.error_ = errc::stopped;
      if (!w.error_ && r.tokens == 0) w.error_ = errc::invalid_argument;
      if (!w.error_ && r.tokens > most) w.error_ = errc::too_large;
      if (!w.error_ && r.deadline < now) w.error_ = errc::deadline_unreachable;
      if (!w.error_ && waiting_.size() >= options_.queue_limit) w.error_ = errc::queue_full;
      w.since_ = now;
      w.id_ = next_id_++;
      w.arrival_ = next_arrival_++;
      if (!w.error_) {
        try {
          // So that nothing can fail when it leaves.
          cancels_.reserve(cancels_.size() + waiting_.size() + 1);
          acknowledged_.reserve(acknowledged_.size() + waiting_.size() + 1);
          const order place{r.priority, w.arrival_};
          waiting_.emplace(place, &w);
          by_id_.emplace(w.id_, &w);
          fresh_.insert(place);
        } catch (...) {
          waiting_.erase({r.priority, w.arrival_});
          by_id_.erase(w.id_);
          w.error_ = errc::not_enough_memory;
        }
      }
      if (w.error_) return finish(w, w.error_);
      w.limit_armed_ = r.deadline != time_point::max() && time_->arm(w.limit_, r.deadline);
      return;
    }
  }
  w.destroy();
}

void ledger::cancel(limit_waiter& w) noexcept {
  const auto keep = w.home_;
  const change c{*this};
  if (w.ended_) return;
  take_out(w);
  finish(w, net::error::operation_aborted);
}

void ledger::limit_called(limit_waiter& w, due why) noexcept {
  if (why == due::shutdown) {
    // Nobody else knows one that has ended and could not be delivered.
    if (w.ended_) w.destroy();
    return;
  }
  const auto keep = w.home_;
  const change c{*this};
  w.limit_armed_ = false;
  if (w.ended_) return ready_.push(w);
  take_out(w);
  finish(w, is_failing_ || stats_.round_trips == 0 ? errc::store_unavailable : errc::timed_out);
}

bool ledger::release(holding& h) noexcept {
  const change c{*this};
  if (h.now != holding::state::held) return false;
  h.now = holding::state::released;
  const auto found = holdings_.find(h.id);
  h.next_to_tell = std::exchange(ended_, found->second.lock());
  holdings_.erase(found);
  held_ -= h.weight;
  must_tell_ = true;
  return true;
}

bool ledger::lease_lasts() const noexcept {
  const std::lock_guard lock{mutex_};
  return awake_or_not() < lease_until_;
}

void ledger::close() noexcept {
  const change c{*this};
  closing_ = true;
  if (!context_gone_) finish_all(errc::stopped);
}

limit_stats ledger::stats() const {
  const std::lock_guard lock{mutex_};
  limit_stats s = stats_;
  static_cast<queue_stats&>(s) = counts_;
  s.waiting = waiting_.size();
  for (const auto& [place, w] : waiting_) ++s.classes[static_cast<std::size_t>(std::get<0>(place))].waiting;
  s.requested = s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
  s.held = held_;
  s.available = !is_failing_;
  return s;
}

void ledger::take_out(limit_waiter& w) noexcept {
  const order place{w.wanted_.priority, w.arrival_};
  waiting_.erase(place);
  fresh_.erase(place);
  asked_.erase(place);
  by_id_.erase(w.id_);
  if (w.is_known_) cancels_.emplace_back(w.id_, w.wanted_.tokens);
}

void ledger::finish(limit_waiter& w, std::error_code ec) noexcept {
  w.ended_ = true;
  w.error_ = ec;
  if (!ec) {
    auto& c = counts_.classes[static_cast<std::size_t>(w.wanted_.priority)];
    ++counts_.granted;
    ++c.granted;
    c.wait.record(time_->now() - w.since_);
  } else if (ec == net::error::operation_aborted) {
    ++counts_.cancelled;
  } else if (ec == errc::timed_out || ec == errc::store_unavailable) {
    ++counts_.timed_out;
  } else if (ec == errc::stopped) {
    ++counts_.stopped;
  } else {
    ++counts_.rejected;
  }
  // If its limit is being called just now, that call leads to its delivery.
  if (w.limit_armed_ && !time_->cancel(w.limit_)) return;
  w.limit_armed_ = false;
  ready_.push(w);
}

void ledger::finish_all(errc code) noexcept {
  while (!waiting_.empty()) {
    limit_waiter& w = *waiting_.begin()->second;
    take_out(w);
    finish(w, code);
  }
}

void ledger::deliver_later(limit_waiter& w) noexcept {
  {
    const std::lock_guard lock{mutex_};
    w.limit_armed_ = time_->arm(w.limit_, saturating_add(time_->now(), delivery_retry));
    if (w.limit_armed_) return;
  }
  w.destroy();
}

// ---- sessions -------------------------------------------------------------------------------------------------------

/// Nobody knows the new one: it holds nothing, and all who wait stand in no queue. Their names are new too, or a late
/// message to the old one could grant what is not ours.
void ledger::begin_session() noexcept {
  listen(false);
  ++session_number_;
  char digits[20];
  session_.assign(session_base_).append(digits, std::to_chars(digits, digits + 20, session_number_).ptr);
  sequence_ = 0;
  is_registered_ = must_tell_ = false;
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
    if (auto h = weak.lock()) {
      h->now = holding::state::lost;
      h->next_to_tell = std::exchange(ended_, h);
    }
    ++stats_.lost_leases;
  }
  holdings_.clear();
  held_ = 0;
  begin_session();
}

void ledger::tell_later(std::shared_ptr<holding> h) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return;
  h->next_to_tell = std::move(ended_);
  ended_ = std::move(h);
  set_alarm(saturating_add(time_->now(), delivery_retry));
}

void ledger::listen(bool wanted) noexcept {
  if (wanted == is_listening_) return;
  try {
    const auto s = engine_->subscriptions();
    if (s == nullptr) return;
    const std::string channel = prefix_ + "n:" + session_;
    if (wanted) {
      s->add(channel, std::weak_ptr<subscription>{shared_from_this()});
    } else {
      s->remove(channel);
    }
    is_listening_ = wanted;
  } catch (...) {
    // A message is a hint only.
  }
}

void ledger::subscribed() noexcept {
  const change c{*this};
  // What was published before is in Redis as well.
  is_hinted_ = true;
}

void ledger::published(std::string_view message) noexcept {
  const change c{*this};
  if (context_gone_ || message.size() < 3 || awake_or_not() >= lease_until_) return;
  const auto what = message.front();
  message.remove_prefix(2);
  const auto space = message.find(' ');
  const std::uint64_t id = number(message.substr(0, space));
  const auto last = message.rfind(' ');
  if (what == 't') {
    next_at_ = std::min(next_at_, saturating_add(time_->now(), microseconds{static_cast<std::int64_t>(id)}));
  } else if (what == 'g' && space != std::string_view::npos) {
    if (number(message.substr(last + 1)) == static_cast<std::uint64_t>(epoch_)) {
      grant(id, number(message.substr(space + 1)));
    } else {
      is_hinted_ = true;  // Redis has forgotten it, or we have not heard of the new epoch
    }
  } else if (what == 'x') {
    grant(id, 0);
  }
}

/// Token 0: it weighs more than there is.
void ledger::grant(std::uint64_t id, std::uint64_t token) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;  // has it already, or does not want it any more
  limit_waiter& w = *found->second;
  if (token != 0 && options_.permits != 0) {
    try {
      auto h = std::make_shared<holding>();
      h->home = shared_from_this();
      h->id = id;
      h->weight = w.wanted_.tokens;
      h->token = token;
      holdings_.emplace(id, h);
      held_ += h->weight;
      w.granted_ = permit{std::move(h)};
    } catch (...) {
      // As if it were cancelled: Redis takes it back.
      take_out(w);
      return finish(w, errc::not_enough_memory);
    }
  }
  w.is_known_ = false;
  take_out(w);
  if (token != 0) acknowledged_.push_back(id);
  finish(w, token != 0 ? std::error_code{} : make_error_code(errc::too_large));
}

// ---- what there is to do --------------------------------------------------------------------------------------------

void ledger::alarm_called() noexcept {
  const auto keep = shared_from_this();
  const change c{*this};
  alarm_armed_ = false;
  self_.reset();
}

bool ledger::is_leaving() const noexcept { return closing_ && held_ == 0; }

void ledger::step() noexcept {
  if (context_gone_) return;
  const time_point now = time_->now();
  if (is_registered_ && awake_or_not() >= lease_until_) lose_session();
  if (is_failing_ && !waiting_.empty()) {
    if (options_.on_failure.what() != failure_mode::kind::closed) {
      grant_without_redis(now);
    } else if (saturating_add(failing_since_, options_.give_up) <= now) {
      finish_all(errc::store_unavailable);
    }
  }
  if (!under_way_ && wants_call(now)) {
    try {
      call_ = prepare(now);
      under_way_ = true;
    } catch (...) {
      retry_at_ = saturating_add(now, delivery_retry);
    }
  }
  if (!is_engaged()) {
    listen(false);
  } else if (!under_way_ && !waiting_.empty() && is_registered_) {
    listen(true);
  }
  set_alarm(next_step(now));
}

bool ledger::wants_call(time_point now) const noexcept {
  if (now < retry_at_) return false;
  if (is_leaving()) return is_registered_ && !is_failing_;
  if (is_engaged() && (!fresh_.empty() || is_hinted_)) return true;
  if (is_registered_ && (must_tell_ || !cancels_.empty())) return true;
  if (is_engaged() && now >= renew_at_) return true;
  return !waiting_.empty() && now >= next_at_;
}

time_point ledger::next_step(time_point now) const noexcept {
  time_point t = time_point::max();
  if (!under_way_) {
    const bool unsaid = is_registered_ && !is_leaving() && (must_tell_ || !cancels_.empty());
    if (is_engaged() || unsaid) {
      t = is_failing_ || unsaid || !fresh_.empty() ? std::max(retry_at_, now) : renew_at_;
      if (!waiting_.empty()) t = std::min(t, next_at_);
      t = std::max(t, retry_at_);
    }
  }
  if (held_ > 0) t = std::min(t, saturating_add(now, duration{lease_until_ - awake_or_not()}));
  if (is_failing_ && !waiting_.empty()) {
    t = std::min(t, options_.on_failure.what() == failure_mode::kind::closed
                        ? saturating_add(failing_since_, options_.give_up)
                        : local_at_);
  }
  return t;
}

command ledger::prepare(time_point) {
  const std::string own = prefix_ + "p:" + session_;
  command c{send_text_ ? "EVAL" : "EVALSHA",
            send_text_ ? sync_script() : std::string_view{sync_sha()},
            5,
            prefix_ + "cfg",
            prefix_ + "sess",
            prefix_ + "used",
            prefix_ + "q",
            own};
  leave_under_way_ = is_leaving();
  c.add_run_id().add(session_).add(sequence_ + 1).add(duration_cast<microseconds>(options_.lease).count());
  c.add(options_.permits).add(rate_tokens_).add(rate_period_).add(options_.burst).add(held_).add(prefix_);
  c.add(std::string{options_.quarantine ? "q" : ""} + (leave_under_way_ ? "l" : ""));
  const std::size_t wanted = std::min(fresh_.size(), most_per_call);
  c.add(acknowledged_.size()).add(cancels_.size()).add(wanted);
  for (const auto id : acknowledged_) c.add(id);
  for (const auto& [id, weight] : cancels_) c.add(id).add(weight);
  auto place = fresh_.begin();
  for (std::size_t i = 0; i < wanted; ++i, ++place) {
    const limit_waiter& w = *waiting_.at(*place);
    c.add(w.id_).add(w.wanted_.priority).add(w.wanted_.tokens);
  }
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
  is_hinted_ = must_tell_ = false;
  next_at_ = time_point::max();
  sent_at_ = awake_or_not();
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
  if (ec || r.elements().size() < 6) {
    ++stats_.failed_calls;
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
  if (session_under_way_ != session_number_) return;
  try {
    read_answer(r);
  } catch (...) {
    failed(now);
  }
}

void ledger::read_answer(const reply& r) {
  const time_point now = time_->now();
  const auto& parts = r.elements();
  if (parts[0].text() == "NOSESS") return lose_session();
  if (parts[0].text() != "OK") return failed(now);
  is_failing_ = false;
  failing_since_ = time_point::max();
  failures_ = 0;
  retry_at_ = time_point::min();
  is_registered_ = !leave_under_way_;
  // A tenth for clocks that run at different speeds, and for the time that cancelling takes.
  lease_until_ = sent_at_ + options_.lease.count() / 10 * 9;
  renew_at_ = saturating_add(now, options_.lease / 3 - duration{awake_or_not() - sent_at_});
  if (parts[1].integer() >= 0) {
    next_at_ = std::min(next_at_, saturating_add(now, microseconds{parts[1].integer()}));
  }
  stats_.waiting_of_all = static_cast<std::size_t>(parts[2].integer());
  stats_.held_by_all = static_cast<std::uint64_t>(parts[3].integer());
  stats_.quarantine = microseconds{parts[4].integer()};
  if (parts[5].integer() != epoch_) {
    if (epoch_ != 0) ask_again();
    epoch_ = parts[5].integer();
  }
  acknowledged_.erase(acknowledged_.begin(),
                      acknowledged_.begin() + static_cast<std::ptrdiff_t>(acknowledged_under_way_));
  cancels_.erase(cancels_.begin(), cancels_.begin() + static_cast<std::ptrdiff_t>(cancels_under_way_));
  if (is_registered_ && awake_or_not() >= lease_until_) return lose_session();
  for (std::size_t i = 6; i + 1 < parts.size(); i += 2) {
    grant(number(parts[i].text()), static_cast<std::uint64_t>(parts[i + 1].integer()));
  }
}

void ledger::failed(time_point now) noexcept {
  if (!is_failing_) {
    is_failing_ = true;
    failing_since_ = now;
    local_at_ = now;
    if (options_.rate && options_.on_failure.what() == failure_mode::kind::local) {
      const double share = options_.on_failure.share();
      const auto period = static_cast<double>(options_.rate->period().count()) / share;
      const auto longest = static_cast<double>(duration::max().count() / 2);
      local_ = token_bucket{
          canigo::rate{options_.rate->tokens(), duration{static_cast<duration::rep>(std::min(period, longest))}},
          std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(options_.burst) * share)), 0, now};
    }
  }
  ++failures_;
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  retry_at_ = saturating_add(now, after_failures.delay(failures_, random_));
  if (session_under_way_ != session_number_) return;
  ask_again();
  must_tell_ = is_registered_;
}

void ledger::grant_without_redis(time_point now) noexcept {
  const bool open = options_.on_failure.what() == failure_mode::kind::open;
  while (!waiting_.empty()) {
    limit_waiter& w = *waiting_.begin()->second;
    if (!open && !local_.try_take(now, w.wanted_.tokens)) {
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
    if (when == alarm_at_) return;
    if (!time_->cancel(alarm_)) return;  // it is being called just now, and looks again
    alarm_armed_ = false;
  }
  alarm_at_ = when;
  if (when != time_point::max()) alarm_armed_ = time_->arm(alarm_, when);
  if (alarm_armed_ != (self_ != nullptr)) self_ = alarm_armed_ ? shared_from_this() : nullptr;
}

}  // namespace canigo::redis::detail
