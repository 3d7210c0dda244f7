#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "link.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace canigo::redis::detail {

/// Receives the messages of a channel, on a thread that runs the context.
class subscription {
 public:
  subscription(const subscription&) = delete;
  subscription& operator=(const subscription&) = delete;

  /// Called when the subscription begins: the listener gets all messages that are published from now on. A second call
  /// means that the connection was lost in between, so messages may be missing.
  virtual void subscribed() noexcept = 0;
  virtual void published(std::string_view message) noexcept = 0;
  /// Called with the reason when the server rejects the subscription. No messages will come.
  virtual void refused(std::error_code ec, const std::string& text) noexcept = 0;
  /// Called with the reason when the connection for messages is lost, or can't be made. After the next connection is
  /// made, subscribed() is called.
  virtual void unheard(std::error_code ec, const std::string& text) noexcept = 0;

 protected:
  subscription() = default;
  ~subscription() = default;
};

/// A Redis client's second connection, which receives published messages. It is closed one second after the last
/// subscription has ended.
class subscriber final : public std::enable_shared_from_this<subscriber>, private link_listener {
 public:
  subscriber(net::any_io_executor strand, std::shared_ptr<const link_options> options, const backoff& reconnect);

  // add(), remove() and check() may be called on any thread. They throw if there is no memory to post to the strand; in
  // that case nothing has changed.
  void add(std::string channel, std::weak_ptr<subscription> s);
  void remove(std::string channel);
  /// Checks the connection, because a peer that has vanished looks like a peer that sends no messages. If the server
  /// sends nothing within `connect_timeout`, the connection is replaced.
  void check(std::string channel);
  /// Call it with the run id of the server that now gets the commands. If the subscriber is connected to another
  /// server, it reconnects, because the other server would publish no more messages. Runs on the strand.
  void follow(const std::string& run_id) noexcept;
  /// Ends all subscriptions, and closes the connection. Call it on the strand. If the function that add() has posted
  /// runs only after close(), it does not subscribe to the channel.
  void close() noexcept;
  /// Call it when the context is destroyed. Closes the connection, and releases the timers and the strand.
  void shut_down() noexcept;

 private:
  /// Calls `c`, which changes the set of channels. Then connects if there are channels and no connection. If there are
  /// no channels, the connection ends a second later. If there is no memory for one of these steps, the connection is
  /// replaced later.
  template <class Change>
  void change(Change c) noexcept;
  void act();
  void ask_for(const std::string& channel, const char* what);
  bool was_refused(const std::string& text) noexcept;
  void wait(duration d);
  void listen_for_anything(const std::string& channel);
  void expect_anything();
  void heard() noexcept;
  void link_up() noexcept override;
  bool link_reply(reply&& r) noexcept override;
  bool link_wants_more() noexcept override { return true; }
  void link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept override;

  net::any_io_executor strand_;
  const std::shared_ptr<const link_options> options_;
  const backoff reconnect_;
  std::map<std::string, std::weak_ptr<subscription>> channels_;
  std::deque<std::string> asked_;  // the channels whose confirmations are expected, in the order of the requests
  std::shared_ptr<link> link_;
  std::optional<net::steady_timer> timer_;
  std::optional<net::steady_timer> silence_;
  bool is_closing_ = false;
  bool is_up_ = false;
  bool is_waiting_ = false;
  bool is_asked_ = false;                      // whether check() waits for any message of the server
  time_point not_before_ = time_point::min();  // no attempt to connect is made before this time
  std::uint32_t failures_ = 0;
  std::uint64_t random_;
};

}  // namespace canigo::redis::detail
