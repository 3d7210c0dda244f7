#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/delay_watch.hpp"
#include "canigo/detail/queue/flow_ceiling.hpp"
#include "canigo/detail/queue/flow_heap.hpp"
#include "canigo/detail/queue/lane_key.hpp"
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

/// The options of a flow (see canigo::flow_options), in the form that fair_queue stores.
struct flow_terms {
  std::uint32_t weight = 1;
  std::vector<token_bucket> rates = {};
  std::vector<std::uint8_t> units = {};  // the unit of each rate; empty if there is only one unit
  rate_windows windows = {};             // the window of each rate; empty if no rate has a strict window
  std::uint64_t cap = flow_ceiling::no_cap;
  std::uint64_t queue_limit = unlimited;
  bool times_waits = false;
};

/// Counts the requests of one flow.
struct flow_counts {
  std::uint64_t granted = 0;
  std::uint64_t tokens = 0;  // the sum of the tokens of the granted requests
  std::uint64_t failed = 0;
};

/// The waiters of several flows, which share a limit in proportion to their weights. The algorithm is start-time fair
/// queueing (P. Goyal, H. Vin, H. Cheng, 1996), with a virtual time for each effective class. The effective class of a
/// waiter is the class to which ageing has promoted the waiter.
///
/// Only the first waiter of a flow competes: the one with the least (effective class, arrival). Among the first waiters
/// of all flows, the one with the least (effective class, tag of its flow, arrival) is granted first. A grant of n
/// tokens sets the virtual time of the class to the flow's tag, and increases the tag by n / weight. If a request has
/// several units, the owner computes n. If a flow was idle, held, or in another class, its tag rises to at least the
/// virtual time, so the flow gets no credit for the past. When no waiter may be granted, all tags become equal again.
/// For this reason, a grant without a wait does not change the tag of its flow.
///
/// A flow is held while its ceiling does not allow its first waiter. A held flow competes in no class, and other flows
/// are served as if the held flow had no waiters.
///
/// Tags are integers in a unit that all weights up to 16 divide. For other weights, the remainder of each division is
/// carried over to the next grant, so the tags do not drift. The rounding is too small to violate the algorithm's bound
/// |Wf·wm − Wm·wf| <= lf·wm + lm·wf for integers.
///
/// Flow 0 is the nameless flow: it has weight 1 and no ceiling, and always exists.
///
/// If waiters are shed, the queue checks separately for each class of each flow whether the waiters wait too long. See
/// overdue().
///
/// If waiters differ in the alternatives or sublimits that may serve them, the owner gives each waiter a key. All
/// waiters with one key are a lane. The waiters of one flow with one key are a row. The rows of a flow share its weight
/// and its ceiling, and a grant to one row increases the tags of all rows of the flow. front_open() can skip lanes, so
/// the first waiter with one key does not delay waiters with other keys. A lane gets no credit for being skipped: all
/// its tags are increased together, up to the virtual time.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: in the constructor, add() and make_lane(). A row
/// takes about 64 bytes for each class, and 200 more.
class fair_queue {
 public:
  static constexpr std::uint32_t nameless = 0;
  static constexpr std::uint32_t most_flows = (std::uint32_t{1} << flow_bits) - 1;
  static constexpr std::uint32_t most_weight = 10'000;

  /// A function that returns the amounts that a node requests, if there are several units. The amounts must not change
  /// while the node is in this queue.
  using amounts_of_node = const amounts_by_unit* (*)(const wait_node&) noexcept;

  /// A function that returns the key of a waiter. It is needed only if waiters differ in the alternatives or sublimits
  /// that may serve them. If the key of a waiter changes, the owner must call move_to_lane().
  using key_of_node = lane_key (*)(const wait_node&) noexcept;
  /// The max number of keys that waiters can have at the same time.
  static constexpr std::size_t most_lanes = 1024;

