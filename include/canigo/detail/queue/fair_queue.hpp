#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/delay_watch.hpp"
#include "canigo/detail/queue/flow_ceiling.hpp"
#include "canigo/detail/queue/flow_heap.hpp"
#include "canigo/detail/queue/supplies.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The options of a flow. See canigo::flow_options.
struct flow_terms {
  std::uint32_t weight = 1;
  std::vector<token_bucket> rates = {};
  std::vector<std::uint8_t> units = {};  // the unit of each rate; empty if there is only one
  rate_windows windows = {};             // the window of each rate; empty if no rate is strict
  std::uint64_t cap = flow_ceiling::no_cap;
  std::uint64_t queue_limit = unlimited;
  bool times_waits = false;
};

/// How the requests of one flow ended.
struct flow_counts {
  std::uint64_t granted = 0;
  std::uint64_t tokens = 0;  // the tokens of the granted requests
  std::uint64_t failed = 0;
};

/// Waiters of several flows, each of which has a share of a limit by its weight: start-time fair queueing (P. Goyal,
/// H. Vin, H. Cheng, 1996), with a virtual time for each effective class.
///
/// Of a flow only its first waiter competes: the one of the least (effective class, arrival). Among flows the least
/// (effective class, tag, arrival) goes first. A grant of n tokens sets the virtual time of the class to the flow's tag
/// there, and moves the tag on by n / weight. If a request wants several units, the owner says what n is. A flow that
/// comes from idleness, from being held, or from another class, goes on from the virtual time: it has no credit for the
/// past. When no waiter may go, all tags count as equal again, so a grant at once is never charged.
///
/// A flow is held while its ceiling does not allow its first waiter. Then it is out in all classes, and the other flows
/// are served as if it were not there.
///
/// Tags are whole numbers of a unit that all weights up to 16 divide, with the remainder carried, so nothing drifts.
/// The rounding is below what the bound |Wf·wm − Wm·wf| <= lf·wm + lm·wf, of whole numbers, can show.
///
/// Number 0 is the nameless flow: of weight 1, without a ceiling, and always there.
///
/// If waiters are shed, each flow is judged by its own delays, in each class. See overdue().
///
/// If waiters differ in what may serve them, the owner names the set of each one. The waiters of one set are a lane. A
/// flow has a row of its own in each lane. Rows of one flow share its weight and its ceiling, and a grant to one of
/// them moves the tags of all. front_open() passes over lanes, so the first waiter of one set holds up no other set. A
/// lane that was passed over has no credit for that: its tags move on together to the virtual time.
///
/// Threads: none; its owner holds a lock. Allocates: in the constructor and in add(), about 64 bytes for each class and
/// 200 more for each flow.
class fair_queue {
 public:
  static constexpr std::uint32_t nameless = 0;
  static constexpr std::uint32_t most_flows = (std::uint32_t{1} << flow_bits) - 1;
  static constexpr std::uint32_t most_weight = 10'000;

  /// If there are several units: the amounts that a node wants. They stay the same while the node is in this queue.
  using amounts_of_node = const amounts_by_unit* (*)(const wait_node&) noexcept;

  /// If waiters differ in what may serve them: a bit for each thing that may serve a node. Stays the same while the
  /// node is in this queue.
  using set_of_node = std::uint64_t (*)(const wait_node&) noexcept;
  /// The most sets that waiters can have at once.
  static constexpr std::size_t most_lanes = 256;

  /// Arguments as for wait_queue. `o`: how many places a request occupies under the cap of its flow.
  fair_queue(int priorities, duration ageing, supplies::occupancy o, amounts_of_node amounts = nullptr,
             const delay_rule& delays = delay_rule{{}}, set_of_node sets = nullptr);
  fair_queue(const fair_queue&) = delete;
  fair_queue& operator=(const fair_queue&) = delete;

  /// Takes over all waiters of `q`, for the nameless flow. They keep their arrival, and what is known of their delays.
  void take_over(wait_queue& q, time_point now, const delay_watch* delays = nullptr) noexcept;

  /// Adds a flow and returns its number. A throw changes nothing.
  ///
  /// Errors: errc::invalid_argument if there are most_flows already.
  std::uint32_t add(flow_terms terms);
  /// Removes a flow without waiters. Its number is used again when none of its places is occupied any more.
  void forget(std::uint32_t flow) noexcept;

