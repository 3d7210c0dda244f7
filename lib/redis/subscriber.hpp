#pragma once

#include "canigo/backoff.hpp"
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

/// Who hears what is published to a channel. On a thread that runs the context.
class subscription {
 public:
  subscription(const subscription&) = delete;
  subscription& operator=(const subscription&) = delete;

  /// From here on nothing is missed, until it is called again: the connection was lost in between.
  virtual void subscribed() noexcept = 0;
  virtual void published(std::string_view message) noexcept = 0;
  /// The server does not let us listen, and says why. Nothing comes from here on.
  virtual void refused(std::error_code ec, const std::string& text) noexcept = 0;

 protected:
  subscription() = default;
  ~subscription() = default;
};

/// The second connection of a client, for what is published. It lasts as long as somebody listens, and a second more.
class subscriber final : public std::enable_shared_from_this<subscriber>, private link_listener {
 public:
  subscriber(net::any_io_executor strand, std::shared_ptr<const link_options> options, const backoff& reconnect);

  // From any thread. Without memory to tell the strand they throw, and nothing has happened.
  void add(std::string channel, std::weak_ptr<subscription> s);
  void remove(std::string channel);
  /// Makes the connection anew unless the server says something within the time that a connection may take: one whose
  /// other end has gone without a word looks as one to which nothing is said.
  void check(std::string channel);
  /// The end, on the strand: what is still to be added is not.
  void close() noexcept;
  /// The context goes away.
  void shut_down() noexcept;

 private:
  /// Does it, and what follows from it; where there is no memory, all is made again after a while.
  template <class Change>
  void change(Change c) noexcept;
  void act();
  void ask_for(const std::string& channel, const char* what);
  bool was_refused(const std::string& text) noexcept;
  void wait(duration d);
  void listen_for_anything(const std::string& channel);
  void heard() noexcept;
  void link_up() noexcept override;
  bool link_reply(reply&& r) noexcept override;
  bool link_wants_more() noexcept override { return true; }
  void link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept override;

  net::any_io_executor strand_;
  const std::shared_ptr<const link_options> options_;
  const backoff reconnect_;
  std::map<std::string, std::weak_ptr<subscription>> channels_;
  std::deque<std::string> asked_;  // the channels that answers are to come for, in that order
  std::shared_ptr<link> link_;
  std::optional<net::steady_timer> timer_;
  std::optional<net::steady_timer> silence_;
  bool is_closing_ = false;
  bool is_up_ = false;
  bool is_waiting_ = false;
  bool is_asked_ = false;                      // whether it still says something
  time_point not_before_ = time_point::min();  // the next attempt
  std::uint32_t failures_ = 0;
  std::uint64_t random_;
};

}  // namespace canigo::redis::detail
