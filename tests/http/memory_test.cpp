// Requests while memory, or file descriptors, run out at any point, ours or curl's. A program of its own, as it
// replaces the heap.

#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/http/exchange.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/require.hpp>
#include <curl/curl.h>

#include <array>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

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
          if (request.find(" /endless ") != std::string::npos) {
            co_await p.send("HTTP/1.1 200 OK\r\n\r\n");
            for (const std::string part(100'000, 'x');;) co_await p.send(part);
          }
          if (request.find(" /silent ") != std::string::npos) co_await p.linger();
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

/// What curl takes from the heap, and what of it fails. curl 7.88 does not survive every failure in a transfer; what
/// we ask of it in between is another matter.
struct curl_heap {
  static inline std::size_t too_much = std::size_t(-1);  // for one allocation
  static inline int until_failure = -1;                  // that many more succeed, and one fails
  static inline bool is_out_of_order = false;            // there is no curl at all
  static inline bool has_no_room = false;                // for a transfer more

  static inline std::size_t held = 0;  // bytes

  static void* note(void* p) noexcept {
    held += ::malloc_usable_size(p);
    return p;
  }
  static void* forget(void* p) noexcept {
    held -= ::malloc_usable_size(p);
    return p;
  }

  static bool fails(std::size_t size) noexcept {
    if (until_failure >= 0 && until_failure-- == 0) return true;
    return size >= too_much;
  }
  static void* take(std::size_t size) { return fails(size) ? nullptr : note(std::malloc(size)); }
  static void* take_zeroed(std::size_t n, std::size_t size) {
    return fails(n * size) ? nullptr : note(std::calloc(n, size));
  }
  static void* take_more(void* p, std::size_t size) {
    return fails(size) ? nullptr : note(std::realloc(forget(p), size));
  }
  static char* copy(const char* text) {
    return fails(std::strlen(text) + 1) ? nullptr : static_cast<char*>(note(::strdup(text)));
  }
  static inline const CURLcode is_ours = curl_global_init_mem(
      CURL_GLOBAL_DEFAULT, &take, [](void* p) { std::free(forget(p)); }, &take_more, &copy, &take_zeroed);
};

/// Until the end of a scope.
template <class T>
class meanwhile {
 public:
  meanwhile(T& variable, T value) : variable_{variable}, before_{std::exchange(variable, value)} {}
  ~meanwhile() { variable_ = before_; }
  meanwhile(const meanwhile&) = delete;
  meanwhile& operator=(const meanwhile&) = delete;

 private:
  T& variable_;
  const T before_;
};

/// A request with its end.
struct sent {
  int ends = 0;
  std::error_code error;
  http::response response;
  net::cancellation_signal signal;
  std::shared_ptr<int> life = std::make_shared<int>();  // the handler has a share of it

  /// False if there was not even the memory to say that there is none.
  bool start(http::client& client, http::request r) {
    return attempt([&] {
      auto handler = [this, share = life](std::error_code ec, http::response got) {
        ++ends;
        error = ec;
        response = std::move(got);
      };
      client.async_send(std::move(r), net::bind_cancellation_slot(signal.slot(), std::move(handler)));
    });
  }
};

const http::client_options direct{.connections = 2, .proxy = ""};

std::size_t open_descriptors() {
  std::size_t n = 0;
  for (int fd = 0; fd < 1024; ++fd) n += ::fcntl(fd, F_GETFD) != -1;
  return n;
}

/// Requests while the k-th allocation fails, and those that come right after it, for every k. On the executor of a
/// context, or on one that nobody knows.
void expect_ends(bool is_known, std::int64_t in_a_row) {
  const server_process server;
  const std::string url = server.url("/");
  {
    net::io_context io;  // what curl and Asio keep for the process
    http::client client{io, direct};
    CHECK(run_to_end(io, client.get(url)).status == 200);
  }
  const std::size_t descriptors = open_descriptors();
  const auto needed = for_every_allocation([&](std::int64_t k) {
    CAPTURE(k);
    http::request get{server.url("/moved")};
    http::request post{"POST", url};
    post.with_header("Name", "a value that is too long for the string itself").with_body("a body");
    http::request last{url};
    http::request cancelled{url};
    http::request nowhere{"http://127.0.0.1:1/a-place-that-does-not-fit-into-the-string-itself"};
    net::io_context io{1};
    net::any_io_executor executor = io.get_executor();
    if (!is_known) {
      executor = net::require(io.get_executor(), net::execution::allocator(net::recycling_allocator<void>{}));
    }
    sent a, b, c, d, e;
    bool a_began = false, b_began = false, d_began = false, e_began = false;
    std::optional<http::client> client;
    bool has_failed = false, had_client = false;
    int again = 0;
    {
      // Catch2's checks need memory too, so they come afterwards.
      failing f{k, victims::cplusplus, in_a_row};
      try {
        client.emplace(executor, direct);
        a_began = a.start(*client, std::move(get));
        b_began = b.start(*client, std::move(post));
        d_began = d.start(*client, std::move(cancelled));
        d.signal.emit(net::cancellation_type::total);
        e_began = e.start(*client, std::move(nowhere));
        // Where it does not know the executor Asio takes memory for each completion, and throws out of the loop.
        while (!attempt([&] { io.run(); }) && again < 100) ++again;
      } catch (const std::bad_alloc&) {
        had_client = client.has_value();
      } catch (const std::system_error&) {
        had_client = client.has_value();
      }
      has_failed = f.stop();
    }
    CHECK_FALSE(had_client);
    CHECK(again <= (is_known ? 0 : in_a_row));
    if (!client) client.emplace(executor, direct);
    CHECK(c.start(*client, std::move(last)));
    io.restart();
    io.run();
    CHECK(a.ends == a_began);
    CHECK(b.ends == b_began);
    CHECK(d.ends == d_began);
    CHECK(e.ends == e_began);
    if (e_began) CHECK(e.error);
    CHECK(c.ends == 1);
    CHECK(!c.error);
    CHECK(c.response.status == 200);
    CHECK(c.response.headers.find("a") == std::string_view{"b c"});
    if (a_began && !a.error) CHECK(a.response.body == c.response.body);
    if (!has_failed) {
      CHECK((a_began && !a.error));
      CHECK((b_began && !b.error));
      CHECK(d.error == net::error::operation_aborted);
      CHECK(e.error == http::error::could_not_connect);
    }
    CHECK(client->stats().waiting + client->stats().running == 0);
    return has_failed;
  });
  CHECK(needed > 20);
  CHECK(open_descriptors() == descriptors);
}

}  // namespace

// libcurl's, which fail where the tests want them to.
extern "C" CURLcode curl_global_init(long flags) {
  static const auto real = reinterpret_cast<decltype(&::curl_global_init)>(::dlsym(RTLD_NEXT, "curl_global_init"));
  return curl_heap::is_out_of_order ? CURLE_FAILED_INIT : real(flags);
}
extern "C" CURLMcode curl_multi_add_handle(CURLM* m, CURL* easy) {
  static const auto real =
      reinterpret_cast<decltype(&::curl_multi_add_handle)>(::dlsym(RTLD_NEXT, "curl_multi_add_handle"));
  return curl_heap::has_no_room ? CURLM_OUT_OF_MEMORY : real(m, easy);
}

// The first of all: there is one curl for a process.
TEST_CASE("without curl there is no client, until there is") {
  REQUIRE(curl_heap::is_ours == CURLE_OK);
  net::io_context io;
  const auto error = [&]() -> std::error_code {
    try {
      const http::client client{io, direct};
      return {};
    } catch (const std::system_error& e) {
      return e.code();
    }
  };
  {
    const meanwhile broken{curl_heap::is_out_of_order, true};
    CHECK(error() == std::error_code{CURLE_FAILED_INIT, http::error_category()});
  }
  CHECK_FALSE(error());
}

TEST_CASE("a client is made whole or not at all, whichever of curl's allocations fails") {
  net::io_context io;
  http::client_options options = direct;
  options.user_agent = "tester";
  int failed = 0;
  for (bool is_made = false; !is_made; ++failed) {
    const meanwhile one{curl_heap::until_failure, failed};
    try {
      const http::client client{io, options};
      is_made = true;
    } catch (const std::bad_alloc&) {
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::not_enough_memory);
    }
    REQUIRE(failed < 1000);
  }
  CHECK(failed > 3);
}