  /// Moves the time on: waiters rise, and held flows return when their ceilings let them. Call it before any of the
  /// members below at `now`.
  void advance(time_point now) noexcept;

  /// Makes room for a node of this flow and set. Call it before push(), if there are sets. False if most_lanes have
  /// waiters, or without memory. Allocates for a set that the flow has not had so far. O(lanes).
  bool make_lane(std::uint32_t flow, std::uint64_t set) noexcept;
  /// Puts a node into the class node.priority of its flow, behind those that arrived until `since`, or until now. O(log
  /// flows), and for a repeat O(those of the class that arrived after it).
  void push(wait_node& node, std::uint32_t flow, time_point since = time_point::max()) noexcept;
  /// Takes a waiter out, wherever it stands. O(log flows).
  void remove(wait_node& node) noexcept;
  /// The waiter that goes next, or nullptr if none may. O(1).
  wait_node* front() const noexcept {
    if (sets_ != nullptr) return first_of_lanes(~std::uint64_t{0});
    return ready_.empty() ? nullptr : rows_[heap::number_of(ready_.top())].front;
  }
  /// The waiter that goes next among those whose set has a bit of `open`. O(lanes).
  wait_node* front_open(std::uint64_t open) const noexcept { return first_of_lanes(open); }
  wait_node* front(time_point now) noexcept {
    advance(now);
    return front();
  }
  /// Takes front(), or front_open(), out for good: its ceiling and its share are charged. O(log flows).
  ///
  /// `caught_up`: tokens that were due since then are taken as of when they were due. `charge`: the cost for its share.
  /// A phantom of shadow mode is no grant: its request went before, was counted then, and holds its places.
  void grant(wait_node& node, time_point caught_up, std::uint64_t charge, bool is_phantom = false) noexcept;
  void grant(wait_node& node, time_point caught_up) noexcept { grant(node, caught_up, node.tokens); }
  /// When front() may be another waiter although none came or left; max: never.
  time_point next_change() const noexcept;
  /// Looks at the waiters that have waited too long in an overloaded class of their flow. Returns the first arrival of
  /// the least important class among them, or nullptr. Call it after advance().
  wait_node* overdue() noexcept;
  /// When overdue() may find a waiter although none came or left, or max. Maybe too early, never too late.
  time_point next_overdue() const noexcept;
  time_point next_promotion(time_point) const noexcept { return next_change(); }

  /// Takes a waiter out whose set has changed, and puts it where its arrival puts it. The set must be the new one, and
  /// `number` the result of row_of() before the change. O(waiters of its class and row).
  void move_to_lane(wait_node& node, std::uint32_t number) noexcept;
  /// The number of the lists that a waiter is in. O(lanes of its flow).
  std::uint32_t row_of(const wait_node& n) const noexcept {
    return sets_ == nullptr ? n.flow_ : row_in_lane(n.flow_, sets_(n));
  }
  /// Like may_enter(), if there are sets: whether no ceiling holds the newcomer, or a waiter of its flow.
  bool may_pass(std::uint32_t flow, demand d) const noexcept;

  /// Whether a newcomer of this flow may go without overtaking: no waiter may go, none of its flow waits, and its
  /// ceiling allows it.
  bool may_enter(std::uint32_t flow, demand d) const noexcept;
  /// Call it when a newcomer was granted so: charges its ceiling, but not its share.
  void enter(std::uint32_t flow, demand d) noexcept;
  /// Call it when a newcomer was granted in shadow mode, although may_enter() says no.
  void enter_beyond(std::uint32_t flow, std::uint64_t tokens) noexcept;
  /// Call it when a waiter is granted in shadow mode, although it may not go. The owner then takes it out.
  void go_beyond(const wait_node& node) noexcept;
  /// Counts all places that were occupied in this way. The owner then ends each waiter that asks for too much.
  void count_beyond() noexcept;
  /// Notes the flow of a node that is to be pushed at some time.
  static void choose(wait_node& node, std::uint32_t flow) noexcept { node.flow_ = flow; }
  bool is_open(std::uint32_t flow) const noexcept {
    return flow < rows_.size() && rows_[flow].weight != 0 && !rows_[flow].is_leaving;
  }
  /// Marks a node that was never pushed as one of this flow.
  void stamp(wait_node& node, std::uint32_t flow) const noexcept {
    node.flow_ = flow;
    node.sequence_ = next_sequence_;
  }

