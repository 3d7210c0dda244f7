// Requests while memory, or file descriptors, run out at any point. A program of its own, as it replaces the heap.

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "allocations.hpp"
#include "catch.hpp"
#include "http_run.hpp"
#include "http_server.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <csignal>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

using namespace allocations;
using namespace http_test;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

/// A server in a process of its own, which has all the memory that it wants.
class server_process {
 public:
  server_process() {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw std::system_error{errno, std::system_category()};
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      scripted_server s{[](peer& p) -> net::awaitable<void> {
        for (;;) {
          const std::string request = co_await p.request();
          if (request.find(" /moved ") == std::string::npos) {
            co_await p.send(ok("a body that is too long for the string itself", "A: b\r\n  c\r\n"));
          } else {
            co_await p.send("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n");
          }
        }
      }};
      const unsigned short port = s.port();
      if (::write(ends[1], &port, sizeof port) != sizeof port) std::_Exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    if (::read(ends[0], &port_, sizeof port_) != sizeof port_) throw std::runtime_error{"no server"};
    ::close(ends[0]);
  }
  ~server_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  std::string url(const char* path) const { return "http://127.0.0.1:" + std::to_string(port_) + path; }

 private:
  pid_t pid_ = 0;
  unsigned short port_ = 0;
};

/// A request with its end.
struct sent {
  int ends = 0;
  std::error_code error;
  http::response response;
  net::cancellation_signal signal;

  /// False if there was not even the memory to say that there is none.
  bool start(http::client& client, http::request r) {
    return attempt([&] {
      client.async_send(std::move(r),
                        net::bind_cancellation_slot(signal.slot(), [this](std::error_code ec, http::response got) {
                          ++ends;
                          error = ec;
                          response = std::move(got);
                        }));
    });
  }
};

const http::client_options direct{.connections = 2, .proxy = ""};

}  // namespace

TEST_CASE("a request ends once whichever allocation fails, and the client works on") {
  const server_process server;
  const std::string url = server.url("/");
  {
    net::io_context io;  // what curl and Asio keep for the process
    http::client client{io, direct};
    CHECK(run(io, client.get(url)).status == 200);
  }
  const auto needed = for_every_allocation([&](std::int64_t k) {
    CAPTURE(k);
    http::request get{server.url("/moved")};
    http::request post{"POST", url};
    post.with_header("Name", "a value that is too long for the string itself").with_body("a body");
    http::request last{url};
    http::request cancelled{url};
    net::io_context io{1};
    sent a, b, c, d;
    bool a_began = false, b_began = false, d_began = false;
    std::optional<http::client> client;
    bool has_failed = false;
    {
      const failing f{k, victims::cplusplus};
      try {
        client.emplace(io, direct);
        a_began = a.start(*client, std::move(get));
        b_began = b.start(*client, std::move(post));
        d_began = d.start(*client, std::move(cancelled));
        d.signal.emit(net::cancellation_type::total);
        io.run();
      } catch (const std::bad_alloc&) {
        CHECK_FALSE(client);
      } catch (const std::system_error&) {
        CHECK_FALSE(client);
      }
      has_failed = f.has_failed();
    }
    if (!client) client.emplace(io, direct);
    CHECK(c.start(*client, std::move(last)));
    io.restart();
    io.run();
    CHECK(a.ends == a_began);
    CHECK(b.ends == b_began);
    CHECK(d.ends == d_began);
    CHECK(c.ends == 1);
    CHECK(!c.error);
    CHECK(c.response.status == 200);
    CHECK(c.response.headers.find("a") == std::string_view{"b c"});
    if (a_began && !a.error) CHECK(a.response.body == c.response.body);
    if (!has_failed) {
      CHECK((a_began && !a.error));
      CHECK((b_began && !b.error));
      CHECK(d.error == net::error::operation_aborted);
    }
    CHECK(client->stats().waiting + client->stats().running == 0);
    return has_failed;
  });
  CHECK(needed > 20);
}

// The undefined-behaviour sanitizer looks at memory through a pipe, and takes what it can't look at for broken.
#ifndef CANIGO_TESTS_SANITIZED
TEST_CASE("a request that gets no file descriptor fails, and the next one works") {
  const server_process server;
  const std::string url = server.url("/");
  net::io_context io;
  http::client warm{io, direct};
  CHECK(run(io, warm.get(url)).status == 200);
  rlimit most{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &most) == 0);
  const int free = ::dup(0);  // all below it are taken
  ::close(free);
  int failed = 0;
  for (unsigned spare = 0;; ++spare) {
    CAPTURE(spare);
    http::client client{io, direct};
    const rlimit few{static_cast<rlim_t>(free) + spare, most.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const auto error = error_of(io, client.get(url));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &most) == 0);
    CHECK(run(io, client.get(url)).status == 200);
    if (!error) break;
    ++failed;
    REQUIRE(spare < 100);
  }
  CHECK(failed > 0);
}
#endif
