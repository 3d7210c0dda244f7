#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/http/exchange.hpp"
#include "canigo/http/upload.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "../lib/http/trust.hpp"
#include "http/certificate.hpp"
#include "http/run.hpp"
#include "http/server.hpp"
#include "http/tls_server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/buffer.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

/// How many connect to the next port that is listened on before anybody else can, and how many right after the next one
/// that connects.
int strangers_to_come = 0;
int strangers_to_follow = 0;
std::vector<int> strangers;

void come(int& how_many, const sockaddr* to, socklen_t size) noexcept {
  for (; how_many > 0; --how_many) {
    strangers.push_back(::socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::syscall(SYS_connect, strangers.back(), to, size);
  }
}

}  // namespace

extern "C" int connect(int fd, const sockaddr* to, socklen_t size) {
  const auto result = static_cast<int>(::syscall(SYS_connect, fd, to, size));
  const int error = errno;
  come(strangers_to_follow, to, size);
  errno = error;
  return result;
}

extern "C" int listen(int fd, int backlog) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_listen, fd, backlog));
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  for (const int stranger : strangers) ::close(stranger);
  strangers.clear();
  come(strangers_to_come, reinterpret_cast<const sockaddr*>(&at), size);
  return result;
}

TEST_CASE("HTTPS: the certificate and the host's name are checked, and the connection is kept") {
  net::io_context io;
  const tls_server server{io};
  const auto ask = [&](const std::string& url, http::client_options o) -> std::error_code {
    o.proxy = "";
    o.connections_per_host = 1;
    http::client client{io, o};
    std::error_code error;
    const auto both = [&]() -> net::awaitable<void> {
      for (int i = 0; i < 2; ++i) {
        const http::response r = co_await client.get(url);
        CHECK(r.body == "secret");
        CHECK(r.reused == (i == 1));
        if (i == 0) CHECK(r.timing.secured > r.timing.connected);
      }
    };
    bool ended = false;
    net::co_spawn(io, both(), [&](std::exception_ptr e) {
      ended = true;
      try {
        if (e) std::rethrow_exception(e);
      } catch (const std::system_error& failure) {
        error = failure.code();
      }
    });
    while (!ended) io.run_one();
    return error;
  };
  CHECK_FALSE(ask(server.url(), {.ca_file = server.certificate()}));
  CHECK(ask(server.url("127.0.0.1"), {.ca_file = server.certificate()}) == http::error::certificate_of_another_host);
  CHECK(ask(server.url(), {}) == http::error::certificate_rejected);  // nobody we trust has signed it
  CHECK_FALSE(ask(server.url("127.0.0.1"), {.verify_tls = false}));
  const tls_server late{io, -60};
  CHECK(ask(late.url(), {.ca_file = late.certificate()}) == http::error::certificate_expired);
}

TEST_CASE("a file of trusted certificates that is none is refused when the client is made") {
  net::io_context io;
  const tls_server server{io};
  const temporary_folder folder;
  std::ofstream{folder / "empty"};
  std::ofstream{folder / "text"} << "no certificate\n";
  std::ofstream{folder / "cut"} << "-----BEGIN CERTIFICATE-----\nMIIB\n";
  for (const char* name : {"absent", "empty", "text", "cut"}) {
    try {
      const http::client client{io, {.ca_file = folder / name, .proxy = ""}};
      FAIL(name);
    } catch (const std::system_error& e) {
      CHECK(e.code() == canigo::errc::invalid_argument);
      const std::string text = said_by(e);
      CHECK(text.find("ca_file is " + (folder / name).substr(0, 40)) != std::string::npos);
      CHECK(text.find("allowed: a PEM file") != std::string::npos);
    }
  }
  const http::client client{io, {.ca_file = server.certificate(), .proxy = ""}};
}

