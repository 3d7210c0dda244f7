#pragma once

#include "canigo/error.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulated {

using canigo::duration;
using canigo::request;
using canigo::time_point;

/// How an acquire ended. The engine must report the same.
enum class end : std::uint8_t {
  waiting,
  granted,
  cancelled,
  timed_out,
  unreachable,
  queue_full,
  evicted,
  stopped,
  too_large,
  invalid_priority,
  invalid_argument,
  no_memory,
  shed,
};

const char* name_of(end e) noexcept;

/// A bucket in which each token takes a whole number of nanoseconds. `missing`: the time until the bucket is full.
struct bucket {
  std::int64_t token;  // the time per token, in nanoseconds
  std::int64_t burst;
  std::int64_t missing;
  std::size_t unit = 0;  // the unit that the bucket counts

  void pass(std::int64_t ns) noexcept;
  std::int64_t wait_for(std::uint64_t n) const noexcept;
  std::int64_t available() const noexcept;
  void refund(std::uint64_t n) noexcept;
  void charge(std::uint64_t n) noexcept;
  void set_token(std::int64_t ns) noexcept;
  void set_burst(std::int64_t n) noexcept;
};

inline constexpr std::size_t most_units = 3;
/// The amount of each unit that a request wants; the first unit is its tokens.
using amounts = std::array<std::uint64_t, most_units>;
amounts wanted_by(const request& r) noexcept;

/// The options of a flow.
struct flow_terms {
  std::uint32_t weight = 1;
  std::optional<bucket> rate;
  std::optional<std::uint64_t> places;
  std::size_t queue_limit = 1000;
};

struct options {
  std::vector<bucket> rates;
  std::optional<std::uint64_t> places;
  // whether a request takes a slot for each of its tokens, as in a semaphore; false: it takes one slot
  bool places_are_tokens = false;
  int priorities = 1;
  std::size_t queue_limit = 1;
  canigo::overflow on_overflow = canigo::overflow::reject_new;
  duration ageing = duration::max();
  canigo::shedding_options shedding = {};
  std::vector<flow_terms> flows;  // the flows that exist from the beginning
};

class shared_model;

/// A model of scheduler, semaphore and limiter that is as simple as possible: one list that is searched again and
/// again. It is slow and sequential, and shares no code with the engine.
class model {
 public:
  struct fate {
    end how = end::waiting;
    time_point when{};
  };

  explicit model(const options& o) : options_{o} { add_nameless(); }
  /// Makes one of several limiters that share a cap.
  model(const options& o, shared_model& others) : options_{o}, shared_{&others} { add_nameless(); }

  /// Advances the time. Everything that becomes due happens at its due time.
  void pass_to(time_point t);

  /// `flow`: 0 for none, or a number that add_flow() has returned.
  void acquire(int id, const request& r, std::size_t flow = 0);
  bool try_acquire(const request& r, std::size_t flow = 0);
  /// Notes that the request could not be made for lack of memory.
  void lack_memory(int id) { fates_[id] = {end::no_memory, now_}; }
  void cancel(int id);
  void refund(std::uint64_t n);
  void charge(std::uint64_t n);
  void set_token(std::size_t rate, std::int64_t ns);
  void set_burst(std::size_t rate, std::int64_t n);
  void set_places(std::uint64_t n);
  void release(std::uint64_t n, std::size_t flow = 0);
  void settle(std::uint64_t from, std::uint64_t to, std::size_t flow, std::size_t unit = 0);
  void pause_until(time_point t);
  void stop();

  std::size_t add_flow(const flow_terms& t);
  void drop_flow(std::size_t flow);
  void set_flow_weight(std::size_t flow, std::uint32_t weight);
  void set_flow_token(std::size_t flow, std::int64_t ns);
  void set_flow_places(std::size_t flow, std::optional<std::uint64_t> n);
  void pause_flow(std::size_t flow, time_point t);
  /// The statistics of a flow.
  struct flow_counts {
    std::size_t waiting = 0;
    std::uint64_t granted = 0;
    std::uint64_t failed = 0;
    std::uint64_t held = 0;
    std::int64_t tokens = 0;
  };
  flow_counts counts_of(std::size_t flow) const;
  /// Returns the largest burst of a unit's rates.
  std::int64_t deepest(std::size_t unit = 0) const noexcept;

  const std::map<int, fate>& fates() const noexcept { return fates_; }
  std::size_t waiting() const noexcept { return queue_.size(); }
  std::vector<std::int64_t> tokens() const;
  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t count(end e) const;
  /// How many requests were granted after a wait in the queue, and the longest of these waits.
  std::uint64_t waited() const noexcept { return waited_; }
  duration longest_wait() const noexcept { return longest_wait_; }
  /// Returns when the passing of time alone may change something.
  time_point next_event();