  /// `priorities` and `ageing` are the arguments of wait_queue. `o` determines how many slots of its flow's cap a
  /// request occupies: one, none, or as many as its tokens.
  fair_queue(int priorities, duration ageing, supplies::occupancy o, amounts_of_node amounts = nullptr,
             const delay_rule& delays = delay_rule{{}}, key_of_node keys = nullptr);
  fair_queue(const fair_queue&) = delete;
  fair_queue& operator=(const fair_queue&) = delete;

  /// Moves all waiters of `q` to the nameless flow. The waiters keep their arrival times. If `delays` is given, it
  /// tells for each class when the class last met its target delay, and the nameless flow keeps these times.
  void take_over(wait_queue& q, time_point now, const delay_watch* delays = nullptr) noexcept;

  /// Adds a flow and returns its number. If it throws, nothing has changed.
  ///
  /// Errors: errc::invalid_argument if there are most_flows already.
  std::uint32_t add(flow_terms terms);
  /// Removes a flow without waiters. Its number is reused once all of its slots are released.
  void forget(std::uint32_t flow) noexcept;

  /// Moves the time forward to `now`: promotes waiters that have aged, and lets held flows compete again if their
  /// ceilings allow it. At each new `now`, call advance(now) before any of the members below.
  void advance(time_point now) noexcept;

  /// Makes a row for the waiters of this flow with this key, if there is none yet. If waiters have keys, call it before
  /// push(). Returns false if waiters already have most_lanes different keys, if there is no memory, or if no row
  /// number is free. Allocates if the flow has not had this key before. O(lanes).
  bool make_lane(std::uint32_t flow, const lane_key& key) noexcept;
  /// Inserts a node into the class node.priority of its flow, as the last one of the class. If a request waits again,
  /// pass the time of its first arrival as `since`: the node is inserted after the waiters that arrived until `since`.
  /// O(log flows); if `since` is in the past, also O(waiters of the class that arrived after `since`).
  void push(wait_node& node, std::uint32_t flow, time_point since = time_point::max()) noexcept;
  /// Removes a waiter from any position. O(log flows).
  void remove(wait_node& node) noexcept;
  /// The waiter to grant next, or nullptr if none may be granted. O(1).
  wait_node* front() const noexcept {
    if (keys_ != nullptr) return first_of_lanes({});
    return ready_.empty() ? nullptr : rows_[heap::number_of(ready_.top())].front;
  }
  /// The waiter to grant next among the waiters whose key is in `open`, or nullptr if there is none. O(lanes).
  wait_node* front_open(const open_lanes& open) const noexcept { return first_of_lanes(open); }
  wait_node* front(time_point now) noexcept {
    advance(now);
    return front();
  }
  /// Removes `node`, which is front() or front_open(), and charges the ceiling and the share of its flow. O(log flows).
  ///
  /// `caught_up`: if tokens of the ceiling became available after this instant, they count as taken at the time when
  /// they became available. `charge`: the amount that counts against the flow's share. `is_phantom`: the node is a
  /// shadow waiter, so this grant is not counted. Shadow mode has already granted and counted its request, which holds
  /// its slots.
  void grant(wait_node& node, time_point caught_up, std::uint64_t charge, bool is_phantom = false) noexcept;
  void grant(wait_node& node, time_point caught_up) noexcept { grant(node, caught_up, node.tokens); }
  /// The next instant at which front() may change although no waiter arrives or leaves; max: never.
  time_point next_change() const noexcept;
  /// Returns a waiter that has waited too long in an overloaded class of its flow, or nullptr if there is none. If
  /// there are several, returns the one that arrived first in the least important class. Call it after advance().
  wait_node* overdue() noexcept;
  /// The instant at which a waiter may become overdue, if no waiter arrives or leaves before; max: never. The returned
  /// instant may be too early, but is never too late.
  time_point next_overdue() const noexcept;
  time_point next_promotion(time_point) const noexcept { return next_change(); }