  /// Gives places back. That changes the ceilings, not the shares.
  void release(std::uint32_t flow, std::uint64_t places) noexcept;
  /// Notes that a request that was granted `wanted` of a unit has used `used`.
  void settle(std::uint32_t flow, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
              time_point granted_at = time_point::min()) noexcept;
  /// Takes back a grant that was never used; `node` is of this flow, and granted.
  void undo(const wait_node& node, time_point granted_at = time_point::min()) noexcept;

  /// Changes the weight, from the next grant on.
  void set_weight(std::uint32_t flow, std::uint32_t weight) noexcept;
  void set_rate(std::uint32_t flow, std::size_t index, const rate& r) noexcept;
  /// The owner then ends each waiter that asks for more than largest_request().
  void set_cap(std::uint32_t flow, std::uint64_t cap) noexcept;
  /// Holds the flow until `t`.
  void pause_until(std::uint32_t flow, time_point t) noexcept;

  std::uint32_t weight(std::uint32_t flow) const noexcept { return rows_[flow].weight; }
  const flow_ceiling& ceiling(std::uint32_t flow) const noexcept { return extras_[flow].ceiling; }
  flow_counts counts(std::uint32_t flow) const noexcept {
    return {rows_[flow].granted, rows_[flow].tokens, extras_[flow].failed};
  }
  /// How long the granted requests waited; nullptr if the flow does not time its waits.
  const wait_histogram* waits(std::uint32_t flow) const noexcept { return extras_[flow].waits.get(); }
  void count_failure(std::uint32_t flow) noexcept { ++extras_[flow].failed; }
  std::uint64_t queue_limit(std::uint32_t flow) const noexcept { return extras_[flow].queue_limit; }
  /// Requests that are to be pushed later, and count for the queue limit already.
  void note_coming(std::uint32_t flow) noexcept { ++extras_[flow].coming; }
  void drop_coming(std::uint32_t flow) noexcept { --extras_[flow].coming; }
  std::size_t coming(std::uint32_t flow) const noexcept { return extras_[flow].coming; }
  /// How many of the waiters, and of a newcomer if there is one, the ceilings let go at `now`. Each is for one token.
  /// Counts up to `most`. O(flows).
  std::size_t may_go(time_point now, const wait_node* newcomer, std::size_t most) const noexcept;
  /// The most tokens that a request of this flow can ever get from it, or the most of another unit.
  std::uint64_t largest_request(std::uint32_t flow, std::size_t unit = 0) const noexcept;
  /// Whether a waiter is the first of its flow.
  bool is_first(const wait_node& node) const noexcept { return rows_[row_of(node)].front == &node; }
  bool is_held(std::uint32_t flow) const noexcept {
    bool result = false;
    for_rows(flow, [&](std::uint32_t number) {
      result = result || (rows_[number].front != nullptr && !rows_[number].is_ready);
    });
    return result;
  }
  /// The first waiter of all flows that are held, or nullptr. O(flows).
  const wait_node* first_held() const noexcept;

  /// Notes the most tokens that the limit can give at once. Returns whether that is less than before, so that a waiter
  /// may be too large now.
  bool shrinks_to(std::uint64_t most) noexcept { return std::exchange(most_, most) > most; }

  /// The class that a waiter has risen to. O(1).
  int effective_class(const wait_node& node) const noexcept;
  int effective_class(const wait_node& node, time_point) const noexcept { return effective_class(node); }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::size_t size(int priority) const noexcept { return classes_[static_cast<std::size_t>(priority)].size; }
  std::size_t flow_size(std::uint32_t flow) const noexcept {
    std::size_t sum = 0;
    for_rows(flow, [&](std::uint32_t number) { sum += rows_[number].size; });
    return sum;
  }
  int priorities() const noexcept { return static_cast<int>(classes_.size()); }
  /// The number of every flow is below this.
  std::size_t rows() const noexcept { return rows_.size(); }

