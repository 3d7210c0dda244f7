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

/// After a call has timed out, the client drops the connection if the server sends nothing for this time, or for the
/// call's time limit if that is shorter. On a slow connection the client waits longer. If the drop would lose the
/// results of other calls, the client waits as long as the connect timeout.
inline constexpr duration enough_silence = std::chrono::seconds{1};

/// Returns the strand on the context of `executor` that runs all work of a client.
net::any_io_executor strand_on(const net::any_io_executor& executor);

/// The commands of a client, both waiting and sent, and its connection.
///
/// A caller adds a command to the list under a short lock. It posts turn() to the strand unless turn() is posted
/// already. turn() sends all commands in the list. A reply, a deadline or the caller ends a command. A command that was
/// not sent then leaves its list under the lock. If a sent command ends before its reply comes, its entry stays in the
/// list. So later replies still match their commands.
///
/// All shared pointers together hold one of the references that the base class counted_member counts.
class engine final : public std::enable_shared_from_this<engine>,
                     private canigo::detail::delivery,
                     private link_listener {
 public:
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::string_view url,
                                      const client_options& options);
  /// Makes an engine for a node of a cluster.
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::shared_ptr<const link_options> link,
                                      const client_options& options);

  void start(call& c) noexcept;
  void cancel(call& c) noexcept;
  /// Called when the deadline of a call has come.
  void time_is_up(call& c, due why) noexcept;
  void close() noexcept;

  client_stats stats() const;
  /// Returns why there is no connection: a code, and a text that names the server. Both are empty if there is a
  /// connection, or if the cause is unknown.
  std::pair<std::error_code, std::string> trouble() const noexcept;
  /// Whether trouble() returns an error code.
  bool has_trouble() const noexcept;
  /// The time after which an answer counts as late. It includes the time to connect if there is no connection. 0: no
  /// round trip was measured yet.
  duration answer_within() const noexcept;
  /// The shortest of the last round trips; 0 if none was measured.
  duration shortest_round_trip() const noexcept;
  /// Returns the server's URL without user and password.
  std::string where() const;
  using delivery::executor;
  /// Returns the connection for published messages, which the first call creates. Null after close().
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

  // Removes a call from its list. Precondition: the lock is held.
  void take_out(call& c) noexcept;
  void finish(call& c, std::error_code ec) noexcept;
  void fail_all(calls& list, std::error_code ec) noexcept;
  void fail_sent(std::error_code first) noexcept;
  time_point end_of_patience(duration waited) const noexcept;

  std::string why_down(const char* otherwise) const;
  void want_turn() noexcept;

  void alarm_called() noexcept;

  // The following functions run on the strand.
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
  calls sent_;  // the entry of a call stays until its reply comes, even if the call has ended
  std::shared_ptr<subscriber> subscriber_;
  std::string why_down_;  // the error text with which the server refused the connection
  std::error_code cause_;
  client_stats stats_;
  std::size_t abandoned_ = 0;  // the number of ended calls in sent_
  std::size_t minding_ = 0;    // the number of running calls in sent_ whose results are lost if the connection ends
  round_trips line_;
  time_point silent_at_ = time_point::max();  // if the server sends nothing until this time, the connection is dropped
  time_point last_read_ = time_point::min();
  turn_call<engine> turn_;
  bool alarm_rang_ = false;
  // Whether the connection must be dropped, because an error reply shows that another server should be asked.
  bool is_suspect_ = false;
  bool closing_ = false;

  // Only functions on the strand use the following members, except that any thread may read phase_.
  std::atomic<phase> phase_ = phase::down;  // the phase of the connection
  std::shared_ptr<link> link_;
  std::uint32_t failures_ = 0;  // the number of failed connections in a row
  bool has_answered_ = false;   // whether the server has answered a call on this link
  time_point not_before_ = time_point::min();
  time_point dialed_at_ = time_point::min();
  time_point unwanted_at_ = time_point::max();  // when the last caller stopped waiting for a connection
  canigo::detail::shared_alarm<engine> alarm_;
  std::uint64_t random_;
};

inline engine& engine_of(const client& c) noexcept { return *c.engine_; }

}  // namespace canigo::redis::detail
