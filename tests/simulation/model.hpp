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

/// How an acquire ended: what the engine must say, too.
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

/// A bucket whose tokens take whole nanoseconds each. `missing` is the time until it is full.
struct bucket {
  std::int64_t token;  // nanoseconds
  std::int64_t burst;
  std::int64_t missing;
  std::size_t unit = 0;  // that it counts

  void pass(std::int64_t ns) noexcept;
  std::int64_t wait_for(std::uint64_t n) const noexcept;
  std::int64_t available() const noexcept;
  void refund(std::uint64_t n) noexcept;
  void charge(std::uint64_t n) noexcept;
  void set_token(std::int64_t ns) noexcept;
  void set_burst(std::int64_t n) noexcept;
};

inline constexpr std::size_t most_units = 3;
/// What a request wants of each unit; of the first one, its tokens.
using amounts = std::array<std::uint64_t, most_units>;
amounts wanted_by(const request& r) noexcept;

/// What a flow is made with.
struct flow_terms {
  std::uint32_t weight = 1;
  std::optional<bucket> rate;
  std::optional<std::uint64_t> places;
  std::size_t queue_limit = 1000;
};

struct options {
  std::vector<bucket> rates;
  std::optional<std::uint64_t> places;
  bool places_are_tokens = false;  // a semaphore's; a limiter's request takes one place
  int priorities = 1;
  std::size_t queue_limit = 1;
  canigo::overflow on_overflow = canigo::overflow::reject_new;
  duration ageing = duration::max();
  canigo::shedding_options shedding = {};
  std::vector<flow_terms> flows;  // which there are from the start
};

class shared_model;

/// What scheduler, semaphore and limiter are to do, as plainly as it can be said: one list, looked through again and
/// again. Slow and sequential, and sharing nothing with the engine.
class model {
 public:
  struct fate {
    end how = end::waiting;
    time_point when{};
  };

  explicit model(const options& o) : options_{o} { add_nameless(); }
  /// One of several limiters that share a cap.
  model(const options& o, shared_model& others) : options_{o}, shared_{&others} { add_nameless(); }

  /// Moves the time on; all that is due until then happens when it is due.
  void pass_to(time_point t);

  /// `flow`: 0 for none, or one that add_flow() has named.
  void acquire(int id, const request& r, std::size_t flow = 0);
  bool try_acquire(const request& r, std::size_t flow = 0);
  /// It could not even ask.
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
  /// A flow in numbers.
  struct flow_counts {
    std::size_t waiting = 0;
    std::uint64_t granted = 0;
    std::uint64_t failed = 0;
    std::uint64_t held = 0;
    std::int64_t tokens = 0;
  };
  flow_counts counts_of(std::size_t flow) const;
  /// The deepest of the rates of a unit.
  std::int64_t deepest(std::size_t unit = 0) const noexcept;

  const std::map<int, fate>& fates() const noexcept { return fates_; }
  std::size_t waiting() const noexcept { return queue_.size(); }
  std::vector<std::int64_t> tokens() const;
  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t count(end e) const;
  /// How many were granted after they had been in the queue, and the longest of these waits.
  std::uint64_t waited() const noexcept { return waited_; }
  duration longest_wait() const noexcept { return longest_wait_; }
  /// When something may change next by the passing of time alone.
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
    std::vector<tag> tags;  // of each class
    int competes_in = -1;   // a class, or none
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
  std::vector<waiter> queue_;  // in the order of arrival
  bool has_flows_ = false;
  std::vector<flow_state> flows_;  // the nameless one first
  std::vector<tag> virtual_time_;
  std::vector<tag> latest_finish_;
  std::map<std::pair<std::size_t, int>, time_point> met_at_;  // of a flow and class: the target, by one who went
  std::uint64_t waited_ = 0;
  duration longest_wait_{};
  std::map<int, fate> fates_;
  std::map<end, std::uint64_t> counts_;
};

/// A cap of several models: who lacks nothing but a place gets one by class, then by how long its limiter has lacked
/// it.
///
/// What happens at one instant by the passing of time alone happens in any order from limiter to limiter, so there the
/// engine is asked what it chose, and judged by the rest.
class shared_model {
 public:
  /// `has_granted`: how many requests the engine has granted, of the limiter so made.
  shared_model(std::uint64_t places, std::function<std::uint64_t(std::size_t)> has_granted)
      : places_{places}, has_granted_{std::move(has_granted)} {}

  model& add(const options& o) { return *models_.emplace_back(std::make_unique<model>(o, *this)); }
  model& at(std::size_t i) { return *models_[i]; }
  void resize(std::uint64_t places);
  void serve() { settle(); }
  void pass_to(time_point t);
  time_point next_event();
  std::uint64_t held() const noexcept { return held_; }
  /// Somebody waits for nothing, now that all is said and done.
  bool wastes_a_place() const { return held_ < places_ && !lacking_.empty(); }

 private:
  friend class model;
  struct lack {
    std::size_t who;
    int priority;
    std::uint64_t since;  // its turn; one in common for all that time brought about at one instant
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
  std::map<std::size_t, std::uint64_t> had_turn_;     // whoever got a place in this step
  std::map<std::uint64_t, std::uint64_t> next_turn_;  // by the turn before
  std::vector<std::unique_ptr<model>> models_;
  std::function<std::uint64_t(std::size_t)> has_granted_;
};

}  // namespace simulated
