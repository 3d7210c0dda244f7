#pragma once

#include "canigo/cancel.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/command.hpp"
#include "canigo/redis/detail/reply_reader.hpp"
#include "canigo/redis/endpoint.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/reply.hpp"
#include "canigo/time.hpp"

#include "stream.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace canigo::redis::detail {

struct link_options {
  endpoint where;
  tls_settings tls;
  std::string name;
  duration connect_timeout;
  std::size_t max_reply;
  std::optional<command> sentinel_login;
  // whether a sentinel gets the login before it is asked for the master; true if the user and the password are meant
  // for sentinels
  bool is_sentinel_login_first = false;
  bool asks_for_nodes = true;  // whether to ask a server in a cluster for the other nodes
  /// The index in where.addresses of the sentinel that is asked first. All links of a client share this index, and use
  /// it only on the client's strand.
  std::shared_ptr<std::size_t> first_sentinel = std::make_shared<std::size_t>(0);
};

/// A sentinel's answer: the address of the master, and the index of that sentinel in link_options::where.addresses.
struct named_master {
  endpoint::address where;
  std::size_t sentinel = 0;
};

/// Returns the command that logs in; nothing if there is neither a user nor a password.
std::optional<command> login_of(const std::string& user, const std::string& password);

/// Receives the events of a link. Threads: the link's strand.
class link_listener {
 public:
  link_listener(const link_listener&) = delete;
  link_listener& operator=(const link_listener&) = delete;

  virtual void link_up() noexcept = 0;
  /// Called with each reply. Returns false if no command expects this reply. After a result of false the link closes
  /// itself, so the listener does not close it.
  virtual bool link_reply(reply&& r) noexcept = 0;
  /// Called after link_reply() has got all replies that have arrived. Returns whether more replies are expected; if
  /// not, the link stops reading.
  virtual bool link_wants_more() noexcept = 0;
  /// Called when the link has failed with the error `ec`. `cause`: the system's error code. `text`: the server's error
  /// text. `cause` and `text` may be empty.
  virtual void link_down(std::error_code ec, std::error_code cause, const std::string& text) noexcept = 0;

 protected:
  link_listener() = default;
  ~link_listener() = default;
};

/// One connection to one server, from the connect to the close. All operations of a link run on one strand.
///
/// The link reads only while its listener expects replies. So an idle link does not keep the event loop running.
class link : public std::enable_shared_from_this<link> {
 public:
  link(net::any_io_executor strand, std::shared_ptr<const link_options> options,
       std::shared_ptr<link_listener> listener);

  /// Connects and logs in, and then calls link_up() or link_down() of the listener.
  void dial();
  /// Sends the bytes after all earlier ones. Call this and read() only after link_up.
  void send(std::string_view bytes);
  /// Reads until the listener expects no more replies.
  void read();
  /// Whether the connection is still open after a time without reads. Call it only after link_up.
  bool is_open() noexcept { return stream_->is_open(); }
  /// Makes the next link ask another sentinel first. Call it when the server does not answer, or is no usable master.
  void doubt() noexcept;
  /// Ends the link. After that, the link does not call its listener any more.
  void close() noexcept;

  /// The run id of the server; "" if the server does not tell it.
  const std::string& run_id() const noexcept { return run_id_; }
  /// The time that the server took to answer the first commands.
  duration round_trip() const noexcept { return round_trip_; }
  /// Whether the server may be a node of a cluster. False only if the server has named another mode than "cluster".
  bool may_be_in_cluster() const noexcept { return may_be_in_cluster_; }

 private:
  friend struct on_read;
  friend struct on_written;

  net::awaitable<void> connect();
  net::awaitable<void> connect_to(endpoint::address a);
  net::awaitable<named_master> successor_of(endpoint::address master);
  net::awaitable<endpoint::address> find_master();
  net::awaitable<std::vector<named_master>> named_masters();
  net::awaitable<endpoint::address> ask_in_time(std::size_t sentinel);
  net::awaitable<endpoint::address> ask_sentinel(const endpoint::address& sentinel);
  net::awaitable<void> log_in();
  net::awaitable<std::vector<reply>> ask(stream& s, reply_reader& reader, std::string bytes, std::size_t replies);
  void flush();
  void has_read(std::error_code ec, std::size_t n) noexcept;
  void has_written(std::error_code ec) noexcept;
  void fail(std::error_code ec, std::error_code cause = {}) noexcept;

  const net::any_io_executor strand_;
  const std::shared_ptr<const link_options> options_;
  std::shared_ptr<link_listener> listener_;  // empty after the end of the link
  cancel_source dialing_;
  std::unique_ptr<stream> stream_;
  std::optional<reply_reader> reader_;
  std::string run_id_;
  duration round_trip_{};
  bool may_be_in_cluster_ = true;
  std::size_t sentinel_ = 0;  // the index of the sentinel that has named the master
  std::string refusal_;       // the error text that link_down() gets, such as the server's error reply to a login
  std::string out_;           // the bytes of the next write
  std::string writing_;
  bool is_writing_ = false;
  bool is_reading_ = false;
  std::array<char, 16384> in_;
};

}  // namespace canigo::redis::detail
