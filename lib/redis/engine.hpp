#pragma once

#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/time_source.hpp"

#include "link.hpp"
#include "nodes.hpp"
#include "round_trips.hpp"
#include "subscriber.hpp"
#include "turn_call.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {

/// A client gives up a server that owes an answer and says nothing for this time, unless its line is slow or other
/// callers wait.
inline constexpr duration enough_silence = std::chrono::seconds{1};

/// The strand on which everything of a client happens, on the context of `executor`.
net::any_io_executor strand_on(const net::any_io_executor& executor);

/// The commands of a client, waiting and sent, and its connection.
///
/// Callers put a command into the list under a short lock, and post a turn to the strand if none is posted. The turn
/// sends all commands in the list. A reply, a deadline or the caller ends a command: it leaves its list under the lock.
/// The place of a sent command stays, so that the replies behind it meet their own commands.
///
/// All shared pointers together hold one reference of the counted member.
class engine final : public std::enable_shared_from_this<engine>,
                     private canigo::detail::delivery,
                     private link_listener {
 public:
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::string_view url,
                                      const client_options& options);
  /// An engine for a node of a cluster.
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::shared_ptr<const link_options> link,
                                      const client_options& options);

  void start(call& c) noexcept;
  void cancel(call& c) noexcept;
  /// Called when the deadline of a call has come.
  void time_is_up(call& c, due why) noexcept;
  void close() noexcept;

  client_stats stats() const;
  /// Why there is no connection: a code, and a text that names the server. Empty if there is one, or if the cause is
  /// unknown.
  std::pair<std::error_code, std::string> trouble() const noexcept;
  /// Whether trouble() has a code.
  bool has_trouble() const noexcept;
  /// An answer that takes longer is late. Includes the time to connect if there is no connection. 0 if the line is
  /// unknown.
  duration answer_within() const noexcept;
  /// The shortest of the last round trips; 0 if there was none.
  duration shortest_round_trip() const noexcept;
  /// The server's URL, without user and password.
  std::string where() const;
  using delivery::executor;
  /// The connection for published messages; made at the first call.
  std::shared_ptr<subscriber> subscriptions();
  nodes& cluster() noexcept { return nodes_; }

 private:
  friend class nodes;
  friend class turn_call<engine>;
  using calls = std::list<call_place>;
  struct change;
  enum class phase { down, dialing, up };

  engine(const net::any_io_executor& executor, std::shared_ptr<const link_options> link, const client_options& options);
  ~engine() override = default;
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  // Call these with the lock held.
  void take_out(call& c) noexcept;
  void finish(call& c, std::error_code ec) noexcept;
  void fail_all(calls& list, std::error_code ec) noexcept;
  void fail_sent(std::error_code first) noexcept;
  time_point end_of_patience(duration waited) const noexcept;

  std::string why_down(const char* otherwise) const;
  void want_turn() noexcept;

  void alarm_called() noexcept;

  // On the strand.
  void turn() noexcept;
  void act(bool rang = false) noexcept;
  void dial_or_wait() noexcept;
  time_point end_of_unwanted_dial() const noexcept;
  void send_waiting() noexcept;
  void shut_down() noexcept;
  void drop_link() noexcept;
  void back_off(time_point since) noexcept;
  void set_alarm(time_point when) noexcept { alarm_.set(when, *this); }
  void link_up() noexcept override;
  bool link_reply(reply&& r) noexcept override;
  bool link_wants_more() noexcept override;
  void link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept override;

  const std::shared_ptr<const link_options> link_options_;
  const backoff reconnect_;
  const duration timeout_;
  const std::size_t queue_limit_;
  net::any_io_executor strand_;
  nodes nodes_;

  calls waiting_;
  calls sent_;  // a call that has ended keeps its place
  std::shared_ptr<subscriber> subscriber_;
  std::string why_down_;  // the text with which the server refused the connection
  std::error_code cause_;
  client_stats stats_;
  std::size_t abandoned_ = 0;  // calls in sent_ that have ended
  std::size_t minding_ = 0;    // calls in sent_ that no later call restates
  round_trips line_;
  time_point silent_at_ = time_point::max();  // a server that says nothing until then is given up
  time_point last_read_ = time_point::min();
  turn_call<engine> turn_;
  bool alarm_rang_ = false;
  bool is_suspect_ = false;  // the server was silent for too long, or another one should be asked
  bool closing_ = false;

  // On the strand.
  std::atomic<phase> phase_ = phase::down;  // read from any thread
  std::shared_ptr<link> link_;
  std::uint32_t failures_ = 0;  // in a row
  bool has_answered_ = false;   // this link has brought an answer to a call
  time_point not_before_ = time_point::min();
  time_point dialed_at_ = time_point::min();
  time_point unwanted_at_ = time_point::max();  // since when no caller waits for a connection
  canigo::detail::shared_alarm<engine> alarm_;
  std::uint64_t random_;
};

inline engine& engine_of(const client& c) noexcept { return *c.engine_; }

}  // namespace canigo::redis::detail
