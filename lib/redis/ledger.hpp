#pragma once

#include "canigo/backoff.hpp"
#include "canigo/cancel.hpp"
#include "canigo/detail/context/counted_member.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/limit_waiter.hpp"
#include "canigo/redis/limit_stats.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/time_source.hpp"
#include "canigo/token_bucket.hpp"

#include "engine.hpp"
#include "subscriber.hpp"
#include "sync.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

struct ledger_options {
  std::string kind;  // part of the keys: "s" or "r"
  std::string name;
  std::string space;
  std::uint64_t permits = 0;         // 0: no cap
  std::optional<canigo::rate> rate;  // none: no quota
  std::uint64_t burst = 1;
  duration lease{};
  int priorities = 1;
  std::size_t queue_limit = 10'000;
  duration give_up = duration::max();
  bool quarantine = true;
  failure_mode on_failure = failure_mode::closed();
  duration horizon{};  // 0: nothing is kept or taken ahead
};

/// A permit's place in the ledger of its process.
struct holding {
  enum class state { held, released, lost };

  std::shared_ptr<ledger> home;
  std::uint64_t id = 0;
  std::uint64_t weight = 0;
  std::uint64_t token = 0;
  std::atomic<state> now = state::held;  // written with the ledger's lock held
  cancel_source ended;
  std::shared_ptr<holding> next_to_tell;  // with the ledger's lock held
};

