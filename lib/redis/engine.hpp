#pragma once

#include "canigo/redis/client.hpp"
#include "canigo/time_source.hpp"

#include "link.hpp"
#include "nodes.hpp"
#include "round_trips.hpp"
#include "shared_member.hpp"
#include "subscriber.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {

/// So long it takes until what there was no memory for is tried again.
inline constexpr duration delivery_retry = std::chrono::milliseconds{1};

/// A server that owes an answer, and says nothing for so long, is given up: unless its line is slow, or others wait.
inline constexpr duration enough_silence = std::chrono::seconds{1};

/// The strand on which everything of a client happens, on the context of `executor`.
net::any_io_executor strand_on(const net::any_io_executor& executor);

/// The commands of a client: which wait, which are sent, and the connection that they go by.
///
/// Callers put a command into the list under a short lock, and post a turn to the strand if none is posted. The turn
/// sends all that are there. What ends a command (its reply, its deadline, its caller) takes it out of its list under
/// the lock; the place of one that was sent stays, so that the replies behind it meet their own commands.
class engine final : public std::enable_shared_from_this<engine>,
                     private shared_member,
                     private link_listener {
 public:
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::string_view url,
                                      const client_options& options);
  /// One for a node of a cluster.
  static std::shared_ptr<engine> open(const net::any_io_executor& executor, std::shared_ptr<const link_options> link,
                                      const client_options& options);

  void start(call& c) noexcept;
  void cancel(call& c) noexcept;
  /// Called for the deadline of a call, whose time has come.
  void limit_called(call& c, due why) noexcept;
  void close() noexcept;

  client_stats stats() const;
  /// Why there is no connection: a code, and a text that says where as well. None if there is one, or nobody knows.
  std::pair<std::error_code, std::string> trouble() const noexcept;
  /// Whether there is a cause of that kind.
  bool has_trouble() const noexcept;
  /// An answer that takes longer is late. Includes the time to connect where there is no connection. 0 where nothing is
  /// known of the line.
  duration answer_within() const noexcept;
  /// Of the line, lately; 0 where it is not known.
  duration shortest_round_trip() const noexcept;
  /// The server's URL, without user and password.
  std::string where() const;
  const net::any_io_executor& executor() const noexcept { return executor_; }
  /// The connection for what is published; made at the first call.
  std::shared_ptr<subscriber> subscriptions();
  nodes& cluster() noexcept { return nodes_; }

 private:
  friend class nodes;
  friend class shared_member;
  using calls = std::list<call_place>;
  struct alarm : deadline {
    explicit alarm(engine& e) noexcept;
    engine* owner;
  };
  struct delivery;
  enum class phase { down, dialing, up };

  engine(const net::any_io_executor& executor, std::shared_ptr<const link_options> link, const client_options& options);
  ~engine() override = default;
  std::shared_ptr<void> reference() noexcept override { return weak_from_this().lock(); }
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  // With the lock held.
  void take_out(call& c) noexcept;
  void finish(call& c, std::error_code ec) noexcept;
  void fail_all(calls& list, std::error_code ec) noexcept;
  void fail_sent(std::error_code first) noexcept;
  time_point end_of_patience(duration waited) const noexcept;

  std::string why_down(const char* otherwise) const;

  void deliver_later(call& c) noexcept;
  void post_turn() noexcept;
  void alarm_called(const alarm& a) noexcept;

  // On the strand.
  void turn() noexcept;
  void act(bool rang = false) noexcept;
  void dial_or_wait() noexcept;
  time_point end_of_dial_for_nobody() const noexcept;
  void send_waiting() noexcept;
  void shut_down() noexcept;
  void drop_link() noexcept;
  void back_off(time_point since) noexcept;
  void set_alarm(time_point when) noexcept;
  void link_up() noexcept override;
  bool link_reply(reply&& r) noexcept override;
  bool link_wants_more() noexcept override;
  void link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept override;

  const std::shared_ptr<const link_options> link_options_;
  const backoff reconnect_;
  const duration timeout_;
  const std::size_t queue_limit_;
  net::any_io_executor executor_;
  net::any_io_executor strand_;
  nodes nodes_;

  calls waiting_;
  calls sent_;                            // one that nobody waits for any more keeps its place
  canigo::detail::suspended_list ready_;  // ended, and to be posted
  std::shared_ptr<subscriber> subscriber_;
  std::string why_down_;  // what the server said when it refused us
  std::error_code cause_;
  client_stats stats_;
  std::size_t abandoned_ = 0;  // of sent_: nobody waits for those
  std::size_t minding_ = 0;    // of sent_: those whose callers would not say the same again
  round_trips line_;
  time_point silent_at_ = time_point::max();  // if nothing is heard by then, nothing will be
  time_point last_read_ = time_point::min();
  bool turn_wanted_ = false;
  bool turn_posted_ = false;
  alarm again_;                   // a turn that there was no memory to post
  std::shared_ptr<engine> keep_;  // while that is armed
  bool alarm_rang_ = false;
  bool is_suspect_ = false;  // the server was silent for too long, or should be another one
  bool closing_ = false;

  // On the strand.
  std::atomic<phase> phase_ = phase::down;  // read from any thread
  std::shared_ptr<link> link_;
  std::uint32_t failures_ = 0;  // in a row
  time_point not_before_ = time_point::min();
  time_point dialed_at_ = time_point::min();
  time_point unwanted_at_ = time_point::max();  // nobody waits for a connection since then
  alarm alarm_;
  bool alarm_armed_ = false;
  time_point alarm_at_ = time_point::max();
  std::uint64_t random_;
  std::shared_ptr<engine> self_;  // while the alarm is armed
};

inline engine& engine_of(const client& c) noexcept { return *c.engine_; }

}  // namespace canigo::redis::detail
