#pragma once

#include "canigo/redis/client.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace redis_test {

using steady = std::chrono::steady_clock;

/// A loop that, in its destructor, runs the work that remains after the clients are destroyed.
struct drained : net::io_context {
  ~drained() {
    restart();
    poll();
  }
};

/// What Redis sees as one process: a connection, and its own session.
struct member {
  member(net::io_context& io, const std::string& url, const redis::semaphore_options& o)
      : client{io, url}, slots{client, "crm", o} {}
  redis::client client;
  redis::semaphore slots;
};

/// A Redis server, and two processes that share a cap there.
template <class Context = net::io_context, class Server = redis_server>
struct two_members {
  explicit two_members(const redis::semaphore_options& o) : a{io, server.url(), o}, b{io, server.url(), o} {}
  Server server;
  Context io;
  member a;
  member b;
};

inline std::error_code error_of(net::io_context& io, net::awaitable<redis::permit> work) {
  try {
    const auto got = run(io, std::move(work));
    return {};
  } catch (const std::system_error& e) {
    return e.code();
  }
}

/// Runs the loop until `done()` is true. Fails the test after a time limit that is too long for any machine to reach.
template <class Done>
void run_until(net::io_context& io, Done done, std::chrono::seconds limit = std::chrono::minutes{1}) {
  io.restart();
  const auto give_up = steady::now() + limit;
  while (!done() && steady::now() < give_up) io.run_one_for(std::chrono::milliseconds{10});
  REQUIRE(done());
}

/// Runs the loop for this time.
inline void run_for(net::io_context& io, std::chrono::nanoseconds d) {
  io.restart();
  io.run_for(d);
}

/// Waits for a grant in the background, and notes how that ends. That may be after the destruction of this object.
struct waiting {
  template <class L>
  waiting(L& s, canigo::request r) {
    s.async_acquire(r, net::bind_cancellation_slot(cancel.slot(), [n = note_](std::error_code e, redis::permit got) {
                      n->ec = e;
                      n->p = std::move(got);
                      n->at = steady::now();
                    }));
  }
  bool ended() const { return ec.has_value(); }

 private:
  struct note {
    std::optional<std::error_code> ec;
    redis::permit p;
    steady::time_point at;
    net::cancellation_signal cancel;
  };
  const std::shared_ptr<note> note_ = std::make_shared<note>();

 public:
  const std::optional<std::error_code>& ec = note_->ec;
  redis::permit& p = note_->p;
  const steady::time_point& at = note_->at;
  net::cancellation_signal& cancel = note_->cancel;
};

}  // namespace redis_test