/// What one process holds of one limit in Redis, and who waits for it there.
///
/// Each call of the script restates all that the process holds, so that a call that was lost repairs itself with the
/// next one. One call is under way at a time; what happens meanwhile goes into the next. The lease counts from when a
/// call was sent that was answered, on a clock that goes on while the machine sleeps; past it everything is lost here
/// before it is in Redis, and the process begins anew as another session.
class ledger final : public std::enable_shared_from_this<ledger>,
                     public subscription,
                     private canigo::detail::counted_member {
 public:
  static std::shared_ptr<ledger> open(client& c, ledger_options o);

  void start(limit_waiter& w) noexcept;
  void cancel(limit_waiter& w) noexcept;
  void limit_called(limit_waiter& w, due why) noexcept;
  bool release(holding& h) noexcept;
  /// Whether what was granted may still be used.
  bool lease_lasts() const noexcept;
  void close() noexcept;

  /// Grants what lies idle here, and nothing else. Throws for what can't be asked for.
  bool try_acquire(const request& r, permit* granted);
  duration estimate(const request& r) const;

  void set_permits(std::uint64_t n);
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t n);
  void pause_until(time_point t);
  void charge(std::int64_t tokens);

  limit_stats stats() const;
  /// Throws it, with what is known of why.
  [[noreturn]] void fail(std::error_code ec) const;
  const net::any_io_executor& executor() const noexcept { return executor_; }

  void subscribed() noexcept override;
  void refused(std::error_code ec, const std::string& text) noexcept override;
  void published(std::string_view message) noexcept override;

 private:
  struct change;
  struct alarm : deadline {
    explicit alarm(ledger& l) noexcept;
    ledger* owner;
  };
  using order = std::tuple<int, std::uint64_t>;  // class, arrival
  using micro_rate = std::pair<std::uint64_t, std::uint64_t>;

  ledger(client& c, ledger_options o);
  ~ledger() override = default;
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  void alarm_called() noexcept;
  void post_turn() noexcept;
  void turn() noexcept;
  void send(command c) noexcept;
  bool is_redirected(engine& from, const reply& r) noexcept;
  void use(std::shared_ptr<engine> node) noexcept;
  void answered(engine& from, const answer& a) noexcept;

  // With the lock held.
  void step() noexcept;
  bool is_engaged() const noexcept { return held_ > 0 || !waiting_.empty() || idle_until_ != time_point::max(); }
  bool has_news() const noexcept;
  bool is_due() const noexcept;
  bool wants_call(time_point now) const noexcept;
  command prepare(time_point now);
  std::int64_t latest_there(std::int64_t as_of) const noexcept;
  void read_answer(const sync_answer& a);
  void grant(limit_waiter& w, std::int64_t token);
  void take_note(std::uint64_t from, std::uint64_t to);
  bool is_told_of(std::uint64_t id) const noexcept;
  std::error_code why_not(const request& r, time_point now) const noexcept;
  bool is_idle_enough(const request& r, time_point now) const noexcept;
  permit hold(std::uint64_t id, std::uint64_t weight, std::uint64_t token);
  void count_grant(int priority, duration waited) noexcept;
  void put_idle(std::uint64_t n, time_point now) noexcept;
  void give_back_idle() noexcept;
  void adopt(const limit_settings& s, time_point now) noexcept;
  std::uint64_t most() const noexcept { return options_.rate ? settings_.burst : settings_.permits; }
  duration time_of(double tokens) const noexcept;
  static micro_rate in_micros(const canigo::rate& r, std::uint64_t burst);
  duration time_for_answer() const noexcept;
  duration longest_round_trip() const noexcept { return options_.lease / 20 * 9; }
  void answer_is_late(time_point now) noexcept;
  bool is_late(time_point now) const noexcept { return under_way_ && now >= late_at_; }
  bool is_away(time_point now) const noexcept;
  std::error_code decide_without_redis(const limit_waiter& w, time_point now) noexcept;
  void begin_share(time_point since) noexcept;
  std::string why_slow() const;
  void grant_without_redis(time_point now) noexcept;
  void recovered() noexcept;
  void failed(time_point now, std::error_code cause, std::string_view text = {}) noexcept;
  bool begin_failure(std::error_code cause, std::string_view text) noexcept;
  bool is_closed_without() const noexcept { return options_.on_failure.what() == failure_mode::kind::closed; }
  bool may_do_without(time_point now) const noexcept;
  std::error_code refusal(const limit_waiter& w) const noexcept;
  time_point end_of(const limit_waiter& w) const noexcept;
  void limit(limit_waiter& w) noexcept;
  void must_be_told() noexcept;
  bool is_leaving() const noexcept;
  void take_out(limit_waiter& w) noexcept;
  void finish(limit_waiter& w, std::error_code ec) noexcept;
  void finish_all(errc code) noexcept;
  void begin_session() noexcept;
  void ask_again() noexcept;
  void lose_session() noexcept;
  void tell_later(std::shared_ptr<holding> h) noexcept;
  void listen(bool wanted) noexcept;
  void check_listening(time_point now) noexcept;
  std::string channel(std::uint64_t session) const { return prefix_ + "n:" + session_base_ + std::to_string(session); }
  void deliver_later(limit_waiter& w) noexcept;
  void set_alarm(time_point when) noexcept;
  time_point next_step(time_point now) const noexcept;

  const ledger_options options_;
  const std::string prefix_;
  const std::shared_ptr<engine> home_;  // of the client
  const unsigned slot_;
  std::shared_ptr<engine> engine_;    // the node that has the limit: another one in a cluster
  std::shared_ptr<engine> for_once_;  // where the next call goes
  int redirections_ = 0;              // in a row
  net::any_io_executor executor_;

  std::map<order, limit_waiter*> waiting_;
  std::map<std::uint64_t, limit_waiter*> by_id_;
  std::map<std::uint64_t, std::weak_ptr<holding>> holdings_;
  std::set<order> fresh_;                                         // of waiting_: Redis has not heard of them
  std::set<order> asked_;                                         // of waiting_: all others
  std::vector<std::pair<std::uint64_t, std::uint64_t>> cancels_;  // waiter and weight
  std::vector<std::uint64_t> acknowledged_;
  std::size_t cancels_under_way_ = 0;
  std::size_t acknowledged_under_way_ = 0;
  canigo::detail::suspended_list ready_;  // ended, and to be posted
  std::shared_ptr<holding> ended_;        // holdings whose end is to be told: the first of a chain
  std::optional<command> call_;           // to be sent
  std::uint64_t held_ = 0;
  std::uint64_t last_token_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_arrival_ = 1;

  const std::string session_base_;
  std::string session_;
  std::uint64_t session_number_ = 0;
  std::uint64_t session_under_way_ = 0;
  std::uint64_t listening_to_ = 0;  // the number of a session; 0: none
  std::uint64_t sequence_ = 0;
  limit_settings settings_;
  time_point paused_until_ = time_point::min();
  unsigned unsaid_ = 0;  // settings that were changed here
  unsigned unsaid_under_way_ = 0;
  std::int64_t charged_ = 0;  // tokens, in all; less what was given back
  std::int64_t charged_under_way_ = 0;
  std::int64_t charged_and_answered_ = 0;
  std::uint64_t idle_ = 0;   // permits that are kept, or tokens taken ahead
  std::uint64_t ahead_ = 1;  // so many are asked for next time
  time_point idle_until_ = time_point::max();
  time_point empty_at_ = time_point::min();      // the bucket, as of the last answer
  time_point closed_until_ = time_point::min();  // quarantine, as of the last answer
  std::int64_t epoch_ = 0;                       // of Redis' memory, at the last answer
  bool under_way_ = false;
  bool may_send_ = false;  // what has gathered in this turn of the loop
  bool turn_wanted_ = false;
  bool turn_posted_ = false;
  bool is_hinted_ = false;  // there is something for us
  bool is_registered_ = false;
  bool is_failing_ = false;
  bool must_tell_ = false;  // something was given back
  bool send_text_ = false;  // Redis does not know the script
  bool may_hold_there_ = false;  // Redis may take something for held here
  bool leave_under_way_ = false;
  bool closing_ = false;
  std::int64_t lease_until_ = 0;  // on the clock that does not stop
  std::int64_t sent_at_ = 0;
  std::int64_t told_at_ = 0;   // when that call was sent, on the clock of leases,
  std::int64_t told_now_ = 0;  // that was answered last, with this time of Redis; 0: none
  time_point called_at_{};
  time_point late_at_{};       // what can't wait does not wait longer for that call
  bool is_decided_ = false;    // what could not
  std::uint64_t asked_before_ = 0;  // arrivals that Redis is told of by it, or was before
  std::uint64_t heard_before_ = 0;  // the same of the last that was answered
  duration slow_{};                 // that took so long, which this lease does not stand; 0: it does
  time_point renew_at_ = time_point::max();
  time_point next_at_ = time_point::max();
  time_point retry_at_ = time_point::min();
  time_point check_after_ = time_point::min();
  time_point failing_since_ = time_point::max();
  time_point known_until_ = time_point::min();  // that it fails; after that it is asked first
  time_point tell_until_ = time_point::max();   // what was changed here, while it fails
  std::error_code cause_;                       // why it fails
  std::string cause_text_;
  bool is_permanent_ = false;  // the cause
  bool is_wanted_ = false;     // somebody has come since it was asked last
  std::error_code unheard_;    // why nothing is heard of what is published
  std::string unheard_text_;
  time_point listen_after_ = time_point::min();
  std::uint32_t failures_ = 0;
  std::uint64_t random_;
  bool has_share_ = false;  // of the quota, which counts since Redis does not answer
  token_bucket local_;
  time_point local_at_ = time_point::max();

  queue_stats counts_;
  limit_stats stats_;
  alarm alarm_;
  bool alarm_armed_ = false;
  time_point alarm_at_ = time_point::max();
  std::shared_ptr<ledger> self_;  // while the alarm is armed
};

}  // namespace canigo::redis::detail