  /// Moves a waiter whose key has changed to the lane of its new key, in the order of arrival. `number`: the result of
  /// row_of() before the change. O(waiters of its class and row).
  void move_to_lane(wait_node& node, std::uint32_t number) noexcept;
  /// The number of the waiter's row: the list of the waiters of one flow with one key. O(lanes of the flow).
  std::uint32_t row_of(const wait_node& n) const noexcept {
    return keys_ == nullptr ? n.flow_ : row_in_lane(n.flow_, keys_(n));
  }
  /// Whether the flow's ceiling allows a new request, and holds back no waiter of the flow. If waiters have keys, use
  /// this function instead of may_enter().
  bool may_pass(std::uint32_t flow, demand d) const noexcept;

  /// Whether a new request of this flow may be granted immediately, without overtaking a waiter. For that, no waiter of
  /// any flow may be ready for a grant, the flow must have no waiters, and its ceiling must allow the request.
  bool may_enter(std::uint32_t flow, demand d) const noexcept;
  /// Counts a new request that is granted without a wait. Charges the flow's ceiling, but does not change the flow's
  /// tag.
  void enter(std::uint32_t flow, demand d) noexcept;
  /// Counts a new request that shadow mode has granted although may_enter() returned false. Its slots are counted
  /// separately, and not against the flow's cap.
  void enter_beyond(std::uint32_t flow, std::uint64_t tokens) noexcept;
  /// Counts a waiter that shadow mode grants before its flow's ceiling allows it, and charges the ceiling. The owner
  /// must then remove the waiter.
  void go_beyond(const wait_node& node) noexcept;
  /// Call it when shadow mode ends. From then on, the slots that enter_beyond() and go_beyond() occupied count against
  /// the flows' caps. The owner must then end the waiters that request more than their flow can ever get.
  void count_beyond() noexcept;
  /// Stores the flow of a node that will be pushed later.
  static void choose(wait_node& node, std::uint32_t flow) noexcept { node.flow_ = flow; }
  bool is_open(std::uint32_t flow) const noexcept {
    return flow < rows_.size() && rows_[flow].weight != 0 && !rows_[flow].is_leaving;
  }
  /// Stores the flow of a node that is granted without being pushed. Then undo() accepts the node.
  void stamp(wait_node& node, std::uint32_t flow) const noexcept {
    node.flow_ = flow;
    node.sequence_ = next_sequence_;
  }

  /// Gives slots back to the ceiling of the flow. The share of the flow does not change.
  void release(std::uint32_t flow, std::uint64_t places) noexcept;
  /// Corrects the charge of one unit at the flow's ceiling when the used amount of a request is known. If `used` is
  /// more than the granted amount `wanted`, charges the difference; if it is less, gives the difference back.
  void settle(std::uint32_t flow, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
              time_point granted_at = time_point::min()) noexcept;
  /// Gives back to the flow's ceiling the tokens and slots of a grant that was not used. `node` must be granted, and
  /// must contain the number of its flow.
  void undo(const wait_node& node, time_point granted_at = time_point::min()) noexcept;

  /// Changes the weight of a flow for later grants.
  void set_weight(std::uint32_t flow, std::uint32_t weight) noexcept;
  void set_rate(std::uint32_t flow, std::size_t index, const rate& r) noexcept;
  /// Changes the flow's cap on slots. The owner must then end each waiter that needs more than largest_request().
  void set_cap(std::uint32_t flow, std::uint64_t cap) noexcept;
  /// Pauses the flow until `t`: until then none of its waiters is granted. A `t` in the past ends the pause.
  void pause_until(std::uint32_t flow, time_point t) noexcept;

