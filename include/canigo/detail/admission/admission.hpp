#pragma once

#include "canigo/detail/admission/admission_counts.hpp"
#include "canigo/detail/admission/flow_host.hpp"
#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/queue/binding_times.hpp"
#include "canigo/detail/queue/delay_watch.hpp"
#include "canigo/detail/queue/supplies.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace canigo::detail {

class fair_queue;
class flow_ceiling;

/// The name of a limit for error messages; null if the limit has none. Each waiter shares the name, because the limit
/// may be destroyed before the waiter.
using limit_name = std::shared_ptr<const std::string>;
limit_name make_name(const std::string& name);

struct admission_options {
  int priorities = 1;
  std::size_t queue_limit = 100'000;
  overflow on_overflow = overflow::reject_new;
  duration ageing = duration::max();
  shedding_options shedding = {};
  duration slack = duration::zero();
  enforcement mode = enforcement::enforce;
  bool times_binding = false;  ///< whether the engine measures for how long each limit held up the first waiter
  limit_name name = {};
};

/// Throws if a rate can't have this burst or these initial tokens. The message names the field, preceded by `prefix`.
void check_tokens(std::string_view prefix, std::uint64_t burst, std::uint64_t initial_tokens = 0);

/// Throws if a rate can't have this window. The message names the window or the burst, preceded by `prefix`.
void check_window(std::string_view prefix, rate_window w, const rate& r, std::uint64_t burst);
/// Adds the window of the rate `r` to `all`, the windows of a limit. Call it once for each rate, in order. `rates` is
/// the number of rates so far, including `r`.
void add_window(rate_windows& all, std::size_t rates, rate_window w, const rate& r);

/// Returns `o` if each field is in its range; otherwise throws, naming the field as a member of `type`.
admission_options checked(std::string_view type, const admission_options& o);

/// The base class of an object that an engine owns. The engine's destructor destroys the object.
struct companion {
  virtual ~companion() = default;
};

/// The engine of scheduler, semaphore and limiter: a queue of requests, the supplies (tokens and slots) that they wait
/// for, and the time.
///
/// One lock guards it; no foreign code runs under the lock. A request is granted at the instant at which the grant
/// becomes possible. After the lock is released, `delivery` resumes the waiter.
///
/// It lives as long as anything refers to it: its handle, deliveries under way, and occupied slots. Occupied slots are
/// not counted one by one, because that would cost each permit two atomic operations. Instead, after close() the last
/// freed slot releases the reference that the handle had.
///
/// With its first flow, the engine moves its waiters into a fair_queue. Then no request takes the fast path
/// short_ways::in. With alternatives, the engine has a fair_queue from the start. There, waiters with the same set of
/// alternatives share a lane.
class admission final : public delivery, public flow_host {
 public:
  /// Returns a new engine with one reference, which close() releases.
  static admission* open(const net::any_io_executor& executor, supplies s, const admission_options& options,
                         std::unique_ptr<companion> beside = nullptr);
  /// Ends every wait with the outcome `stopped`, and releases the handle's reference to this engine.
  void close() noexcept;

  /// Grants `r` if that is possible without waiting and without overtaking a waiter.
  outcome try_enter(const request& r) noexcept;
  outcome try_enter(int priority) noexcept;
  /// Returns true if a request certainly has to wait behind another one; false if that is unknown. Takes no lock.
  bool is_behind_others(int priority = 0) const noexcept {
    return has_waiters_.load(std::memory_order_relaxed) && priority == 0;
  }
  bool is_behind_others(const request& r) const noexcept {
    return is_behind_others(r.priority) && r.tokens == 1 && r.deadline == time_point::max() && r.flow == nullptr &&
           r.amounts.empty();
  }
  /// Like try_enter(), for a coroutine. After many immediate grants in a row it returns granted_by_post: the coroutine
  /// must pass through the event loop, so that other handlers run.
  outcome try_enter_in_turn(const request& r) noexcept;
  outcome try_enter_in_turn(int priority = 0) noexcept;
  /// Makes `w` wait for the grant of `r`. The wait always ends with a post.
  void enter(waiter& w, const request& r) noexcept;
  /// Ends the wait of `w` with the outcome `o`, always with a post.
  void deliver(waiter& w, const request& r, outcome o) noexcept;
  void cancel(waiter& w) noexcept;

