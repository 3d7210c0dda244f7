#pragma once

#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/rate.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/limit_waiter.hpp"
#include "canigo/redis/failure_mode.hpp"
#include "canigo/redis/limit_stats.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time_source.hpp"

#include "book.hpp"
#include "engine.hpp"
#include "holding.hpp"
#include "session.hpp"
#include "subscriber.hpp"
#include "sync.hpp"
#include "sync_plan.hpp"
#include "terms.hpp"
#include "turn_call.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace canigo::redis::detail {

/// The length of a session's lease if the limit has no cap on concurrency. Such a session has no permits. Its lease
/// only keeps its waiters in the queue.
inline constexpr duration session_without_permits = std::chrono::seconds{10};

/// Throws errc::invalid_argument if the share of `f` is out of range. The message names `field`.
void check(const failure_mode& f, std::string_view field);

struct ledger_options {
  std::string kind;  // a part of the keys: "s" semaphore, "r" scheduler, "l" limiter
  std::string name;
  std::string space;
  std::uint64_t permits = 0;  // the max number of permits in use; 0: no maximum
  std::vector<rate_limit> rates = {};
  std::shared_ptr<const unit_table> units = {};  // the units of a limiter; null for other limits
  duration lease{};
  int priorities = 1;
  std::size_t queue_limit = 10'000;
  overflow on_overflow = overflow::reject_new;
  duration give_up = duration::max();
  bool quarantine = true;
  failure_mode on_failure = failure_mode::closed();
  // the alternatives of a limiter; the last elements of `rates` are the rates of the alternatives
  std::vector<alternative_terms> alternatives = {};
  // how long this process may keep permits or tokens that it does not use; 0: it keeps none
  duration horizon{};
};