  std::uint32_t weight(std::uint32_t flow) const noexcept { return rows_[flow].weight; }
  const flow_ceiling& ceiling(std::uint32_t flow) const noexcept { return extras_[flow].ceiling; }
  flow_counts counts(std::uint32_t flow) const noexcept {
    return {rows_[flow].granted, rows_[flow].tokens, extras_[flow].failed};
  }
  /// A histogram of how long the flow's granted requests waited; nullptr if the flow does not time its waits.
  const wait_histogram* waits(std::uint32_t flow) const noexcept { return extras_[flow].waits.get(); }
  void count_failure(std::uint32_t flow) noexcept { ++extras_[flow].failed; }
  std::uint64_t queue_limit(std::uint32_t flow) const noexcept { return extras_[flow].queue_limit; }
  /// note_coming() counts a request that already counts for the queue limit, but will be pushed later. drop_coming()
  /// removes one such request from the count.
  void note_coming(std::uint32_t flow) noexcept { ++extras_[flow].coming; }
  void drop_coming(std::uint32_t flow) noexcept { --extras_[flow].coming; }
  std::size_t coming(std::uint32_t flow) const noexcept { return extras_[flow].coming; }
  /// The number of requests that the ceilings of their flows allow at `now`, at most `most`. Counts the waiters, and
  /// `newcomer` unless it is null, as if each requested one token. O(flows).
  std::size_t may_go(time_point now, const wait_node* newcomer, std::size_t most) const noexcept;
  /// The max number of tokens, or of another unit, that a request of this flow can ever get from the flow's ceiling.
  std::uint64_t largest_request(std::uint32_t flow, std::size_t unit = 0) const noexcept;
  /// Whether a waiter is the first one of its flow; with keys, the first one of its flow that has its key.
  bool is_first(const wait_node& node) const noexcept { return rows_[row_of(node)].front == &node; }
  bool is_held(std::uint32_t flow) const noexcept {
    bool result = false;
    for_rows(flow, [&](std::uint32_t number) {
      result = result || (rows_[number].front != nullptr && !rows_[number].is_ready);
    });
    return result;
  }
  /// Of the waiters whose flow is held back by its ceiling, returns the first one by effective class, then by arrival.
  /// nullptr if there is no such waiter. O(flows).
  const wait_node* first_held() const noexcept;

  /// Stores the max number of tokens that the limit can grant to one request. Returns whether that number is less than
  /// before. If so, some waiters may now request too many tokens.
  bool shrinks_to(std::uint64_t most) noexcept { return std::exchange(most_, most) > most; }

  /// The class to which a waiter has risen. O(1).
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
  /// The count of rows. The number by which a flow is identified is always less than this count.
  std::size_t rows() const noexcept { return rows_.size(); }

  /// oldest() is the waiter that arrived first among all waiters; oldest_of() is the waiter that arrived first in one
  /// flow. nullptr if there is no waiter. O(waiting flows).
  wait_node* oldest() const noexcept;
  wait_node* oldest_of(std::uint32_t flow) const noexcept;
  /// Returns the waiter that arrived last in the least important class that has waiters. The second function considers
  /// only the waiters of one flow. Promotions of waiters are ignored. nullptr if there is no waiter. O(flows).
  wait_node* youngest_of_least_important() const noexcept;
  wait_node* youngest_of_least_important_of(std::uint32_t flow) const noexcept;
  /// The waiter to evict for a new request, or nullptr if there is none. O(flows).
  ///
  /// If youngest_of_least_important() has a less important class than the request, returns that waiter. If that waiter
  /// has the same class as the request, chooses a flow: among the other flows, the one with the most waiters relative
  /// to its weight. Returns the chosen flow's youngest waiter of this class, or nullptr if the chosen flow does not
  /// have more waiters, relative to its weight, than the flow of the request. The request itself counts as a waiter of
  /// its flow.
  wait_node* displaced_by(std::uint32_t flow, int priority) const noexcept;

  /// The sums of the tokens of all requests that go before a new request. Both sums saturate.
  struct ahead {
    std::uint64_t own;  // tokens that waiters of the request's own flow request
    std::uint64_t all;  // `own`, plus tokens of waiters in more important classes of other flows without a ceiling
  };
  /// Returns the tokens that go before a new request of this flow and class. `last`: the least important class whose
  /// waiters go before the request in its flow; at most `priority`, or -1 if there is none.
  ahead tokens_ahead(std::uint32_t flow, int priority, int last) const noexcept;
  /// The amount of a unit that the waiters of this flow and key request, in the classes up to `last`. Saturates.
  std::uint64_t amount_in_lane(std::uint32_t flow, const lane_key& key, int last, std::size_t unit) const noexcept;
  /// Like tokens_ahead(), but returns amounts of `unit` instead of tokens. `unit` is 1 or more, because tokens_ahead()
  /// returns the amounts of unit 0.
  ahead amount_ahead(std::uint32_t flow, int priority, int last, std::size_t unit) const noexcept;
  bool takes_newest_at_times() const noexcept { return delays_.takes_newest_at_times(); }
  /// Adds to `to` the amounts that the waiters of other flows without a ceiling request in classes more important than
  /// `priority`. With ageing, these amounts go before a waiter of class `priority` only until that waiter is promoted.
  void add_classes_above(std::uint32_t flow, int priority, amounts_by_unit& to) const noexcept;
  /// Returns the instant at which ageing promotes a request to class 0, if the request arrives at `now` in class
  /// `priority`. max: never.
  time_point first_class_at(time_point now, int priority) const noexcept;

