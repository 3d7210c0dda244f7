#include "canigo/net.hpp"

#include "../lib/http/socket_table.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <curl/multi.h>

#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <vector>

using canigo::http::detail::socket_listener;
using canigo::http::detail::socket_table;
using canigo::http::detail::socket_watch;
namespace net = canigo::net;

namespace {

struct pair {
  pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  ~pair() {
    for (const int end : ends) ::close(end);
  }
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;
  int ends[2] = {};
};

/// A table, and what it hears of.
struct scene final : socket_listener, std::enable_shared_from_this<scene> {
  struct event {
    socket_watch* watch;
    int what;
    bool aborted;
  };
  void socket_fired(socket_watch& w, int what, std::error_code ec) noexcept override {
    events.push_back({&w, what, ec == net::error::operation_aborted});
  }
  std::shared_ptr<socket_listener> share() noexcept override { return shared_from_this(); }

  net::io_context io;
  socket_table table{io.get_executor(), *this};
  std::vector<event> events;
};

}  // namespace

TEST_CASE("where a program has closed descriptor 0 a socket is waited for by that number") {
  pair ends;
  const auto s = std::make_shared<scene>();
  REQUIRE_FALSE(s->table.watch(ends.ends[0], false));  // with what Asio makes at first
  s->table.unwatch(ends.ends[0]);
  const int kept = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  REQUIRE(kept > 0);
  ::close(0);
  const std::error_code error = s->table.watch(ends.ends[0], false);
  const bool is_taken = ::fcntl(0, F_GETFD) != -1;
  const bool is_watched = s->table.find(ends.ends[0]) != nullptr;
  if (is_watched) s->table.unwatch(ends.ends[0]);
  ::dup2(kept, 0);
  ::close(kept);
  CHECK_FALSE(error);
  CHECK(is_taken);
  CHECK(is_watched);
}

TEST_CASE("a socket that has taken a closed one's number is waited for in its place") {
  pair old, other;
  const auto s = std::make_shared<scene>();
  const int fd = old.ends[0];
  REQUIRE_FALSE(s->table.watch(fd, false));
  socket_watch& before = *s->table.find(fd);
  before.wanted = CURL_POLL_IN;
  s->table.wait(before);

  REQUIRE(::dup2(other.ends[0], fd) == fd);  // closed without a word, and opened again
  s->table.reopened(fd);
  socket_watch& after = *s->table.find(fd);
  CHECK(after.wanted == CURL_POLL_IN);
  CHECK(after.waiting == CURL_POLL_IN);
  REQUIRE(::write(other.ends[1], "x", 1) == 1);
  while (s->events.size() < 2) s->io.run_one();
  for (const auto& e : s->events) {
    CHECK(e.what == CURL_POLL_IN);
    CHECK(e.aborted == (e.watch == &before));
    CHECK(s->table.heard(*e.watch, e.what) == (e.watch == &after));
  }
  s->table.unwatch_all();
  s->io.run();
}

TEST_CASE("a number that was not watched, and one that is no socket, are not watched either") {
  const auto s = std::make_shared<scene>();
  s->table.reopened(-1);
  int closed = 0;
  {
    pair p;
    s->table.reopened(p.ends[0]);
    CHECK(s->table.find(p.ends[0]) == nullptr);
    closed = p.ends[0];
    REQUIRE_FALSE(s->table.watch(closed, false));
  }
  s->table.reopened(closed);
  CHECK(s->table.find(closed) == nullptr);
}