TEST_CASE("what curl has no memory for ends with not_enough_memory, and the next request is sent") {
  const server_process server;
  const std::string url = server.url("/");
  net::io_context io;
  http::client client{io, direct};
  const std::string long_text(100'000, 'x');
  std::vector<http::request> requests;
  requests.push_back(http::request{url + long_text});
  requests.push_back(http::request{long_text, url});
  requests.push_back(http::request{url}.with_header("A", long_text));
  for (auto& r : requests) {
    {
      const meanwhile little{curl_heap::too_much, long_text.size()};
      CHECK(error_of(io, client.send(std::move(r))) == errc::not_enough_memory);
    }
    CHECK(run_to_end(io, client.get(url)).status == 200);
  }
  {
    const meanwhile full{curl_heap::has_no_room, true};
    CHECK(error_of(io, client.get(url)) == errc::not_enough_memory);
  }
  CHECK(run_to_end(io, client.get(url)).status == 200);
  CHECK(client.stats().waiting + client.stats().running == 0);
}

TEST_CASE("a connection more that curl has no memory for fails its request, and not the one before") {
  const server_process server;
  net::io_context io;
  http::client_options options = direct;
  options.user_agent = std::string(100'000, 'x');
  http::client client{io, options};
  sent first, second;
  REQUIRE(first.start(client, http::request{server.url("/")}));
  while (client.stats().running == 0) io.run_one();
  {
    const meanwhile little{curl_heap::too_much, options.user_agent.size()};
    REQUIRE(second.start(client, http::request{server.url("/")}));
    while (second.ends == 0) io.run_one();
  }
  CHECK(second.error == errc::not_enough_memory);
  io.run();
  CHECK(first.ends == 1);
}

TEST_CASE("a request ends once whichever allocation fails, and the client works on") { expect_ends(true, 1); }

TEST_CASE("a request ends once where several allocations fail") {
  const int in_a_row = GENERATE(2, 5);
  expect_ends(true, in_a_row);
}

TEST_CASE("a request ends once whichever allocation fails on an executor that is not known") { expect_ends(false, 1); }

TEST_CASE("an end that there is no memory to tell is told later, whatever comes in between") {
  const server_process server;
  auto io = std::make_unique<net::io_context>(1);
  http::client client{*io, direct};
  sent s;
  REQUIRE(s.start(client, http::request{server.url("/silent")}));
  while (client.stats().running == 0) io->poll();
  const auto cancel_in_vain = [&] {
    s.signal.emit(net::cancellation_type::total);
    for (int i = 0; i < 5; ++i) io->poll();
  };
  SECTION("nothing") {
    {
      const failing all_of_them{0, victims::cplusplus, 1'000'000};
      cancel_in_vain();
    }
    CHECK(s.ends == 0);
    io->run();
    CHECK(s.ends == 1);
    CHECK(s.error == net::error::operation_aborted);
  }
  SECTION("the client is stopped") {
    {
      const failing all_of_them{0, victims::cplusplus, 1'000'000};
      cancel_in_vain();
      client.stop();
      io->poll();
    }
    CHECK(s.ends == 0);
    io->run();
    CHECK(s.ends == 1);
    CHECK(s.error == net::error::operation_aborted);
  }
  SECTION("the context goes") {
    {
      const failing all_of_them{0, victims::cplusplus, 1'000'000};
      cancel_in_vain();
    }
    io.reset();
    CHECK(s.ends == 0);
    CHECK(s.life.use_count() == 1);
  }
  SECTION("the client is stopped, and then the context goes") {
    {
      const failing all_of_them{0, victims::cplusplus, 1'000'000};
      cancel_in_vain();
      client.stop();
      io->poll();
    }
    io.reset();
    CHECK(s.ends == 0);
    CHECK(s.life.use_count() == 1);
  }
}

// The undefined-behaviour sanitizer looks at memory through a pipe, and takes what it can't look at for broken.
#ifndef CANIGO_TESTS_SANITIZED
TEST_CASE("a request that gets no file descriptor says so, and the next one works") {
  const server_process server;
  const bool is_name = GENERATE(false, true);
  const std::string url = is_name ? "http://localhost" + server.url("/").substr(16) : server.url("/");
  net::io_context io;
  http::client warm{io, direct};
  CHECK(run_to_end(io, warm.get(url)).status == 200);
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
    CHECK(run_to_end(io, client.get(url)).status == 200);
    if (!error) break;
    CHECK(error == std::errc::too_many_files_open);
    ++failed;
    REQUIRE(spare < 100);
  }
  CHECK(failed > 0);
}
#endif

TEST_CASE("a look-up that fails where a program has closed descriptor 0 leaves it closed, and says why") {
  net::io_context io;
  http::client client{io, direct};
  const std::string url = "http://a..b/";  // no name server is asked
  CHECK(error_of(io, client.get(url)) == http::error::could_not_resolve_host);
  const int kept = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  REQUIRE(kept > 0);
  ::close(0);
  const auto error = error_of(io, client.get(url));
  const bool is_closed = ::fcntl(0, F_GETFD) == -1;
  ::dup2(kept, 0);
  ::close(kept);
  CHECK(error == http::error::could_not_resolve_host);
  CHECK(is_closed);
}

TEST_CASE("an exchange that nobody reads holds 64 KiB of its endless body at most") {
  constexpr int count = 20;
  constexpr std::size_t bound = 64 << 10;
  const server_process server;
  net::io_context io;
  http::client_options options = direct;
  options.connections = count;
  options.connections_per_host = count;
  http::client client{io, options};
  const std::size_t before = curl_heap::held;
  const auto work = [&]() -> net::awaitable<int> {
    std::vector<http::exchange> all;
    std::array<char, 100> room{};
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < count; ++i) {
        if (round == 0) all.push_back(co_await client.open(server.url("/endless")));
        co_await all[static_cast<std::size_t>(i)].read_some(net::buffer(room));
      }
      CHECK(curl_heap::held - before < count * bound);
    }
    // It was counted. Before curl 8.7 each transfer has a buffer of 16 KiB; later ones share it.
    CHECK(curl_heap::held - before > count * std::size_t{1} << 10);
    co_return 0;
  };
  run_to_end(io, work());
}