  /// The first arrival, of all flows or of one; or nullptr. O(flows that wait).
  wait_node* oldest() const noexcept;
  wait_node* oldest_of(std::uint32_t flow) const noexcept;
  /// The last arrival of the last class, by the class it arrived in; or nullptr. O(flows).
  wait_node* youngest_of_least_important() const noexcept;
  wait_node* youngest_of_least_important_of(std::uint32_t flow) const noexcept;
  /// The waiter that a newcomer displaces, if the least important go: youngest_of_least_important(), if that is less
  /// important. If it is as important: the youngest, in its class, of the flow that has most waiters for its weight.
  /// That flow must have more waiters for its weight than the newcomer's, which counts with the newcomer. Otherwise
  /// nullptr. O(flows).
  wait_node* displaced_by(std::uint32_t flow, int priority) const noexcept;

  /// The tokens that go before a newcomer; both saturate.
  struct ahead {
    std::uint64_t own;  // the tokens of its flow
    std::uint64_t all;  // `own`, and the tokens of the classes above, of flows that nothing holds
  };
  /// `last`: the last class that goes before it, within its flow too; at most `priority`, or -1 if none does.
  ahead tokens_ahead(std::uint32_t flow, int priority, int last) const noexcept;
  /// The amount of a unit that the waiters of this flow and set want, in the classes up to `last`. Saturates.
  std::uint64_t amount_in_lane(std::uint32_t flow, std::uint64_t set, int last, std::size_t unit) const noexcept;
  /// Like tokens_ahead(), for another unit than the first.
  ahead amount_ahead(std::uint32_t flow, int priority, int last, std::size_t unit) const noexcept;
  bool takes_newest_at_times() const noexcept { return delays_.takes_newest_at_times(); }
  /// Adds what other flows that nothing holds want in the classes above. With ageing, that goes before until the waiter
  /// has risen.
  void add_classes_above(std::uint32_t flow, int priority, amounts_by_unit& to) const noexcept;
  /// When a newcomer of this class counts as one of the first; max if never.
  time_point first_class_at(time_point now, int priority) const noexcept;

  /// Calls `f` for each waiter of a flow; it may remove that one. O(waiters of the flow + classes).
  template <class Function>
  void for_each_of(std::uint32_t flow, Function&& f) {
    for_rows(flow, [&](std::uint32_t number) { for_each_in(number, f); });
  }
  /// Like for_each_of(), for all waiters. O(waiters + flows).
  template <class Function>
  void for_each(Function&& f) {
    for (std::uint32_t number = 0; number < rows_.size(); ++number) {
      if (rows_[number].size > 0) for_each_in(number, f);
    }
  }

 private:
  // The fields of a flow that a grant touches, and no others.
  struct row {
    wait_node* front = nullptr;  // its first waiter
    std::uint64_t step = 0;      // a token moves its tag by this
    std::uint64_t granted = 0;
    std::uint64_t tokens = 0;
    std::uint32_t weight = 0;  // 0: the number is free
    std::uint32_t size = 0;
    std::uint16_t step_rest = 0;  // the remainder of the step, in parts of `weight`
    std::uint16_t rank = 0;       // the class in which it competes, or did last
    bool is_ready = false;
    bool is_limited = false;  // whether its ceiling can bind
    bool is_leaving = false;
    bool is_timed = false;
  };
  struct extra {
    flow_ceiling ceiling;
    std::uint64_t queue_limit = 0;
    std::size_t coming = 0;
    std::uint64_t failed = 0;
    std::unique_ptr<wait_histogram> waits;
    time_point late_at = time_point::max();      // its key in late_
    std::uint64_t made = 0;                      // the first arrival that may be one of its own
    time_point due = time_point::max();          // when its ceiling allowed the flow again
    time_point returned_at = time_point::min();  // when its return was noticed
  };
  // Where a row belongs, if there are sets.
  struct kinship {
    std::uint32_t flow = 0;  // the number of the first row of its flow
    std::uint32_t next = 0;  // the next row of its flow, in a circle
    std::uint16_t lane = 0;
  };
  // The waiters of a flow and class, linked both ways, and the flow's tag there.
  struct cell {
    uint128 tag = 0;
    uint128 tokens = 0;
    wait_node* head = nullptr;
    wait_node* tail = nullptr;
    time_point met_at{};     // for delays_
    std::uint32_t rest = 0;  // the remainder beyond the tag, in parts of the flow's weight
  };
  struct class_state {
    uint128 time = 0;           // the virtual one
    uint128 latest_finish = 0;  // the greatest tag after a grant
    std::uint64_t busy_period = 0;
    uint128 free_tokens = 0;  // the tokens of waiters in flows without a ceiling
    std::size_t size = 0;
  };
  // Compares by class, then by tag, then by arrival.
  struct sooner {
    const std::vector<std::uint64_t>* arrivals;
    bool operator()(uint128 a, uint128 b) const noexcept {
      if (((a ^ b) >> flow_bits) != 0) return a < b;
      return (*arrivals)[number_of(a)] < (*arrivals)[number_of(b)];
    }
    static std::uint32_t number_of(uint128 key) noexcept { return flow_heap<std::less<>>::number_of(key); }
  };
  using heap = flow_heap<sooner>;
  using time_heap = flow_heap<std::less<>>;
  // The rows of one set.
  struct lane {
    explicit lane(heap h, std::size_t classes) : ready{std::move(h)}, moved_by(classes) {}
    std::uint64_t set = 0;
    std::size_t size = 0;           // its waiters
    heap ready;                     // its rows that may go
    std::vector<uint128> moved_by;  // of each class: by how much its tags have moved on together
  };