TEST_CASE("a folder of trusted certificates will do where all of the file is in it") {
  using http::detail::trust_in;
  const temporary_folder folder;
  const std::string file = folder / "bundle.pem";
  std::ofstream{file} << "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
                         "-----BEGIN TRUSTED CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
  const auto add = [&](const char* name) { std::ofstream{folder / name}; };
  const std::string path = std::filesystem::path{file}.parent_path();
  for (const char* none : {"ca.pem", "0123456.0", "0123456g.0", "0123456789.0", "01234567.", "01234567.x"}) add(none);
  CHECK_FALSE(trust_in(nullptr, nullptr).is_known);
  CHECK_FALSE(trust_in(nullptr, path.c_str()).is_known);
  CHECK_FALSE(trust_in(nullptr, "/no/such/folder").is_known);
  CHECK(trust_in(file.c_str(), nullptr).is_known);
  CHECK(trust_in(file.c_str(), nullptr).file == file);
  CHECK(trust_in(file.c_str(), nullptr).folder.empty());
  add("0123abcf.0");
  CHECK(trust_in(nullptr, path.c_str()).is_known);
  CHECK(trust_in(nullptr, path.c_str()).folder == path);
  CHECK_FALSE(trust_in(file.c_str(), path.c_str()).is_known);  // curl reads both
  add("0123abcf.1");
  CHECK(trust_in(file.c_str(), path.c_str()).folder == path);
  CHECK(trust_in(file.c_str(), path.c_str()).file.empty());
}

TEST_CASE("a stranger on the loopback does not keep a client from reading its trusted certificates") {
  net::io_context io;
  const temporary_folder folder;
  std::ofstream{folder / "text"} << "no certificate\n";
  strangers_to_come = 3;
  CHECK_THROWS_AS((http::client{io, {.ca_file = folder / "text", .proxy = ""}}), std::system_error);
  CHECK(strangers_to_come == 0);
  // Not even one that comes before others is left without an answer.
  for (const int stranger : strangers) {
    char text[16];
    CHECK(::recv(stranger, text, sizeof text, 0) == 8);
  }
}

TEST_CASE("strangers on the loopback take no more than 64 descriptors of a client that is made") {
  net::io_context io;
  const temporary_folder folder;
  std::ofstream{folder / "text"} << "no certificate\n";
  strangers_to_follow = 70;
  CHECK_THROWS_AS((http::client{io, {.ca_file = folder / "text", .proxy = ""}}), std::system_error);
  CHECK(strangers_to_follow == 0);
  const auto answered = std::ranges::count_if(strangers, [](int stranger) {
    char text[16];
    return ::recv(stranger, text, sizeof text, 0) == 8;
  });
  CHECK(answered == 63);  // and the client's own connection
}

TEST_CASE("the environment may name the trusted certificates, as it does for curl and OpenSSL") {
  net::io_context io;
  const tls_server server{io};
  const tls_server other{io};
  const auto ask = [&](http::client_options o) {
    o.proxy = "";
    http::client client{io, o};
    std::optional<std::error_code> end;
    client.async_send({server.url()}, [&](std::error_code ec, const http::response&) { end = ec; });
    while (!end) io.run_one();
    return *end;
  };
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    INFO(name);
    ::setenv(name, server.certificate().c_str(), 1);
    CHECK_FALSE(ask({}));
    CHECK(ask({.ca_file = other.certificate()}) == http::error::certificate_rejected);
    ::setenv(name, "/no/such/file", 1);  // no client is refused for that: it may have no use for any
    CHECK(ask({}) == http::error::ca_file_unusable);
    ::setenv(name, "", 1);
    CHECK(ask({}) == http::error::certificate_rejected);
    ::unsetenv(name);
  }
}

namespace {

/// What this thread has had of a processor.
canigo::duration processor_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

}  // namespace

TEST_CASE("new TLS connections cost the loop the handshake, and no reading of certificates") {
  net::io_context server_loop;
  const tls_server server{server_loop};
  auto server_work = net::make_work_guard(server_loop);
  std::thread server_thread{[&] { server_loop.run(); }};
  const auto cost = [&](http::client_options o) {
    o.proxy = "";
    net::io_context io;
    http::client client{io, o};
    const auto before = processor_time();
    int ended = 0;
    for (int i = 0; i < 16; ++i) {
      client.async_send({server.url()}, [&](std::error_code, const http::response&) { ++ended; });
    }
    io.run();
    CHECK(ended == 16);
    return processor_time() - before;
  };
  cost({.verify_tls = false});  // what OpenSSL does once
  const auto handshakes = cost({.verify_tls = false});
  const auto with_default = cost({});
  const auto with_file = cost({.ca_file = "/etc/ssl/certs/ca-certificates.crt"});
  INFO("handshakes " << handshakes.count() << ", default " << with_default.count() << ", file " << with_file.count());
  // All of the bundle takes 20 to 60 ms, each time that it is read.
  constexpr canigo::duration most = std::chrono::milliseconds{10};
  CHECK(with_default < 3 * handshakes + 16 * most / 4);
  CHECK(with_file < 3 * handshakes + 16 * most / 4);
  server_work.reset();
  server_loop.stop();
  server_thread.join();
}