  /// Calls `f` for each waiter of a flow; `f` may remove that waiter. O(waiters of the flow + classes).
  template <class Function>
  void for_each_of(std::uint32_t flow, Function&& f) {
    for_rows(flow, [&](std::uint32_t number) { for_each_in(number, f); });
  }
  /// Calls `f` for each waiter of all flows; `f` may remove that waiter. O(waiters + flows).
  template <class Function>
  void for_each(Function&& f) {
    for (std::uint32_t number = 0; number < rows_.size(); ++number) {
      if (rows_[number].size > 0) for_each_in(number, f);
    }
  }

 private:
  // A row: the waiters of one flow with one key; without keys, all waiters of the flow. The struct has only the fields
  // that a grant uses. The other fields of the flow are in `extra`.
  struct row {
    wait_node* front = nullptr;  // the first waiter of the row
    std::uint64_t step = 0;      // the increase of the flow's tag per token
    std::uint64_t granted = 0;
    std::uint64_t tokens = 0;
    std::uint32_t weight = 0;  // the weight of the flow; 0: no flow has this number
    std::uint32_t size = 0;
    std::uint16_t step_rest = 0;  // the remainder of the division by `weight` that gave `step`
    std::uint16_t rank = 0;       // the class in which the flow competes, or competed last
    bool is_ready = false;
    bool is_limited = false;  // whether the flow has a ceiling that can hold it back
    bool is_leaving = false;
    bool is_timed = false;
  };
  struct extra {
    flow_ceiling ceiling;
    std::uint64_t queue_limit = 0;
    std::size_t coming = 0;
    std::uint64_t failed = 0;
    std::unique_ptr<wait_histogram> waits;
    time_point late_at = time_point::max();  // the time of the flow's entry in late_; max: the flow has no entry
    std::uint64_t made = 0;  // nodes with a lower arrival number belong to a removed flow with the same flow number

