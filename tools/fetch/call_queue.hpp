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

/// The state of a server, and the calls that wait for it.
struct server {
  explicit server(double most_per_second) : pace{most_per_second} {}

  std::string origin;
  fetch::pace pace;
  double told_pace = 0;                                         // that the user has heard of
  canigo::time_point paused_until = canigo::time_point::min();  // as it asked
  canigo::time_point held_until = canigo::time_point::min();    // as its pace and its rate ask, too
  bool is_held = false;
  bool is_in_turn = true;  // may be asked: it is not held, and has a connection to spare
  std::size_t running = 0;
  std::optional<canigo::adaptive_limit> at_once;       // of running; unset: connections alone count
  std::map<int, std::map<std::size_t, call>> waiting;  // by class, by order
};

/// What each server gets at most.
struct server_limits {
  std::optional<canigo::rate> rate;  ///< unset: none
  std::uint64_t burst = 1;
  std::size_t connections = 65536;
  bool is_adaptive = false;  ///< fewer connections where the server answers better then
};

/// The calls that wait. The next one is the first of the most important class whose server may be asked. So a server
/// that wants a pause, is slow, or has used its rate holds up only its own calls.
class call_queue {
 public:
  /// At most `limit` calls of each class are read ahead. A full class must not hide calls that matter more, so up to
  /// `most_bytes_ahead` of further lines are read, too. `is_hopeless`: whether a call can't be made; it is asked of the
  /// call that is next.
  call_queue(const asio::any_io_executor& executor, int classes, std::size_t limit, double most_per_second,
             const server_limits& per_server, std::function<bool(const call&)> is_hopeless = {});

  void add(call c);
  /// One that was taken waits again, in its old place, but is not taken before `when`.
  void put_back(call c, canigo::time_point when);
  /// Whether take() has one to give.
  bool has_next(canigo::time_point now);
  /// When it may have one next, if it has none.
  canigo::time_point next_at() const;
  std::optional<call> take(canigo::time_point now);
  /// The calls that has_next() and take() have found hopeless. They have cost their servers nothing.
  std::vector<call> take_hopeless() { return std::exchange(hopeless_, {}); }
  /// All, whether they may go or not, the important first.
  std::vector<call> take_all();

  /// That of a call which was taken, until done().
  server& server_of(const call& c);
  /// No call goes to the server until then. Of several such times the last one counts.
  void hold(server& s, canigo::time_point until);
  /// A call that was taken has its answer, or none.
  void done(server& s, canigo::time_point now);

  std::size_t waiting() const noexcept { return waiting_; }
  const std::vector<std::size_t>& waiting_of_classes() const noexcept { return of_class_; }
  /// No more should be read. While a server may not be asked, its calls may be all that has been read.
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

  static constexpr std::size_t most_with_rate = 10'000'000;  // servers; calls to others wait
  static constexpr std::size_t remembered = 10'000;          // servers without a call that waits

  const asio::any_io_executor executor_;
  const std::size_t limit_;
  const double most_per_second_;
  const server_limits per_server_;
  const std::function<bool(const call&)> is_hopeless_;
  std::optional<canigo::keyed_scheduler<std::string>> rates_;  // by origin
  std::map<std::string, server> servers_;                      // by origin
  std::set<std::tuple<int, std::size_t, server*>> first_;      // of each class of each server that is in turn
  std::set<std::pair<canigo::time_point, server*>> held_;
  std::multimap<canigo::time_point, call> later_;
  std::vector<call> hopeless_;
  std::vector<std::size_t> of_class_;  // that wait
  std::size_t waiting_ = 0;
  std::size_t out_of_turn_ = 0;  // servers
  std::size_t bytes_ahead_ = 0;
  std::size_t forgets_at_ = remembered;
};

}  // namespace fetch