namespace {

/// As much of HTTP/2 as shows what becomes of a stream: it answers with a head when it is told to.
class http2_server {
 public:
  explicit http2_server(net::io_context& io) : acceptor_{io, {net::ip::make_address("127.0.0.1"), 0}} {
    make_certificate(folder_ / "key", folder_ / "certificate");
    tls_.use_private_key_file(folder_ / "key", net::ssl::context::pem);
    tls_.use_certificate_file(folder_ / "certificate", net::ssl::context::pem);
    SSL_CTX_set_alpn_select_cb(tls_.native_handle(), &choose_http2, nullptr);
    net::co_spawn(io, accept(), net::detached);
  }
  std::string certificate() const { return folder_ / "certificate"; }
  std::string url() const { return "https://localhost:" + std::to_string(acceptor_.local_endpoint().port()) + "/"; }

  /// It begins to answer each request at once, and ends when it has the whole body.
  bool answers_early = false;
  std::size_t bytes_taken = 0;

  std::vector<std::uint32_t> opened;
  bool has_reset(std::uint32_t stream) const { return std::ranges::find(reset_, stream) != reset_.end(); }
  int connections = 0;
  int closed = 0;

  /// 200, without a body.
  net::awaitable<void> answer(std::uint32_t stream) {
    const std::vector<unsigned char> frame{
        0, 0, 1, headers, end_stream | end_headers, 0, 0, 0, static_cast<unsigned char>(stream), 0x88};
    co_await write(frame);
  }

 private:
  static constexpr unsigned char data_frame = 0, headers = 1, rst_stream = 3, settings = 4, window_update = 8;
  static constexpr unsigned char end_stream = 1, end_headers = 4, ack = 1;
  using tls_stream = net::ssl::stream<net::ip::tcp::socket>;

  static int choose_http2(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char*, unsigned,
                          void*) {
    *chosen = reinterpret_cast<const unsigned char*>("h2");
    *size = 2;
    return SSL_TLSEXT_ERR_OK;
  }

  net::awaitable<void> write(const std::vector<unsigned char>& frame) {
    co_await net::async_write(*stream_, net::buffer(frame), net::use_awaitable);
  }

  net::awaitable<void> begin_answer(unsigned char stream) {
    const std::vector<unsigned char> head{0, 0, 1, headers, end_headers, 0, 0, 0, stream, 0x88};
    const std::vector<unsigned char> part{0, 0, 5, data_frame, 0, 0, 0, 0, stream, 'f', 'i', 'r', 's', 't'};
    co_await write(head);
    co_await write(part);
  }

  net::awaitable<void> take_body(unsigned char stream, unsigned char flags, std::size_t size) {
    bytes_taken += size;
    for (const unsigned char of : {static_cast<unsigned char>(0), stream}) {
      if (size == 0) break;
      const auto byte = [size](int shift) { return static_cast<unsigned char>(size >> shift); };
      const std::vector<unsigned char> more{0, 0, 4, window_update, 0, 0, 0, 0, of, 0, byte(16), byte(8), byte(0)};
      co_await write(more);
    }
    if ((flags & end_stream) == 0) co_return;
    const std::vector<unsigned char> last{0, 0, 4, data_frame, end_stream, 0, 0, 0, stream, 'l', 'a', 's', 't'};
    co_await write(last);
  }

  net::awaitable<void> accept() {
    for (;;) {
      auto socket = co_await acceptor_.async_accept(net::use_awaitable);
      ++connections;
      stream_ = std::make_unique<tls_stream>(std::move(socket), tls_);
      try {
        co_await serve();
      } catch (const std::system_error&) {
        ++closed;
      }
    }
  }

  net::awaitable<void> serve() {
    co_await stream_->async_handshake(net::ssl::stream_base::server, net::use_awaitable);
    std::vector<unsigned char> data(24);
    co_await net::async_read(*stream_, net::buffer(data), net::use_awaitable);
    const std::vector<unsigned char> ours{0, 0, 0, settings, 0, 0, 0, 0, 0};
    const std::vector<unsigned char> acknowledgement{0, 0, 0, settings, ack, 0, 0, 0, 0};
    co_await write(ours);
    for (;;) {
      unsigned char head[9];
      co_await net::async_read(*stream_, net::buffer(head), net::use_awaitable);
      data.resize(std::size_t{head[0]} << 16 | std::size_t{head[1]} << 8 | head[2]);
      co_await net::async_read(*stream_, net::buffer(data), net::use_awaitable);
      if (head[3] == headers) opened.push_back(head[8]);
      if (head[3] == headers && answers_early) co_await begin_answer(head[8]);
      if (head[3] == data_frame && answers_early) co_await take_body(head[8], head[4], data.size());
      if (head[3] == rst_stream) reset_.push_back(head[8]);
      if (head[3] == settings && head[4] == 0) co_await write(acknowledgement);
    }
  }