 private:
  friend class shared_model;
  struct waiter {
    int id;
    request wanted;
    std::uint64_t sequence;
    time_point since;
    std::size_t flow = 0;
  };
  __extension__ using tag = unsigned __int128;
  struct flow_state {
    flow_terms terms;
    std::vector<tag> tags;  // the tag of the flow in each class
    int competes_in = -1;   // the class in which the flow competes; -1: it does not compete
    std::uint64_t held = 0;
    std::uint64_t granted = 0;
    std::uint64_t failed = 0;
    time_point paused_until = time_point::min();
  };

  void add_nameless();
  void look_at_flows();
  const waiter* head_of(std::size_t flow) const noexcept;
  const waiter* first_of(std::size_t flow) const noexcept;
  const waiter& candidate(const waiter& head) const noexcept;
  const waiter* oldest_of(std::size_t flow, int priority) const noexcept;
  time_point overloaded_at(const waiter& w) const;
  time_point shed_at(const waiter& w) const;
  void shed();
  bool allows(const flow_state& f, const request& r) const noexcept;
  std::int64_t wait_for_flow(const flow_state& f, const amounts& a) const noexcept;
  std::uint64_t largest_of(std::size_t flow, std::size_t unit) const noexcept;
  bool is_too_large(const request& r, std::size_t flow) const noexcept;
  bool has_units() const noexcept;
  void take(const amounts& a);
  void take_of_flow(const waiter& w);
  std::vector<waiter>::iterator youngest_of_fullest(std::size_t newcomers, int priority);
  bool make_room(std::optional<std::size_t> of_flow, std::size_t newcomers, int priority);
  int class_of(const waiter& w) const noexcept;
  std::vector<waiter>::iterator first();
  std::uint64_t largest(std::size_t unit) const noexcept;
  std::uint64_t places_for(std::uint64_t tokens) const noexcept;
  bool has_place_for(std::uint64_t tokens) const noexcept;
  std::int64_t wait_for(const amounts& a) const noexcept;
  bool try_take(const request& r) noexcept;
  end enter(const request& r, std::size_t flow);
  time_point earliest(const request& r, std::size_t flow) const noexcept;
  void finish(std::vector<waiter>::iterator w, end how);
  void finish(int id, end how);
  void end_too_large();
  void serve();
  void move_to(time_point t);
  bool end_one_too_late();
  bool could_go();

  options options_;
  shared_model* shared_ = nullptr;
  time_point now_{};
  time_point paused_until_ = time_point::min();
  bool stopped_ = false;
  std::uint64_t held_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<waiter> queue_;  // the waiters in the order of arrival
  bool has_flows_ = false;
  std::vector<flow_state> flows_;  // the flows; the first one is the nameless flow
  std::vector<tag> virtual_time_;
  std::vector<tag> latest_finish_;
  // For each flow and class, when a waiter was last granted within the target delay.
  std::map<std::pair<std::size_t, int>, time_point> met_at_;
  std::uint64_t waited_ = 0;
  duration longest_wait_{};
  std::map<int, fate> fates_;
  std::map<end, std::uint64_t> counts_;
};

/// A cap that several models share. Waiters that lack only a slot get one by class, then by how long their limiter has
/// lacked it.
///
/// At one instant, the order of events that only time causes may differ between limiters. So the model asks the engine
/// which order it has chosen, and checks the rest.
class shared_model {
 public:
  /// `has_granted`: returns how many requests the engine's limiter with this index has granted.
  shared_model(std::uint64_t places, std::function<std::uint64_t(std::size_t)> has_granted)
      : places_{places}, has_granted_{std::move(has_granted)} {}

  model& add(const options& o) { return *models_.emplace_back(std::make_unique<model>(o, *this)); }
  model& at(std::size_t i) { return *models_[i]; }
  void resize(std::uint64_t places);
  void serve() { settle(); }
  void pass_to(time_point t);
  time_point next_event();
  std::uint64_t held() const noexcept { return held_; }
  /// Whether a slot is free although a request waits for it.
  bool wastes_a_place() const { return held_ < places_ && !lacking_.empty(); }

 private:
  friend class model;
  struct lack {
    std::size_t who;
    int priority;
    // the number of the turn in which the limiter began to lack a slot; all events that time caused at one instant have
    // the same turn
    std::uint64_t since;
  };

  bool may_take() const noexcept { return held_ < places_ && lacking_.empty(); }
  void take() noexcept { ++held_; }
  void put_back(std::uint64_t n) noexcept { held_ -= n; }
  void settle(bool only_chosen = false);
  void look();
  std::uint64_t turn_after(std::size_t who);
  std::uint64_t chosen(const lack& l);

  std::uint64_t places_;
  std::uint64_t held_ = 0;
  std::uint64_t step_ = 0;
  bool is_passing_ = false;
  std::vector<lack> lacking_;
  std::map<std::size_t, std::uint64_t> had_turn_;     // for each limiter that got a slot in this step: its turn
  std::map<std::uint64_t, std::uint64_t> next_turn_;  // for each turn: the number of the turn after it
  std::vector<std::unique_ptr<model>> models_;
  std::function<std::uint64_t(std::size_t)> has_granted_;
};

}  // namespace simulated
