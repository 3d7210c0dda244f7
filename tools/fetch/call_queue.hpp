#pragma once

#include <canigo/adaptive_limit.hpp>
#include <canigo/keyed.hpp>
#include <canigo/rate.hpp>
#include <canigo/time.hpp>

#include "call.hpp"
#include "pace.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace fetch {

/// The state of one server, and the calls that wait for it.
struct server {
  explicit server(double most_per_second) : pace{most_per_second} {}

  std::string origin;
  fetch::pace pace;
  double told_pace = 0;                                         // the rate that was last reported to the user
  canigo::time_point paused_until = canigo::time_point::min();  // when the pause ends that the server has asked for
  // The server gets no call before this time, because it is paused or because its pace or its rate is used up.
  canigo::time_point held_until = canigo::time_point::min();
  bool is_held = false;
  bool is_in_turn = true;  // whether the server may get a call: it is not held, and has a free connection
  std::size_t running = 0;
  // The adaptive limit on the number of running calls. None: only server_limits::connections limits it.
  std::optional<canigo::adaptive_limit> at_once;
  // the waiting calls, by class and then by their order in the input
  std::map<int, std::map<std::size_t, call>> waiting;
};

/// The limits that apply to each server separately.
struct server_limits {
  std::optional<canigo::rate> rate;  ///< the max rate of calls to one server; none: no such rate
  std::uint64_t burst = 1;
  std::size_t connections = 65536;
  bool is_adaptive = false;  ///< whether an adaptive limit may lower the number of connections
};

/// The waiting calls. take() returns the first call of the most important class whose server may get a call. So a
/// server that is paused, is slow, or has used up its rate delays only its own calls.
class call_queue {
 public:
  /// `limit`: how many calls of each class are read ahead. Even if a class has reached this limit, up to
  /// `most_bytes_ahead` bytes of further lines are read, to find more important calls. `is_hopeless`: returns true if a
  /// call can't be made. take() does not return such a call.
  call_queue(const asio::any_io_executor& executor, int classes, std::size_t limit, double most_per_second,
             const server_limits& per_server, std::function<bool(const call&)> is_hopeless = {});

  void add(call c);
  /// Queues a taken call again, at its old position. The call is not taken again before `when`.
  void put_back(call c, canigo::time_point when);
  /// Whether take() would return a call now.
  bool has_next(canigo::time_point now);
  /// Returns the earliest time at which take() may return a call. Call it if take() would return no call now.
  canigo::time_point next_at() const;
  std::optional<call> take(canigo::time_point now);
  /// Returns the calls that has_next() and take() have found to be hopeless since the last take_hopeless(). These calls
  /// took no token of a rate.
  std::vector<call> take_hopeless() { return std::exchange(hopeless_, {}); }
  /// Returns all waiting calls, even if their servers are held. The most important calls come first.
  std::vector<call> take_all();

  /// Returns the server of a taken call. Call it before done().
  server& server_of(const call& c);
  /// Holds the server: it gets no call before `until`. If the server is already held until a later time, that time
  /// stays.
  void hold(server& s, canigo::time_point until);
  /// Call it when a taken call has ended, with or without a response.
  void done(server& s, canigo::time_point now);

  std::size_t waiting() const noexcept { return waiting_; }
  const std::vector<std::size_t>& waiting_of_classes() const noexcept { return of_class_; }
  /// Whether the reader must stop reading lines. If a server may not get calls now, more lines are read ahead, because
  /// all calls read so far may be for that server.
  bool is_full() const noexcept {
    return (of_class_.front() >= limit_ && out_of_turn_ == 0) || bytes_ahead_ >= most_bytes_ahead;
  }

  static constexpr std::size_t most_bytes_ahead = 8 << 20;

 private:
  void put(call c);
  server& server_at(std::string origin);
  void wake(canigo::time_point now);
  void hold_for_token(server& s, canigo::time_point now);
  void see_turn(server& s);
  void release(server& s);
  call taken(server& s, std::map<int, std::map<std::size_t, call>>::iterator of_class);
  void forget_if_like_new(server& s);
  void forget_some(canigo::time_point now);

  // The max number of servers for which a rate is kept. If it is reached, calls to further servers wait.
  static constexpr std::size_t most_with_rate = 10'000'000;
  static constexpr std::size_t remembered = 10'000;  // the max number of kept servers without waiting calls

  const asio::any_io_executor executor_;
  const std::size_t limit_;
  const double most_per_second_;
  const server_limits per_server_;
  const std::function<bool(const call&)> is_hopeless_;
  std::optional<canigo::keyed_scheduler<std::string>> rates_;  // the rate of each server, by its origin
  std::map<std::string, server> servers_;                      // all servers that are kept, by their origins
  // For each server that may get a call: the first waiting call of each class.
  std::set<std::tuple<int, std::size_t, server*>> first_;
  std::set<std::pair<canigo::time_point, server*>> held_;
  std::multimap<canigo::time_point, call> later_;
  std::vector<call> hopeless_;
  std::vector<std::size_t> of_class_;  // the number of waiting calls of each class
  std::size_t waiting_ = 0;
  std::size_t out_of_turn_ = 0;  // the number of servers that may not get a call now
  std::size_t bytes_ahead_ = 0;
  std::size_t forgets_at_ = remembered;
};

}  // namespace fetch