  template <class Function>
  void for_each_in(std::uint32_t number, Function&& f) {
    for (int c = 0; c < priorities(); ++c) {
      for (wait_node *n = at(number, c).head, *next = nullptr; n != nullptr; n = next) {
        next = n->next_;
        f(*n);
      }
    }
  }
  // Calls `f` for each row of a flow.
  template <class Function>
  void for_rows(std::uint32_t flow, Function&& f) const {
    if (sets_ == nullptr) return f(flow);
    std::uint32_t number = flow;
    do {
      const std::uint32_t next = kin_[number].next;
      f(number);
      number = next;
    } while (number != flow);
  }
  std::uint32_t flow_of(std::uint32_t number) const noexcept { return sets_ == nullptr ? number : kin_[number].flow; }
  static constexpr std::uint32_t no_row = ~std::uint32_t{0};
  std::uint32_t row_in_lane(std::uint32_t flow, std::uint64_t set) const noexcept;
  std::size_t lane_with(std::uint64_t set);
  std::uint32_t make_row();
  wait_node* first_of_lanes(std::uint64_t open) const noexcept;
  bool may_any_go() const noexcept { return sets_ == nullptr ? !ready_.empty() : may_lane_go(); }
  bool may_lane_go() const noexcept;
  uint128 moved_by(std::uint32_t number, int of_class) const noexcept {
    return sets_ == nullptr ? 0 : lanes_[kin_[number].lane]->moved_by[static_cast<std::size_t>(of_class)];
  }
  heap& ready_of(std::uint32_t number) noexcept { return sets_ == nullptr ? ready_ : lanes_[kin_[number].lane]->ready; }
  void catch_up_lane(std::uint32_t number, int of_class) noexcept;
  void move_kin(std::uint32_t number, int of_class, std::uint64_t charge, uint128 time_before) noexcept;
  uint128 time_of_kin(std::uint32_t number, int of_class) noexcept;
  // Calls `f` with the cell of a row, if the row competes in this class.
  template <class Function>
  void row_in_class(std::uint32_t number, int of_class, Function&& f) noexcept {
    if (rows_[number].is_ready && rows_[number].rank == of_class) f(at(number, of_class));
  }
  uint128 time_of_class(std::size_t of_class) const noexcept {
    const class_state& s = classes_[of_class];
    return s.busy_period != busy_period_ ? std::max(s.time, s.latest_finish) : s.time;
  }
  void set_weight_of_row(std::uint32_t number, std::uint32_t weight) noexcept;
  void look_at_flow(std::uint32_t flow) noexcept;
  time_point ceiling_ready(std::uint32_t number) const noexcept;

  cell& at(std::uint32_t flow, int of_class) noexcept {
    return cells_[std::size_t{flow} * classes_.size() + static_cast<std::size_t>(of_class)];
  }
  const cell& at(std::uint32_t flow, int of_class) const noexcept {
    return cells_[std::size_t{flow} * classes_.size() + static_cast<std::size_t>(of_class)];
  }
  std::uint64_t* bits_of(std::uint32_t flow) noexcept { return &bits_[std::size_t{flow} * words_]; }
  const std::uint64_t* bits_of(std::uint32_t flow) const noexcept { return &bits_[std::size_t{flow} * words_]; }
  int next_class(std::uint32_t flow, unsigned from) const noexcept;
  int last_class(std::uint32_t flow) const noexcept;

