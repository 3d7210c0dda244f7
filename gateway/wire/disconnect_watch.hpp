#pragma once

#include "canigo/net.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace canigo::gateway {

/// Reports when the peer of a socket disconnects, even if bytes of the peer are unread. Each event loop needs one
/// object of this class.
///
/// A read can't detect a disconnect early: while a body is arriving, the socket is always readable. So this class asks
/// the kernel only for the end of the peer's stream (EPOLLRDHUP): a close, a reset or a half-close. Threads: only the
/// thread of its loop.
class disconnect_watch {
 public:
  /// Throws system_error if no file descriptor is free.
  explicit disconnect_watch(net::io_context& loop);
  disconnect_watch(const disconnect_watch&) = delete;
  disconnect_watch& operator=(const disconnect_watch&) = delete;

  /// Receives the event that a peer has disconnected.
  class listener {
   public:
    virtual void peer_left() noexcept = 0;

   protected:
    ~listener() = default;
  };

  /// Watches one socket during the lifetime of this object. The socket must stay open until this object is destroyed.
  class entry {
   public:
    entry(disconnect_watch& home, int socket);
    ~entry();
    entry(const entry&) = delete;
    entry& operator=(const entry&) = delete;

    /// Calls `whom.peer_left()` once when the peer disconnects; calls it immediately if the peer has already
    /// disconnected. `whom` must not destroy this entry. `whom` must live until this entry is destroyed, or until
    /// tell_no_more() is called.
    void tell(listener& whom) noexcept;
    void tell_no_more() noexcept { whom_ = nullptr; }

   private:
    friend class disconnect_watch;
    disconnect_watch& home_;
    listener* whom_ = nullptr;
    const int socket_;
    bool has_left_ = false;
  };

 private:
  void wait();
  void look();

  net::posix::stream_descriptor watched_;
};

}  // namespace canigo::gateway