  temporary_folder folder_;
  net::ssl::context tls_{net::ssl::context::tls_server};
  net::ip::tcp::acceptor acceptor_;
  std::unique_ptr<tls_stream> stream_;
  std::vector<std::uint32_t> reset_;
};

}  // namespace

TEST_CASE("the server of a cancelled HTTP/2 request hears of it at once, and the others go on") {
  net::io_context io;
  http2_server server{io};
  http::client client{io, {.ca_file = server.certificate(), .proxy = ""}};
  const auto run_until = [&](auto done) {
    while (!done()) io.run_one();
  };
  const auto begin = [&](net::cancellation_signal& signal, std::optional<std::error_code>& end) {
    const std::size_t before = server.opened.size();
    client.async_send(http::request{server.url()}.with_timeout(std::chrono::seconds{60}),
                      net::bind_cancellation_slot(signal.slot(), [&](std::error_code ec, const http::response& r) {
                        end = ec;
                        if (!ec) CHECK(r.status == 200);
                      }));
    run_until([&] { return server.opened.size() > before; });
  };
  const auto answer = [&](std::uint32_t stream) { net::co_spawn(io, server.answer(stream), net::detached); };
  net::cancellation_signal first_signal, second_signal, third_signal;
  std::optional<std::error_code> warm, first, second, third;
  begin(first_signal, warm);
  answer(server.opened.back());
  run_until([&] { return warm.has_value(); });
  CHECK(!*warm);

  begin(first_signal, first);
  begin(second_signal, second);
  CHECK(server.connections == 1);
  first_signal.emit(net::cancellation_type::total);
  run_until([&] { return (first && server.has_reset(server.opened[1])) || server.closed > 0 || second; });
  CHECK(first == net::error::operation_aborted);
  CHECK(server.has_reset(server.opened[1]));
  CHECK_FALSE(server.has_reset(server.opened[2]));
  CHECK(server.closed == 0);
  CHECK_FALSE(second);
  answer(server.opened.back());
  run_until([&] { return second.has_value(); });
  CHECK(!*second);

  begin(third_signal, third);  // by itself
  CHECK(server.connections == 1);
  third_signal.emit(net::cancellation_type::total);
  run_until([&] { return third && (server.has_reset(server.opened[3]) || server.closed > 0); });
  CHECK(third == net::error::operation_aborted);
}