  /// Calls `f` to change the supplies (tokens and slots), and grants waiters, in one step under the lock. If `f`
  /// throws, nothing has changed.
  template <class Function>
  void change_supplies(Function&& f) {
    adjust_supplies([&](supplies& s, time_point now) {
      f(s, now);
      end_too_large();
    });
  }
  /// Like change_supplies(), but does not search for requests that have become too large for the limit. Use it only for
  /// changes that can't make a request too large, such as a change of the available tokens.
  template <class Function>
  void adjust_supplies(Function&& f) {
    const change c{*this};
    if (context_gone_) return;
    const time_point now = time_->now();
    if (!queue_.empty() || flows_ != nullptr) pump(now);  // grants the requests that were due before the change
    f(supplies_, now);
    pump(now);
  }
  /// Settles an operation that was granted `from` tokens and used `to`: charges the difference, or gives it back.
  void settle(std::uint32_t flow, std::uint64_t from, std::uint64_t to) noexcept;
  /// Occupies slots without waiting, even if too few are free. Returns false, and occupies no slot, if the supplies are
  /// closed.
  bool occupy(std::uint64_t places) noexcept;
  std::uint64_t occupied() const noexcept;
  /// Frees `places` slots, and the record of the grant if `kept` points to one. Any thread may call it, also after
  /// close() and after the destruction of the context. For a permit of a flow, `places` also contains the flow; see
  /// flow_places.
  void release(std::uint64_t places, std::uint64_t kept = 0) noexcept;

  bool has_records() const noexcept { return supplies_.has_records(); }
  /// The value that a new permit keeps for settling: the tokens, or, with units or strict windows, a pointer to a
  /// record of the grant.
  std::uint64_t keep(const request& r) noexcept { return has_records() ? keep_amounts(r) : r.tokens; }
  std::uint64_t keep() noexcept { return has_records() ? keep_amounts({}) : 1; }
  /// The number of a unit. Throws errc::invalid_argument if there is no such unit; the message names `field` as the
  /// wrong argument.
  std::size_t find_unit(const unit_key& unit, std::string_view field) const;
  /// Replaces the amount of a unit that was granted to a permit by the amount that was really used. Charges the
  /// difference, or gives it back.
  void settle_unit(std::uint32_t flow, std::uint64_t& kept, std::size_t unit, std::uint64_t used) noexcept;

  void pause_until(time_point t, bool may_shorten = true) noexcept;
  void resume() noexcept { pause_until(time_point::min()); }
  void stop() noexcept;
  duration estimate(const request& r) const;
  /// Writes the counts of all requests to `s`, and calls `f` with the supplies, in one step under the lock.
  template <class Function>
  void stats(queue_stats& s, Function&& f) const {
    s.classes.resize(static_cast<std::size_t>(priorities_));
    const std::lock_guard lock{mutex_};
    read_counts(s);
    f(supplies_, clock());
  }
  std::size_t waiting() const noexcept;
  /// Switches shadow mode on or off. In shadow mode each request is granted immediately, and the statistics count how
  /// the request would have ended without shadow mode. Requests that wait when shadow mode begins are granted.
  ///
  /// Errors: errc::invalid_argument for an unknown value, and for shadow mode if the limit shares slots with other
  /// limits, or has alternatives or sublimits.
  void set_mode(enforcement mode, std::string_view field);
  enforcement mode() const noexcept;
  /// The counts of shadow mode. Call it under the lock, for example inside stats().
  shadow_stats read_shadow() const { return shadow_ != nullptr ? shadow_->counts : shadow_stats{}; }
  /// The first `most` waiters. The result also names, for each of them, the limit that would still delay this waiter if
  /// all waiters before it were granted.
  std::vector<waiting_request> list(std::size_t most) const;
  /// For how long each limit has delayed the first waiter. Call it under the lock, for example inside stats().
  binding_stats read_binding(time_point now) const { return binding_ ? binding_->read(now) : binding_stats{}; }
  /// Calls `f` with the supplies, the demand of the first waiter, the end of a pause, the time, and the ceiling that
  /// holds back the first waiter's flow. The demand is nullptr if there is no first waiter. The ceiling is nullptr if
  /// none holds back the flow.
  template <class Function>
  auto look(Function&& f) {
    const std::lock_guard lock{mutex_};
    const time_point now = clock();
    const flow_ceiling* held_by = nullptr;
    const wait_node* const head = flows_ == nullptr ? queue_.front(now) : first_in_flows(now, held_by);
    const demand wanted = head != nullptr ? demand_of(*head) : demand{0};
    return f(std::as_const(supplies_), head != nullptr ? &wanted : nullptr, paused_until_, now, held_by);
  }