/// The part of a Redis limit that is in this process. It has a lock, the engine of the Redis client, an alarm, and four
/// objects that make the decisions.
///
/// The `book` has the requests and the permits, the `session` has the lease, and the `terms` have the settings. The
/// `sync_plan` says when to call Redis, and how requests are decided while Redis does not answer. Each call of the
/// script restates all that the process holds, so the next call repairs the loss of an earlier call. One call runs at a
/// time; changes made meanwhile go into the next call.
///
/// All shared pointers together hold one of the references that the base class counted_member counts.
class ledger final : public std::enable_shared_from_this<ledger>,
                     public subscription,
                     private canigo::detail::delivery {
 public:
  static std::shared_ptr<ledger> open(client& c, ledger_options o);

  void start(limit_waiter& w) noexcept;
  void cancel(limit_waiter& w) noexcept;
  void time_is_up(limit_waiter& w, due why) noexcept;
  bool release(holding& h) noexcept;
  /// Whether granted permits may still be used.
  bool lease_lasts() const noexcept;
  void close() noexcept;

  /// Grants a request only from the idle permits or tokens of this process; returns false if there are too few. Throws
  /// for a request that the limit could never grant.
  bool try_acquire(const request& r, permit* granted);
  duration estimate(const request& r) const;

  void set_permits(std::uint64_t n);
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t n);
  const std::vector<alternative_terms>& alternatives() const noexcept { return options_.alternatives; }
  void set_rate_of(std::size_t alternative, std::size_t index, const canigo::rate& r);
  void set_burst_of(std::size_t alternative, std::size_t index, std::uint64_t n);
  void set_permits_of(std::size_t alternative, std::uint64_t n);
  void pause_alternative(std::size_t alternative, time_point t, bool may_end);
  void pause_until(time_point t);
  void charge(std::int64_t tokens);
  /// Returns the index of a unit. Throws if the limit does not have the unit.
  std::size_t find_unit(unit_key unit) const;
  /// Charges `used` of a unit, instead of the amount that was granted or settled before.
  void settle(holding& h, std::size_t unit, std::uint64_t used);

  /// Whether the limit caps concurrency, so that grants are held under a lease.
  bool has_cap() const noexcept { return options_.permits > 0; }
  limit_stats stats() const;
  /// Throws the error `ec`, with a text about its cause if the cause is known.
  [[noreturn]] void fail(std::error_code ec, const request& r) const;
  /// Throws if the request is invalid. The error names the field, the value and the range.
  void check(const request& r) const;
  using delivery::executor;

  void subscribed() noexcept override;
  void refused(std::error_code ec, const std::string& text) noexcept override;
  void unheard(std::error_code ec, const std::string& text) noexcept override;
  void published(std::string_view message) noexcept override;

 private:
  friend class turn_call<ledger>;
  struct change;

  ledger(client& c, ledger_options o);
  ~ledger() override = default;
  void end_with_context() noexcept override;

  // The following functions are called without the lock.
  void alarm_called() noexcept;
  void turn() noexcept;
  void send(command c) noexcept;
  void answered(engine& from, const answer& a) noexcept;
  void tell_later(std::shared_ptr<holding> h) noexcept;
  std::error_code take_idle(const request& r, permit* granted);

  // The following functions are called with the lock held.

  static limit_waiter& waiter_of(limit_request& r) noexcept { return static_cast<limit_waiter&>(r); }
  bool gives_permits() const noexcept { return has_cap() || options_.units != nullptr; }
  std::uint64_t places(const amounts_by_unit& amounts) const noexcept {
    return options_.rates.empty() ? amounts[0] : 1;
  }
  bool has_alternatives() const noexcept { return !options_.alternatives.empty(); }
  static demand demand_of(const limit_request& r) noexcept { return {r.amounts[0], &r.amounts}; }
  bool resolve(const request& r, amounts_by_unit& amounts) const noexcept;
  void check_alternatives(const request& r) const;
  static sync_plan::options plan_options(const ledger_options& o, const terms& t);
  bool may_keep_idle() const noexcept { return options_.horizon > duration::zero() && !closing_; }
  bool is_leaving() const noexcept { return closing_ && book_.out() == 0; }
  sync_plan::needs needs() const noexcept;
  time_point tell_until() const noexcept;
  void rates_changed() noexcept;
  std::error_code why_not(const request& r, amounts_by_unit& amounts, time_point now) const noexcept;
  bool may_evict_for(const request& r) const noexcept;
  void evict() noexcept;
  bool is_idle_enough(const request& r, time_point now) const noexcept;

  // These functions handle requests and permits.
  permit hold(std::uint64_t id, const amounts_by_unit& amounts, std::uint64_t token, std::size_t alternative = 0);
  void grant(limit_waiter& w, std::int64_t token, std::size_t from);
  void set_deadline(limit_waiter& w) noexcept { w.deadline_.set(*time_, plan_.end_of(w)); }
  void end(limit_waiter& w, std::error_code ec) noexcept;
  void finish(limit_waiter& w, std::error_code ec) noexcept;
  void finish_all(errc code) noexcept;
  void count_grant(int priority, duration waited) noexcept;
  void give_back_idle() noexcept { give_back(book_.give_back_idle()); }
  void give_back(std::uint64_t tokens) noexcept;

  // These functions make a call of the script and read its answer.
  void step() noexcept;
  time_point next_step(time_point now) const noexcept;
  void set_alarm(time_point when) noexcept;
  void prepare(time_point now);
  void call_failed(engine& from, const answer& given, time_point now) noexcept;
  bool is_redirected(engine& from, const reply& r) noexcept;
  void use(std::shared_ptr<engine> node) noexcept;
  void read_answer(const sync_answer& a, time_point now);
  bool read_grants(const sync_answer& a);
  void adopt(const limit_settings& s, time_point now) noexcept;
  void begin_session() noexcept;
  void lose_session() noexcept;

  // These functions are used while Redis does not answer.
  void failed(time_point now, std::error_code cause, std::string_view text = {}) noexcept;
  void call_is_late(time_point now) noexcept;
  void grant_without_redis(time_point now) noexcept;
  void grant_any_without_redis(time_point now) noexcept;
  std::error_code decide(limit_waiter& w, time_point now, std::uint64_t except = 0) noexcept;
  std::string located(std::error_code cause, std::string_view text) const noexcept;
  std::string why_slow() const;

  // These functions handle the messages that Redis publishes.
  void listen(bool wanted) noexcept;
  /// Whether the messages of the present session come from the node that has the limit.
  bool is_listening() const noexcept { return listening_to_ == session_.number() && listening_at_ == engine_; }
  void stop_listening() noexcept {
    listening_to_ = 0;
    listening_at_.reset();
    is_subscribed_ = false;
  }
  void check_listening(time_point now) noexcept;
  void note_unheard(std::error_code ec, const std::string& text) noexcept;
  std::string channel(std::uint64_t n) const { return prefix_ + "n:" + session_.name_of(n); }

  const ledger_options options_;
  const std::string prefix_;  // the text with which all keys of the limit begin
  session session_;
  book book_;
  terms terms_;
  sync_plan plan_;
  bool closing_ = false;
  queue_stats counts_;
  limit_stats stats_;  // stats_.alternatives has an element for each alternative of the limit

  const std::shared_ptr<engine> home_;  // the engine of the client, which the limit calls first
  const unsigned slot_;
  std::shared_ptr<engine> engine_;  // the engine of the node that has the limit; in a cluster it may differ from home_
  std::shared_ptr<engine> for_once_;  // the engine of a node that gets only the next call; null: engine_ gets that call
  int redirections_ = 0;              // the number of redirections in a row
  bool send_text_ = false;  // whether the next call contains the script's text, because Redis does not know the script

  std::uint64_t listening_to_ = 0;        // the number of the session whose messages are subscribed to; 0: none
  std::shared_ptr<engine> listening_at_;  // the node from whose messages the limit learns of grants; null: none
  bool is_subscribed_ = false;            // whether listening_at_ has confirmed the subscription
  time_point listen_after_ = time_point::min();
  time_point check_after_ = time_point::min();
  std::error_code unheard_;  // the error because of which published messages do not arrive
  std::string unheard_text_;

  // Work that a change prepares under the lock, to be done after the lock is released.
  std::optional<command> call_;  // the call that is ready to be sent; std::nullopt: none
  turn_call<ledger> turn_;
  // whether step() may send a call; only turn() and the alarm set it, so that one call carries several changes
  bool may_send_ = false;

  canigo::detail::shared_alarm<ledger> alarm_;
};

}  // namespace canigo::redis::detail