TEST_CASE("an answer that begins during an upload over HTTP/2 does not stop it") {
  constexpr std::size_t size = 300'000;  // more than the server takes without telling that it takes more
  const bool is_announced = GENERATE(true, false);
  const bool decodes = GENERATE(false, true);
  CAPTURE(is_announced, decodes);
  net::io_context io;
  http2_server server{io};
  server.answers_early = true;
  http::client_options o{.version = http::http_version::http2, .ca_file = server.certificate(), .proxy = ""};
  o.decode_body = decodes;
  http::client client{io, o};
  std::string got;
  bool is_over = false;
  const auto send = [&]() -> net::awaitable<void> {
    const std::string body(size, 'x');
    http::request r{"POST", server.url()};
    const std::optional<std::uint64_t> length = is_announced ? std::optional<std::uint64_t>{size} : std::nullopt;
    http::upload u = client.start_upload(std::move(r), length);
    for (std::size_t at = 0; at < size; at += size / 3) {
      const bool goes_on = co_await u.write(net::buffer(body.data() + at, size / 3));
      CHECK(goes_on);
    }
    http::exchange x = co_await u.finish();
    CHECK(x.head().status == 200);
    char room[3];
    while (const std::size_t n = co_await x.read_some(net::buffer(room))) got.append(room, n);
  };
  net::co_spawn(io, send(), [&](const std::exception_ptr& failed) {
    CHECK_FALSE(failed);
    is_over = true;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!is_over && std::chrono::steady_clock::now() < end) io.run_one_for(std::chrono::seconds{1});
  CHECK(is_over);
  CHECK(got == "firstlast");
  CHECK(server.bytes_taken == size);
}

TEST_CASE("an upload over HTTP/2 whose answer has begun is reset if it goes, is cancelled or stopped") {
  enum class end { goes, is_cancelled, is_stopped };
  const end how = GENERATE(end::goes, end::is_cancelled, end::is_stopped);
  const bool decodes = GENERATE(false, true);
  CAPTURE(static_cast<int>(how), decodes);
  net::io_context io;
  http2_server server{io};
  server.answers_early = true;
  http::client_options o{.version = http::http_version::http2, .ca_file = server.certificate(), .proxy = ""};
  o.decode_body = decodes;
  http::client client{io, o};
  std::optional<std::error_code> result;
  bool is_there = false;
  net::cancellation_signal signal;
  const std::string part(100'000, 'x');
  const auto work = [&]() -> net::awaitable<void> {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    try {
      http::upload u = client.start_upload({"POST", server.url()});
      for (int i = 0; i < 3; ++i) co_await u.write(net::buffer(part));
      is_there = true;
      if (how == end::goes) {
        result.emplace();
        co_return;
      }
      while (co_await u.write(net::buffer(part))) {
      }
    } catch (const std::system_error& e) {
      result = e.code();
    }
  };
  net::co_spawn(io, work(), net::bind_cancellation_slot(signal.slot(), net::detached));
  while (!is_there) io.run_one();
  for (int i = 0; i < 20; ++i) io.poll_one();
  if (how == end::is_cancelled) signal.emit(net::cancellation_type::total);
  if (how == end::is_stopped) client.stop();
  while (!result || (!server.has_reset(server.opened[0]) && server.closed == 0)) io.run_one();
  const std::error_code expected = how == end::goes           ? std::error_code{}
                                   : how == end::is_cancelled ? net::error::operation_aborted
                                                              : make_error_code(canigo::errc::stopped);
  CHECK(*result == expected);
  CHECK(client.stats().running == 0);
}

TEST_CASE("an unclean idle TLS connection is replaced, and the request sent once") {
  net::io_context io;
  temporary_folder folder;
  make_certificate(folder / "key", folder / "certificate");
  net::ssl::context tls{net::ssl::context::tls_server};
  tls.use_private_key_file(folder / "key", net::ssl::context::pem);
  tls.use_certificate_file(folder / "certificate", net::ssl::context::pem);
  net::ip::tcp::acceptor acceptor{io, {net::ip::make_address("127.0.0.1"), 0}};
  int connections = 0, requests = 0;
  bool said = false;
  const auto serve_one = [&](net::ip::tcp::socket socket) -> net::awaitable<void> {
    net::ssl::stream<net::ip::tcp::socket> stream{std::move(socket), tls};
    co_await stream.async_handshake(net::ssl::stream_base::server, net::use_awaitable);
    const bool is_first = ++connections == 1;
    std::string text;
    for (;;) {
      const auto n = co_await net::async_read_until(stream, net::dynamic_buffer(text), "\r\n\r\n", net::use_awaitable);
      text.erase(0, n);
      ++requests;
      const std::string reply = is_first ? ok("first") : ok("second");
      co_await net::async_write(stream, net::buffer(reply), net::use_awaitable);
      if (!is_first) continue;
      const std::string unasked = ok("forged");
      co_await net::async_write(stream, net::buffer(unasked), net::use_awaitable);
      for (int unacknowledged = 1; unacknowledged != 0;) {
        co_await net::post(net::use_awaitable);
        if (::ioctl(stream.next_layer().native_handle(), SIOCOUTQ, &unacknowledged) != 0) break;
      }
      said = true;
    }
  };
  const auto accept_all = [&]() -> net::awaitable<void> {
    for (;;) net::co_spawn(io, serve_one(co_await acceptor.async_accept(net::use_awaitable)), net::detached);
  };
  net::co_spawn(io, accept_all(), net::detached);
  http::client client{io, {.ca_file = folder / "certificate", .proxy = ""}};
  const std::string url = "https://localhost:" + std::to_string(acceptor.local_endpoint().port()) + "/";
  const auto ask = [&](http::request r) {
    std::optional<http::response> got;
    client.async_send(std::move(r), [&](std::error_code ec, http::response answer) {
      CHECK(!ec);
      got = std::move(answer);
    });
    while (!got) io.run_one();
    return *got;
  };
  CHECK(ask({url}).body == "first");
  while (!said) io.run_one();
  const auto r = ask(http::request{"POST", url}.with_header("Connection", "keep-alive"));
  CHECK(r.body == "second");
  CHECK(r.resends == 0);
  CHECK(requests == 2);
}