  /// Returns which limit delays the first waiter, and until when.
  wait_reason why_waiting() noexcept;
  /// Grants nothing from an alternative until `t`. Unless `may_shorten`, a pause that already lasts longer is kept.
  void pause_alternative(std::size_t i, time_point t, bool may_shorten) noexcept;
  /// Moves a permit to alternative `i`. The permit's former alternative gets its slot and its amounts back.
  void move_to_alternative(std::uint64_t kept, std::size_t i) noexcept;
  /// The alternative that granted the permit for which keep() returned `kept`; no_alternative if the limit has no
  /// alternatives.
  std::size_t alternative_of(std::uint64_t kept) const noexcept;
  /// The name of an alternative, which lives as long as the engine. Empty if there is no such alternative.
  std::string_view name_of_alternative(std::size_t i) const noexcept;
  /// The number of alternatives of the limit, which never changes.
  std::size_t alternatives_count() const noexcept {
    const alternatives* const any = supplies_.any_of();
    return any != nullptr && !any->is_hidden() ? any->size() : 0;
  }

  companion* beside() const noexcept { return beside_.get(); }
  const limit_name& name() const noexcept { return name_; }
  time_point now() const noexcept { return clock(); }
  bool is_in_virtual_time() const noexcept { return is_virtual_; }

  std::uint64_t places_for(std::uint64_t tokens) const noexcept { return supplies_.places_for(tokens); }
  /// The slots that a granted request occupies, in the form that its permit stores; see flow_places.
  std::uint64_t places_of(const request& r) const noexcept {
    return r.flow == nullptr ? places_for(r.tokens) : places_in_flow(r);
  }
  /// Throws if a field of `r` is invalid; the message names the field.
  void check(const request& r) const;