    // The instant at which the ceiling last allowed the held flow again. A grant at the time `returned_at` changes
    // `due` to the instant at which the tokens of that grant became available.
    time_point due = time_point::max();
    time_point returned_at = time_point::min();  // when advance() noticed that the ceiling allowed the flow again
  };
  // The flow and the lane of a row. It is stored only if waiters have keys.
  struct kinship {
    std::uint32_t flow = 0;  // the number of the flow, which is also the number of its first row
    std::uint32_t next = 0;  // the next row of the same flow, in a ring
    std::uint16_t lane = 0;
  };
  // The waiters of one flow and class in a doubly linked list, and the flow's tag in that class.
  struct cell {
    uint128 tag = 0;
    uint128 tokens = 0;
    wait_node* head = nullptr;
    wait_node* tail = nullptr;
    time_point met_at{};     // when this flow last met the target delay in this class; see delay_rule
    std::uint32_t rest = 0;  // the remainder of the tag, in units of 1/weight
  };
  struct class_state {
    uint128 time = 0;           // the virtual time of the class
    uint128 latest_finish = 0;  // the greatest tag that a grant in this class has set
    std::uint64_t busy_period = 0;
    uint128 free_tokens = 0;  // the sum of the tokens that this class's waiters request in flows without a ceiling
    std::size_t size = 0;
  };
  // The order of the keys in a heap of rows: by class, then by tag, then by the arrival of the row's first waiter.
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
  // A lane: the rows whose waiters have the same key.
  struct lane {
    explicit lane(heap h, std::size_t classes) : ready{std::move(h)}, moved_by(classes) {}
    lane_key key;
    std::size_t size = 0;           // the number of waiters in the lane
    heap ready;                     // the rows of the lane that may be granted
    std::vector<uint128> moved_by;  // for each class, the amount by which all tags of the lane were increased together
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
  // Calls `f` with the number of each row of a flow. A row is the list of the flow's waiters with one key.
  template <class Function>
  void for_rows(std::uint32_t flow, Function&& f) const {
    if (keys_ == nullptr) return f(flow);
    std::uint32_t number = flow;
    do {
      const std::uint32_t next = kin_[number].next;
      f(number);
      number = next;
    } while (number != flow);
  }
  std::uint32_t flow_of(std::uint32_t number) const noexcept { return keys_ == nullptr ? number : kin_[number].flow; }
  static constexpr std::uint32_t no_row = ~std::uint32_t{0};
  std::uint32_t row_in_lane(std::uint32_t flow, const lane_key& key) const noexcept;
  std::size_t lane_with(const lane_key& key);
  std::uint32_t make_row();
  wait_node* first_of_lanes(const open_lanes& open) const noexcept;
  bool may_any_go() const noexcept { return keys_ == nullptr ? !ready_.empty() : may_lane_go(); }
  bool may_lane_go() const noexcept;
  uint128 moved_by(std::uint32_t number, int of_class) const noexcept {
    return keys_ == nullptr ? 0 : lanes_[kin_[number].lane]->moved_by[static_cast<std::size_t>(of_class)];
  }
  heap& ready_of(std::uint32_t number) noexcept { return keys_ == nullptr ? ready_ : lanes_[kin_[number].lane]->ready; }
  void catch_up_lane(std::uint32_t number, int of_class) noexcept;
  void move_kin(std::uint32_t number, int of_class, std::uint64_t charge, uint128 time_before) noexcept;
  uint128 time_of_kin(std::uint32_t number, int of_class) noexcept;
  // Calls `f` with the cell of row `number` in class `of_class`, if the row now competes in that class.
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

  // For each unit except the first, the sum of the amounts that waiters request.
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
  const key_of_node keys_;
  const std::size_t words_;  // the number of 64-bit words in bits_ for each flow, with one bit for each class
  std::vector<class_state> classes_;
  std::vector<row> rows_;
  std::vector<extra> extras_;
  std::vector<cell> cells_;
  // for each flow and class, the sum of the requested amounts of each unit after the first; empty if the limit has only
  // one unit
  std::vector<other_sums> others_;
  std::vector<other_sums> free_others_;  // for each class, the sums of the amounts requested in flows without a ceiling
  std::vector<std::uint64_t> bits_;      // for each flow, the set of classes that have waiters of the flow
  std::vector<std::uint64_t> arrivals_;  // the arrival number of each flow's first waiter
  std::vector<std::uint32_t> free_;      // numbers of removed flows, which can be reused
  heap ready_;                           // the flows whose first waiters may be granted
  time_heap held_;                       // held flows, sorted by the time at which their ceiling allows them again
  time_heap rises_;                      // flows, sorted by the time at which ageing next promotes one of their waiters
  time_heap late_;     // flows, sorted by the earliest time when a class may be overloaded or a waiter overdue
  time_heap overdue_;  // flows that may have an overdue waiter: the least important class first, then by arrival
  std::vector<std::unique_ptr<lane>> lanes_;  // the lanes; empty if waiters have no keys. With lanes, ready_ is empty
  std::vector<kinship> kin_;                  // the flow and the lane of each row; empty if waiters have no keys
  std::size_t size_ = 0;
  std::uint64_t most_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t next_sequence_ = 0;
  std::uint64_t busy_period_ = 0;  // number of the current busy period; the period ends when no waiter may be granted
  bool is_busy_ = false;
  time_point now_ = time_point::min();
};

}  // namespace canigo::detail