  // The amounts that waiters want, of each unit but the first.
  using other_sums = std::array<uint128, unit_amounts::most>;
  other_sums& others_at(std::uint32_t flow, int of_class) noexcept {
    return others_[std::size_t{flow} * classes_.size() + static_cast<std::size_t>(of_class)];
  }
  void count_others(const wait_node& node, std::uint32_t row_number, bool comes) noexcept;
  demand wanted_by(const wait_node& n) const noexcept {
    return {n.tokens, amounts_ != nullptr ? amounts_(n) : nullptr};
  }

  std::uint64_t places_for(std::uint64_t tokens) const noexcept {
    return occupancy_ == supplies::occupancy::tokens ? tokens : occupancy_ == supplies::occupancy::one ? 1 : 0;
  }
  bool ages() const noexcept { return ageing_ != duration::max(); }
  void link(wait_node& node) noexcept;
  void put_back_in_line(wait_node& node, time_point since) noexcept;
  void unlink(wait_node& node, std::uint32_t row_number) noexcept;
  wait_node* first_of(std::uint32_t flow) const noexcept;
  time_point next_rise(std::uint32_t flow) const noexcept;
  void look_at(std::uint32_t row_number) noexcept;
  void look_at_front(std::uint32_t row_number) noexcept;
  void place(std::uint32_t row_number, time_point ready) noexcept;
  void look_at_ceiling(std::uint32_t flow) noexcept;
  void look_whether_limited(std::uint32_t flow) noexcept;
  void note_whether_limited(std::uint32_t row_number, bool is_limited) noexcept;
  wait_node* oldest_in(std::uint32_t row_number) const noexcept;
  wait_node* last_in(std::uint32_t row_number) const noexcept;
  void end_pause_if_over(std::uint32_t flow) noexcept;
  void end_of_step() noexcept;
  uint128& virtual_time(int of_class) noexcept;
  static void move_tag(row& r, cell& c, std::uint64_t charge) noexcept;
  void rebase(int of_class) noexcept;
  void recycle_if_gone(std::uint32_t flow) noexcept;
  wait_node* candidate_of(wait_node* head) const noexcept;
  int rank_of(const wait_node& front) const noexcept;
  bool waits_more(std::uint32_t a, std::uint32_t b, std::uint32_t more_of_b) const noexcept;
  void meet_target(std::uint32_t flow, cell& c) noexcept;
  void watch_delays(std::uint32_t flow, time_point at) noexcept;
  void look_at_delays(std::uint32_t flow) noexcept;
  wait_node* overdue_of(std::uint32_t flow) const noexcept;
  void set_terms(std::uint32_t flow, flow_terms terms, std::unique_ptr<wait_histogram> waits) noexcept;

  const duration ageing_;
  const supplies::occupancy occupancy_;
  const amounts_of_node amounts_;
  const delay_rule delays_;
  const set_of_node sets_;
  const std::size_t words_;  // words of the bits of a flow
  std::vector<class_state> classes_;
  std::vector<row> rows_;
  std::vector<extra> extras_;
  std::vector<cell> cells_;
  std::vector<other_sums> others_;       // the sums of each cell, if there are several units
  std::vector<other_sums> free_others_;  // the sums of each class, of flows without a ceiling
  std::vector<std::uint64_t> bits_;      // which classes of a flow have waiters
  std::vector<std::uint64_t> arrivals_;  // the arrival of the front of each flow
  std::vector<std::uint32_t> free_;      // numbers to be used again
  heap ready_;                           // flows that may go
  time_heap held_;                       // flows that their ceiling lets return at some time
  time_heap rises_;                      // flows of which a waiter rises at some time
  time_heap late_;     // flows of which a class becomes overloaded, or a waiter overdue, at that time or later
  time_heap overdue_;  // flows of which a waiter is overdue, or was: the least important class first, then arrival
  std::vector<std::unique_ptr<lane>> lanes_;  // only if there are sets; then ready_ is empty
  std::vector<kinship> kin_;                  // of each row, if there are sets
  std::size_t size_ = 0;
  std::uint64_t most_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t next_sequence_ = 0;
  std::uint64_t busy_period_ = 0;  // ends when no waiter may go
  bool is_busy_ = false;
  time_point now_ = time_point::min();
};

}  // namespace canigo::detail
