#pragma once

#include "canigo/net.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace canigo::gateway {

/// Tells when the peer of a socket leaves, however many of its bytes are unread. One watch serves a loop.
///
/// A read can't tell: while a body is on its way, a socket is always readable. So this asks the kernel for the end
/// alone (EPOLLRDHUP): a close, a reset or a half-close.
/// Threads: those of its loop.
class disconnect_watch {
 public:
  /// Throws system_error if the kernel has no descriptor left.
  explicit disconnect_watch(net::io_context& loop);
  disconnect_watch(const disconnect_watch&) = delete;
  disconnect_watch& operator=(const disconnect_watch&) = delete;

  /// Is told that a peer has left.
  class listener {
   public:
    virtual void peer_left() noexcept = 0;

   protected:
    ~listener() = default;
  };

  /// Watches one socket, from construction to destruction. The socket must stay open for so long.
  class entry {
   public:
    entry(disconnect_watch& home, int socket);
    ~entry();
    entry(const entry&) = delete;
    entry& operator=(const entry&) = delete;

    /// `whom` is told at most once, on the loop: at once if the peer has left already. It must not destroy this entry,
    /// and must outlive it or tell_no_more().
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