  std::uint32_t open_flow(const flow_options& o) override;
  void close_flow(std::uint32_t flow) noexcept override;
  void set_flow_weight(std::uint32_t flow, std::uint32_t weight) override;
  void set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) override;
  void set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) override;
  void pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept override;
  flow_stats stats_of_flow(std::uint32_t flow) const override;

 private:
  friend class waiter;
  struct wake_up : deadline {
    explicit wake_up(admission& a) noexcept;
    admission* owner;
  };
  /// The data of a limit that keeps a record of each grant. A limit needs records if it has several units, alternatives
  /// or sublimits. A limit with permits and a strict window also needs them, to find the grant of a permit in the
  /// window. Other limits have no unit_state.
  struct unit_state {
    explicit unit_state(int priorities) : waiting(static_cast<std::size_t>(priorities)) {}
    unit_records records;
    std::vector<std::array<uint128, most_units>> waiting;  // the amounts that the waiters of each class request
  };
  /// The data of shadow mode, made when the mode is switched on for the first time. While shadow mode is on, all
  /// waiters are shadow waiters: they stand for requests that were already granted.
  struct shadow_state {
    bool is_on = true;
    shadow_stats counts;
  };
  struct phantom;
  /// The registration of this engine among the engines that share its slots.
  struct seat final : place_seeker {
    explicit seat(admission& a) noexcept : owner{&a} {}
    void keep() noexcept override { owner->add_ref(); }
    void let_go() noexcept override { owner->release_ref(); }
    void look_again() noexcept override;
    admission* owner;
  };

  /// Which fast paths of the engine are open now. Only choose_ways() changes this struct, whenever one of the
  /// conditions in the last column changes.
  ///
  /// | path    | use of the fast path                              | closed by                                      |
  /// |---------|---------------------------------------------------|------------------------------------------------|
  /// | in      | a request takes its tokens if no other waits      | stop(), flows, grant records, shadow mode      |
  /// | through | serve() grants the waiters, not serve_fully()     | shared slots, flows, grant records,            |
  /// |         |                                                   | shadow mode, strict windows, shedding, slack,  |
  /// |         |                                                   | times_binding, the end of the context          |
  /// | out     | a release only reduces the number of slots in use | shared slots, flows, grant records,            |
  /// |         |                                                   | shadow mode, slots that outlive the handle     |
  struct short_ways {
    bool in = true;
    bool through = true;
    bool out = true;
  };

  static constexpr duration catch_up = std::chrono::milliseconds{20};

  admission(const net::any_io_executor& executor, supplies s, const admission_options& options,
            std::unique_ptr<companion> beside);
  ~admission();
  bool may_go() noexcept override;
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  // These functions serve requests that enter and leave (admission.cpp).
  time_point now_for(time_point deadline) const noexcept;
  bool is_paused(time_point now) noexcept;
  outcome try_enter_locked(const request& r, time_point now, bool is_patient = true) noexcept;
  template <class Closer>
  outcome try_enter_locked(int priority, std::uint64_t tokens, time_point now, bool is_usual, Closer closer) noexcept;
  outcome take_turn(outcome o) noexcept;
  outcome why_not(const request& r, time_point now, bool is_patient = true) noexcept;
  outcome why_not(int priority, time_point now, bool is_patient = true) noexcept;
  bool make_room(std::uint32_t flow, int priority) noexcept;
  void wait_in_queue(waiter& w, const request& r) noexcept;
  bool gave_up_last_place() noexcept;
  void release_and_tell(std::uint64_t places, std::uint64_t kept) noexcept;
  std::shared_ptr<shared_places> put_back(std::uint64_t places) noexcept;
  void undo(waiter& w) noexcept;
  time_point earliest(const request& r, time_point now) const noexcept;
  void read_counts(queue_stats& s) const noexcept;
  void count_end(outcome o) noexcept;

  // These functions end waits.
  void finish(waiter& w, outcome o) noexcept;
  void conclude(waiter& w, outcome o) noexcept;
  void end_wait(waiter& w, outcome o) noexcept;
  void ready(waiter& w) noexcept;
  void limit_passed(waiter& w) noexcept;
  void end_too_large() noexcept;

  // These functions grant waiters (admission.cpp; admission_full.cpp if short_ways::through is closed).
  void pump(time_point now) noexcept;
  void pump_otherwise(time_point now) noexcept;
  template <class Queue>
  void serve(Queue& queue, time_point now) noexcept;
  template <class Queue>
  void serve_fully(Queue& queue, time_point now) noexcept;
  void serve_fully(time_point now) noexcept;
  void wake_at(time_point when) noexcept;
  void woken() noexcept;
  void choose_ways() noexcept;

  // These functions serve limits that keep a record of each grant (admission_units.cpp).
  bool resolve(const request& r, amounts_by_unit& result) const noexcept;
  outcome try_enter_with_units(const request& r, time_point now) noexcept;
  outcome why_not_amounts(const request& r) const noexcept;
  std::uint64_t largest_amount(const request& r, std::size_t unit) const noexcept;
  outcome enter_flow_with_units(const request& r, time_point now, std::uint32_t flow) noexcept;
  void add_amounts_ahead(const request& r, std::uint32_t flow, amounts_by_unit& own,
                         amounts_by_unit& all) const noexcept;
  void check_amounts(const request& r) const;
  outcome keep_amounts(waiter& w, const request& r, outcome o) noexcept;
  std::uint64_t keep_amounts(const request& r) noexcept;
  void wait_for_amounts(const waiter& w) noexcept;
  void leave_with_amounts(waiter& w, outcome o) noexcept;
  void drop_amounts(waiter& w) noexcept;
  time_point amounts_ready_at(time_point now, const request& r, std::uint64_t tokens) const noexcept;
  static unit_record* to_record(std::uint64_t kept) noexcept;
  static demand demand_of(const wait_node& n) noexcept {
    const unit_record* const amounts = static_cast<const waiter&>(n).amounts_;
    return {n.tokens, amounts != nullptr ? &amounts->amounts : nullptr};
  }

  // These functions serve limits with alternatives (admission_alternatives.cpp).
  static lane_key key_of_node(const wait_node& n) noexcept;
  static unit_record& record_of(const wait_node& n) noexcept;
  void make_lanes();
  outcome why_no_alternative(const request& r) const noexcept;
  bool knows_sublimit(const request& r) const noexcept;
  void check_sublimit(const request& r) const;
  std::uint16_t sublimit_of(const request& r) const noexcept {
    return r.sublimit < 0 || supplies_.named() == nullptr ? without_sublimit : static_cast<std::uint16_t>(r.sublimit);
  }
  bool fits_sublimit(std::uint16_t sublimit, demand d) const noexcept {
    return supplies_.named() == nullptr || supplies_.named()->fits(sublimit, d);
  }
  time_point sublimit_ready_at(std::uint16_t sublimit, time_point now, demand d) const noexcept {
    return supplies_.named() == nullptr ? now : supplies_.named()->ready_at(sublimit, now, d);
  }
  void check_alternatives(const request& r) const;
  lane_key key_of(const request& r, demand wanted) const noexcept;
  std::size_t alternative_for_newcomer(const lane_key& key, demand wanted, std::uint32_t flow, time_point now) noexcept;
  outcome enter_any_of(const request& r, time_point now, std::uint32_t flow) noexcept;
  void grant_at_once(const request& r, const lane_key& key, std::size_t chosen, std::uint32_t flow, time_point now,
                     unit_record& record) noexcept;
  bool grant_newcomer(waiter& w, const request& r, std::uint32_t flow, time_point now) noexcept;
  unit_record* take_promised(const request& r) noexcept;
  bool finds_lane(waiter& w, const request& r) noexcept;
  void serve_any_of(time_point now) noexcept;
  void find_sets_anew() noexcept;
  time_point earliest_of_any(const request& r, time_point now) const noexcept;
  time_point earliest_of_any(std::uint32_t flow, const lane_key& key, time_point now, demand own,
                             demand all) const noexcept;
  wait_reason what_binds(const wait_node& n, time_point now) const noexcept;

  // These functions are for shadow mode (admission_shadow.cpp).
  bool is_shadow() const noexcept { return shadow_ != nullptr && shadow_->is_on; }
  outcome enter_in_shadow(const request& r, time_point now, bool is_patient) noexcept;
  void let_wait_in_shadow(const request& r, std::uint32_t flow, time_point now) noexcept;
  bool is_over_in_shadow(wait_node& n, time_point ready, time_point now) noexcept;
  void grant_in_shadow(wait_node& n, time_point now) noexcept;
  time_point end_in_shadow(const wait_node& n) const noexcept;
  void finish_phantom(waiter& w, outcome o) noexcept;
  void let_all_go(time_point now) noexcept;

  // These functions shed waiters during an overload, and combine the wake-ups of several waiters
  // (admission_overload.cpp).
  void shed(time_point now) noexcept;
  void shed_of_flows(time_point now) noexcept;
  time_point next_overload(time_point now) const noexcept;
  wait_node* next_to_go(wait_queue& queue, time_point now) noexcept;
  static wait_node* next_to_go(fair_queue& queue, time_point now) noexcept;
  time_point wake_for(time_point now, time_point ready) const noexcept;
  /// The least important class whose waiters are certainly granted before `r`; -1: there is no such class. `r` may be
  /// granted before waiters of its own class in two cases. A class may grant its newest request first, or `r` may be a
  /// repeat (a request with `since`). With ageing, a repeat may be granted before requests of any class.
  int last_class_ahead(const request& r) const noexcept {
    const bool is_repeat = r.since != time_point::max();
    if (is_repeat && queue_.ageing() != duration::max()) return -1;
    return r.priority - (is_repeat || (delays_ && delays_->takes_newest_at_times()) ? 1 : 0);
  }

  // These functions report statistics and estimates about the waiters (admission_look.cpp).
  void note_binding(time_point now) noexcept;
  std::uint64_t line_of(const wait_node& n) const noexcept;
  /// The amounts and slots that one waiter needs, together with those of all requests that are certainly granted before
  /// the waiter.
  struct turn {
    amounts_by_unit own{};     // the amounts of the waiter's flow, or of all waiters if the limit has no flows
    amounts_by_unit all{};     // `own`, plus the amounts of more important waiters in flows that no ceiling holds back
    std::uint64_t places = 0;  // the slots that this waiter and the earlier waiters of its flow need
  };
  std::vector<const wait_node*> first_waiters(time_point now, std::size_t most) const;
  std::vector<amounts_by_unit> certain_turns(const std::vector<const wait_node*>& waiters, bool takes_newest) const;
  waiting_request row_of(time_point now, const wait_node& n, const turn& t) const;

  // These functions serve limits with flows (admission_flows.cpp).
  bool is_of_this(const request& r) const noexcept;
  static std::uint32_t number_of(const request& r) noexcept;
  std::uint64_t places_in_flow(const request& r) const noexcept;
  std::uint64_t largest_request(const request& r) const noexcept;
  void move_to_flows(time_point now);
  outcome enter_flow(const request& r, time_point now) noexcept;
  void wait_in_flow(waiter& w, const request& r, time_point now) noexcept;
  bool make_room_in_flow(std::uint32_t flow, int priority) noexcept;
  bool finds_room_in_flow(std::uint32_t flow, int priority, bool& evicted) noexcept;
  void leave_flow(waiter& w, outcome o) noexcept;
  void stamp(waiter& w, const request& r) noexcept;
  void advance_flows() noexcept;
  void count_flow_failure(const request& r) noexcept;
  time_point earliest_in_flow(const request& r, time_point now) const noexcept;
  const wait_node* first_in_flows(time_point now, const flow_ceiling*& held_by) noexcept;

  supplies supplies_;
  wait_queue queue_;
  bool stopped_ = false;
  short_ways ways_;
  bool kept_by_places_ = false;  // true: the handle is destroyed, but its reference is kept until no slot is occupied
  bool dying_ = false;           // whether the running wake-up has to delete this engine at its end
  bool wake_armed_ = false;      // whether the deadline wake_up_ is armed
  std::uint8_t in_a_row_ = 0;    // number of immediate grants to coroutines since the last granted_by_post
  // whether queue_ has waiters; also read without the lock where an outdated answer does no harm
  atomic<bool> has_waiters_{false};
  time_point paused_until_ = time_point::min();
  time_point wake_time_ = time_point::max();

  admission_counts counts_;
  std::optional<binding_times> binding_;
  std::optional<delay_watch> delays_;  // set only if the limit sheds waiters
  std::unique_ptr<shadow_state> shadow_;
  const duration slack_;  // how late a wake-up may be, so that several wake-ups are combined
  const std::size_t queue_limit_;
  const overflow on_overflow_;
  const int priorities_;

  wake_up wake_up_;
  const std::unique_ptr<seat> seat_;         // set only if the limit shares its slots with other limits
  const std::unique_ptr<unit_state> units_;  // set only if this limit keeps a record of each grant
  // holds the waiters if the limit has flows or alternatives; null: queue_ holds them
  std::unique_ptr<fair_queue> flows_;
  open_lanes left_open_;  // the sublimits and alternatives that no earlier waiter reserves
  const std::unique_ptr<companion> beside_;
  const limit_name name_;
};

/// Opens an engine that grants a request only while none of its slots is occupied. So a request waits until all slots
/// are free, for example in gate::close().
admission* open_idle(const net::any_io_executor& executor);

}  // namespace canigo::detail
