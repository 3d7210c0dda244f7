#include "canigo/http/client.hpp"

#include "canigo/error.hpp"
#include "canigo/http/public_address.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/rate.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"
#include "support/said_by.hpp"
#include "support/timeout_rule.hpp"

#include <asio/bind_executor.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace http_test;
using namespace std::chrono_literals;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

const http::client_options direct{.proxy = ""};

http::client_options with(auto change) {
  http::client_options o = direct;
  change(o);
  return o;
}

/// Sends the request back as the body, and its method, for that is what HEAD can see, in a header.
scripted_server::script echo() {
  return [](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string method = request.substr(0, request.find(' '));
      std::string reply = ok(request, "X-Method: " + method + "\r\n");
      if (method == "HEAD") reply.resize(reply.find("\r\n\r\n") + 4);
      co_await p.send(reply);
    }
  };
}

/// The environment without these names, as long as this lives.
class environment_without {
 public:
  environment_without(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const char* value = std::getenv(name);
      saved_.emplace_back(name, value != nullptr ? std::optional<std::string>{value} : std::nullopt);
      unsetenv(name);
    }
  }
  environment_without(const environment_without&) = delete;
  environment_without& operator=(const environment_without&) = delete;
  ~environment_without() {
    for (const auto& [name, value] : saved_) value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("a request gets its response") {
  scripted_server server{answer(ok("hello", "Content-Type: text/plain\r\nSet-Cookie: a\r\nset-cookie:  b \r\n"))};
  net::io_context io;
  http::client client{io, direct};
  const http::response r = run_to_end(io, client.get(server.url("/path")));
  CHECK(r.status == 200);
  CHECK(r.body == "hello");
  CHECK(r.headers.find("content-type") == std::string_view{"text/plain"});
  CHECK(r.headers.find_all("Set-Cookie") == std::vector<std::string_view>{"a", "b"});
  CHECK(r.url == server.url("/path"));
  CHECK(r.redirects == 0);
  CHECK_FALSE(r.reused);
  CHECK(r.timing.connected > 0ns);
  CHECK(r.timing.first_byte >= r.timing.connected);
  CHECK(r.timing.total >= r.timing.first_byte);
  CHECK(r.timing.secured == 0ns);
}

TEST_CASE("a scheme may be written in capitals") {
  scripted_server server{answer(ok("hello"))};
  net::io_context io;
  http::client client{io, direct};
  CHECK(run_to_end(io, client.get("HTTP" + server.url().substr(4))).body == "hello");
}

TEST_CASE("an idle client does not keep the loop running, and works again later") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, direct};
  for (int i = 0; i < 3; ++i) {
    const http::response r = run_to_end(io, client.get(server.url()));  // returns when nothing is left to do
    CHECK(r.reused == (i > 0));
  }
  CHECK(server.connections() == 1);
  CHECK(client.stats().finished == 3);
}

TEST_CASE("method, headers and body arrive as they were given") {
  scripted_server server{echo()};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.user_agent = "tester/1"; })};

  // The natural spelling, with temporaries inside the co_await expression: g++ 12 destroys those of aggregates twice.
  const auto sent = [&]() -> net::awaitable<http::response> {
    co_return co_await client.send(
        http::request{"POST", server.url("/a?b=c")}
            .with_header("X-Long-Enough-To-Be-Allocated", "and a value that is long enough, too")
            .with_header("X-Empty", "")
            .with_body("a body that does not fit into the string itself")
            .with_timeout(10s));
  };
  const auto r = run_to_end(io, sent());
  CHECK(r.body.starts_with("POST /a?b=c HTTP/1.1\r\n"));
  CHECK(has(r.body, "\r\nX-Long-Enough-To-Be-Allocated: and a value that is long enough, too\r\n"));
  CHECK(has(r.body, "\r\nX-Empty:\r\n"));
  CHECK(has(r.body, "\r\nUser-Agent: tester/1\r\n"));
  CHECK(r.body.ends_with("\r\n\r\na body that does not fit into the string itself"));
  CHECK_FALSE(has(r.body, "Content-Type"));
  CHECK_FALSE(has(r.body, "Expect"));

  http::client nameless{io, with([](auto& o) { o.user_agent = ""; })};
  auto post = http::request{"POST", server.url()}.with_body("{}");
  post.with_header("content-type", "application/json").with_header("Expect", "100-continue");
  const auto own = run_to_end(io, nameless.send(std::move(post)));
  CHECK(has(own.body, "\r\ncontent-type: application/json\r\n"));
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    const auto empty = run_to_end(io, client.send(http::request{method, server.url()}));
    CHECK(has(empty.body, "\r\nContent-Length: 0\r\n"));
    CHECK_FALSE(has(empty.body, "Content-Type"));
  }
  CHECK(has(own.body, "\r\nExpect: 100-continue\r\n"));
  CHECK_FALSE(has(own.body, "User-Agent"));
}

TEST_CASE("a target is sent as it is, and leaves nothing behind for the next request") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string reply = request.starts_with("GET /../x ")
                                    ? "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
                                    : ok(request.substr(0, request.find("\r\n")));
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client client{io, direct};
  const auto send = [&](http::request r, std::string target) {
    r.target = std::move(target);
    return run_to_end(io, client.send(std::move(r)));
  };
  CHECK(send(server.url("/a?b"), "").body == "GET /a?b HTTP/1.1");
  CHECK(send({"OPTIONS", server.url("/a?b")}, "*").body == "OPTIONS * HTTP/1.1");
  CHECK(send(server.url("/a?b"), "/c/../d").body == "GET /c/../d HTTP/1.1");
  const auto moved = send(server.url("/a"), "/../x");
  CHECK(moved.status == 302);
  CHECK(moved.redirect == server.url("/there"));
  CHECK(send(server.url("/a?b"), "").body == "GET /a?b HTTP/1.1");
  CHECK(server.connections() == 1);
  for (const char* bad : {"/ HTTP/1.1\r\nX: y", "/a b", "/\x7f", "/\xc3\xa4"}) {
    http::request r{server.url()};
    r.target = bad;
    const std::string text = text_of(io, client.send(r));
    CHECK(has(text, "request.target is (hidden); allowed: visible characters of ASCII"));
  }
}

TEST_CASE("HTTP/2 is spoken from the first byte only if the client is told so") {
  std::string first;
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    first = co_await p.request();
    co_await p.send(ok("x"));
  }};
  net::io_context io;
  for (const auto version : {http::http_version::negotiated, http::http_version::http1}) {
    http::client client{io, with([&](auto& o) { o.version = version; })};
    CHECK(run_to_end(io, client.get(server.url())).body == "x");
    CHECK(first.starts_with("GET / HTTP/1.1\r\n"));
    CHECK_FALSE(has(first, "Upgrade"));
  }
  http::client client{io, with([](auto& o) { o.version = http::http_version::http2; })};
  CHECK(error_of(io, client.get(server.url())));  // what the server says is not HTTP/2
  CHECK(first == "PRI * HTTP/2.0\r\n\r\n");
}

TEST_CASE("a request that names its own agent is sent with that one alone") {
  scripted_server server{echo()};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.user_agent = "tester/1"; })};
  const auto lines = [&](http::request q) {
    const std::string text = run_to_end(io, client.send(std::move(q))).body;
    std::vector<std::string> found;
    for (auto at = text.find("\r\nUser-Agent:"); at != text.npos; at = text.find("\r\nUser-Agent:", at + 1)) {
      found.push_back(text.substr(at + 2, text.find("\r\n", at + 2) - at - 2));
    }
    return found;
  };
  using list = std::vector<std::string>;
  CHECK(lines({server.url()}) == list{"User-Agent: tester/1"});
  CHECK(lines(http::request{server.url()}.with_header("X-Other", "1")) == list{"User-Agent: tester/1"});
  CHECK(lines(http::request{server.url()}.with_header("user-agent", "own")).empty());  // spelled as it was given
  CHECK(lines(http::request{server.url()}.with_header("User-Agent", "own")) == list{"User-Agent: own"});
  CHECK(lines({server.url()}) == list{"User-Agent: tester/1"});
}

TEST_CASE("the proxy of the environment is used by clients made while it names one, and told the agent") {
  const environment_without clean{"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
  scripted_server proxy{echo()};
  scripted_server server{echo()};
  net::io_context io;
  http::client_options options = with([](auto& o) { o.user_agent = "tester/1"; });
  options.proxy.reset();
  http::client before{io, options};
  setenv("http_proxy", proxy.url().c_str(), 1);
  http::client meanwhile{io, options};
  setenv("no_proxy", "127.0.0.1", 1);

  const auto through = run_to_end(io, meanwhile.get("http://elsewhere.test/x"));
  CHECK(through.body.starts_with("GET http://elsewhere.test/x HTTP/1.1\r\n"));
  CHECK(has(through.body, "\r\nUser-Agent: tester/1\r\n"));
  const auto excepted = run_to_end(io, meanwhile.get(server.url("/y")));
  CHECK(excepted.body.starts_with("GET /y HTTP/1.1\r\n"));
  CHECK(has(excepted.body, "\r\nUser-Agent: tester/1\r\n"));
  unsetenv("no_proxy");
  const auto straight = run_to_end(io, before.get(server.url("/z")));
  CHECK(straight.body.starts_with("GET /z HTTP/1.1\r\n"));
  CHECK(has(straight.body, "\r\nUser-Agent: tester/1\r\n"));
}

TEST_CASE("each method is sent as itself, and leaves nothing behind for the next on the same handle") {
  scripted_server server{echo()};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.connections = 1; })};
  const auto method_of = [&](http::request q) {
    return std::string{*run_to_end(io, client.send(std::move(q))).headers.find("X-Method")};
  };
  CHECK(method_of({"PUT", server.url()}) == "PUT");
  CHECK(method_of({"HEAD", server.url()}) == "HEAD");
  CHECK(method_of({"POST", server.url()}) == "POST");
  CHECK(method_of({server.url()}) == "GET");
  CHECK(method_of(http::request{"PATCH", server.url()}.with_body("x")) == "PATCH");
  CHECK(method_of({"PATCH", server.url()}) == "PATCH");
  CHECK(method_of({"DELETE", server.url()}) == "DELETE");
  CHECK(method_of({"HEAD", server.url()}) == "HEAD");
  CHECK(method_of(http::request{"PROPFIND", server.url()}.with_header("Depth", "1")) == "PROPFIND");
  const auto r = run_to_end(io, client.get(server.url()));
  CHECK(r.body.starts_with("GET / HTTP/1.1\r\n"));
  CHECK_FALSE(has(r.body, "Content-Length"));
  CHECK_FALSE(has(r.body, "Depth"));
}

TEST_CASE("what can't be sent is refused with a word about it") {
  net::io_context io;
  http::client client{io, direct};
  const auto refused = [&](http::request q) { return error_of(io, client.send(std::move(q))); };
  const std::string url = "http://127.0.0.1:9/";
  CHECK(refused({"", url}) == errc::invalid_argument);
  CHECK(refused({"GET /\r\nX: y", url}) == errc::invalid_argument);
  for (const char c : {'{', '[', '@', ':', '/', '\x80'}) {
    CHECK(refused({std::string{"X"} + c, url}) == errc::invalid_argument);
  }
  CHECK(refused({"M-SEARCH9", url}) == http::error::could_not_connect);
  CHECK(refused(http::request{url}.with_header("A", "b\r\nC: d")) == errc::invalid_argument);
  CHECK(refused(http::request{url}.with_header("A\r\nB", "c")) == errc::invalid_argument);
  CHECK(refused(http::request{url}.with_header("", "c")) == errc::invalid_argument);
  CHECK(refused(http::request{url}.with_body("GET has none")) == errc::invalid_argument);
  CHECK(refused(http::request{""}) == http::error::malformed_url);
  CHECK(refused(http::request{"example"}) == http::error::malformed_url);
  CHECK(refused(http::request{"http://"}) == http::error::malformed_url);
  CHECK(refused(http::request{"http://a b/"}) == http::error::malformed_url);
  CHECK(refused(http::request{"http://host:99999/"}) == http::error::malformed_url);
  CHECK(refused(http::request{"http://[::1/"}) == http::error::malformed_url);
  CHECK(refused(http::request{std::string{"http://127.0.0.1\0.example/", 26}}) == http::error::malformed_url);
  CHECK(refused(http::request{"file:///etc/passwd"}) == http::error::unsupported_protocol);
  CHECK(refused(http::request{"gopher://127.0.0.1/"}) == http::error::unsupported_protocol);
  CHECK(refused(http::request{"go pher://127.0.0.1/"}) == http::error::malformed_url);
  CHECK(client.stats().waiting + client.stats().running == 0);
}

TEST_CASE("what is refused is named, and no secret is shown") {
  net::io_context io;
  http::client client{io, direct};
  const auto words = [&](http::request q) -> std::string {
    // A handler is told the same without the words.
    client.async_send(q, [](std::error_code ec, const http::response&) { CHECK(ec == errc::invalid_argument); });
    try {
      run_to_end(io, client.send(std::move(q)));
      return "sent";
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return said_by(e);
    }
  };
  const std::string url = "http://127.0.0.1:9/";
  CHECK(has(words({"GE T", url}), "request.method is GE T; allowed: "));
  CHECK(has(words({"CONNECT", url}), "request.method is CONNECT; allowed: "));
  CHECK(has(words(http::request{url}.with_body("1234")), "request.body is 4 bytes; allowed: none with GET"));
  CHECK(has(words(http::request{url}.with_header("A B", "c")), "request.headers: a name is A B; allowed: "));
  const auto cut = words(http::request{url}.with_header("Authorization", "secret\r\nX: y"));
  CHECK(has(cut, "request.headers: Authorization is (hidden); allowed: no line break"));
  CHECK_FALSE(has(cut, "secret"));
  for (const char* name : {"Content-Length", "content-length", "CONTENT-LENGTH"}) {
    const auto text = words(http::request{"POST", url}.with_header(name, "3").with_body("12345"));
    CHECK(has(text, "request.headers: " + std::string{name} + " is 3; allowed: not to be given"));
  }
  CHECK(has(words(http::request{"POST", url}.with_header("Transfer-Encoding", "chunked")),
            "request.headers: Transfer-Encoding is chunked; allowed: not to be given"));
}

TEST_CASE("options outside their range are named") {
  const environment_without none{"https_proxy"};
  net::io_context io;
  const auto text_of = [&](http::client_options o) -> std::string {
    try {
      http::client client{io, o};
      return "accepted";
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return said_by(e);
    }
  };
  CHECK(has(text_of({.connections = 0}), "client_options.connections is 0; allowed: 1 to 65536"));
  CHECK(has(text_of({.connections = 65537}), "client_options.connections is 65537"));
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{65537}}) {
    CHECK(
        has(text_of({.connections_per_host = wrong}),
            "client_options.connections_per_host is " + std::to_string(wrong) + "; allowed: 1 to 65536, or unlimited"));
  }
  CHECK(has(text_of({.connect_timeout = 0s}), "client_options.connect_timeout is 0s"));
  CHECK(has(text_of({.timeout = -1s}), "client_options.timeout is -1s"));
  CHECK(has(text_of({.max_redirects = -1}), "client_options.max_redirects is -1"));
  CHECK(has(text_of({.max_redirects = 101}), "client_options.max_redirects is 101"));
  CHECK(has(text_of({.user_agent = "a\r\nX-Injected: 1"}),
            "client_options.user_agent is a??X-Injected: 1; allowed: no line break"));
  CHECK(text_of({.timeout = canigo::duration::max()}) == "accepted");
  CHECK(has(text_of({.unix_socket = std::string(108, 'x')}), "allowed: up to 107 bytes, none of them zero"));
  CHECK(has(text_of({.unix_socket = std::string("a\0b", 3)}), "client_options.unix_socket is "));
  CHECK(has(text_of({.proxy = "http://me:secret@127.0.0.1:1", .unix_socket = "/x"}),
            "client_options.proxy is (hidden); allowed: none beside unix_socket"));
  const auto here = net::ip::make_address("127.0.0.1");
  for (const char* host : {"", "a:b", "-a", "*", "+a", "a,b", "a\r\nb"}) {
    CHECK(has(text_of({.known_addresses = {{host, 80, here}}}), "client_options.known_addresses: a host is "));
  }
  CHECK(has(text_of({.known_addresses = {{"a", 0, here}}}),
            "client_options.known_addresses: a port is 0; allowed: 1 to 65535"));
  CHECK(has(text_of({.version = static_cast<http::http_version>(3)}),
            "client_options.version is 3; allowed: negotiated, http1, http2"));
  CHECK(text_of({.proxy = "http://me:secret@127.0.0.1:1", .allow_address = &http::is_public}) ==
        "client_options.proxy is (hidden); allowed: empty with allow_address, as a proxy resolves names itself: "
        "invalid argument");
  setenv("https_proxy", "http://127.0.0.1:1", 1);
  CHECK(
      has(text_of({.allow_address = &http::is_public}), "client_options.proxy is that of the environment; allowed: "));
  unsetenv("https_proxy");
  CHECK(text_of({.proxy = "", .allow_address = &http::is_public}) == "accepted");
}

TEST_CASE("a server that is not there can't be connected to") {
  unsigned short port = 0;
  {
    net::io_context io;
    net::ip::tcp::acceptor closed_again{io, {net::ip::make_address("127.0.0.1"), 0}};
    port = closed_again.local_endpoint().port();
  }
  net::io_context io;
  http::client client{io, direct};
  CHECK(error_of(io, client.get("http://127.0.0.1:" + std::to_string(port) + "/")) == http::error::could_not_connect);
}

TEST_CASE("a name that nobody has can't be resolved") {
  net::io_context io;
  http::client client{io, direct};
  CHECK(error_of(io, client.get("http://no-such-host.invalid/")) == http::error::could_not_resolve_host);
}

TEST_CASE("the text of an error begins with the host, and has nothing else of the URL") {
  scripted_server hangs_up{[](peer& p) -> net::awaitable<void> { co_await p.request(); }};
  scripted_server leads_on{
      answer("HTTP/1.1 302 Found\r\nLocation: http://me:secret@127.0.0.1:1/secret\r\n"
             "Content-Length: 0\r\n\r\n")};
  net::io_context io;
  http::client client{io, direct};
  const auto text = [&](const std::string& url) {
    http::response got;
    client.async_send(url, [&](std::error_code ec, http::response r) {
      CHECK(ec);
      got = std::move(r);
    });
    io.restart();
    io.run();
    return got.problem;
  };
  const std::string port = std::to_string(hangs_up.port());
  CHECK(text("http://me:secret@127.0.0.1:" + port + "/secret?secret#secret") == "at 127.0.0.1:" + port);
  CHECK(text("HTTP://No-Such-Host.Invalid:80/secret") == "at no-such-host.invalid");
  CHECK(text("http://no-such-host.invalid:8080") == "at no-such-host.invalid:8080");
  CHECK(text(leads_on.url()) == "at 127.0.0.1:1");  // where it was led
  CHECK(text("http://a b/secret").empty());
  CHECK(text("ftp://secret/").empty());
}

TEST_CASE("a response may come byte by byte") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    p.socket.set_option(net::ip::tcp::no_delay{true});
    co_await p.request();
    for (const char c : ok("slowly", "A: b\r\n")) co_await p.send({&c, 1});
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, direct};
  const auto r = run_to_end(io, client.get(server.url()));
  CHECK(r.body == "slowly");
  CHECK(r.headers.find("A") == std::string_view{"b"});
}

TEST_CASE("a chunked response is put together, with its trailers") {
  scripted_server server{answer(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 7\r\n\r\n")};
  net::io_context io;
  http::client client{io, direct};
  const auto r = run_to_end(io, client.get(server.url()));
  CHECK(r.body == "hello world");
  CHECK(r.headers.find("x-sum") == std::string_view{"7"});
}

TEST_CASE("interim responses are not the response") {
  scripted_server server{answer("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok("x", "A: b\r\n"))};
  net::io_context io;
  http::client client{io, direct};
  const auto r = run_to_end(io, client.get(server.url()));
  CHECK(r.status == 200);
  CHECK_FALSE(r.headers.contains("Link"));
}

TEST_CASE("a folded header line is one value") {
  scripted_server server{answer(ok("x", "A: b\r\n  c\r\n\td\r\n"))};
  net::io_context io;
  http::client client{io, direct};
  CHECK(run_to_end(io, client.get(server.url())).headers.find("A") == std::string_view{"b c d"});
}

TEST_CASE("odd header lines are taken for what they can be") {
  scripted_server server{answer(ok("x", "A: b\r\n \r\nB:\r\n"))};
  net::io_context io;
  http::client client{io, direct};
  const auto r = run_to_end(io, client.get(server.url()));
  CHECK(r.headers.find("A") == std::string_view{"b"});
  CHECK(r.headers.find("B") == std::string_view{""});

  scripted_server folded{answer(ok("x", "A:\r\n b\r\n"))};
  CHECK(run_to_end(io, client.get(folded.url())).headers.find("A") == std::string_view{"b"});

  scripted_server shapeless{answer(ok("x", "No colon\r\n"))};
  CHECK(error_of(io, client.get(shapeless.url())) == http::error::weird_server_reply);

  scripted_server bare{answer("HTTP/1.1 200 OK\nContent-Length: 1\nA: b\n\nx")};  // line ends without a \r
  const auto b = run_to_end(io, client.get(bare.url()));
  CHECK(b.body == "x");
  CHECK(b.headers.find("A") == std::string_view{"b"});
}

TEST_CASE("a server that closes midway is an error, each in its way") {
  std::string text;
  SECTION("without a word") {
    scripted_server server{[](peer& p) -> net::awaitable<void> { co_await p.request(); }};
    net::io_context io;
    http::client client{io, direct};
    CHECK(error_of(io, client.get(server.url())) == http::error::no_response);
  }
  SECTION("in the head") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\nContent-Le");
    }};
    net::io_context io;
    http::client client{io, direct};
    CHECK(error_of(io, client.get(server.url())) == http::error::partial_response);
  }
  SECTION("in the body: what came so far is there") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
    }};
    net::io_context io;
    http::client client{io, direct};
    std::error_code error;
    http::response got;
    client.async_send(http::request{server.url()}, [&](std::error_code ec, http::response r) {
      error = ec;
      got = std::move(r);
    });
    io.run();
    CHECK(error == http::error::partial_response);
    CHECK(got.status == 200);
    CHECK(got.body == "part");
  }
  SECTION("in a chunk") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\npart");
    }};
    net::io_context io;
    http::client client{io, direct};
    CHECK(error_of(io, client.get(server.url())) == http::error::partial_response);
  }
}

TEST_CASE("a connection that the server closed while it was idle is replaced") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(ok("x"));
  }};
  net::io_context io;
  http::client client{io, direct};
  for (int i = 0; i < 5; ++i) {
    CHECK(run_to_end(io, client.get(server.url())).status == 200);
    while (server.open() != 0) std::this_thread::yield();
  }
  CHECK(server.connections() == 5);
}

TEST_CASE("what is not HTTP is refused") {
  scripted_server server{answer("220 mail.example ESMTP\r\n\r\n")};
  net::io_context io;
  http::client client{io, direct};
  CHECK(error_of(io, client.get(server.url())).category() == http::error_category());
}

TEST_CASE("a status that is none is no success") {
  for (const char* status : {"2", "99", "1000", "2000"}) {
    scripted_server server{answer("HTTP/2 " + std::string{status} + "\r\nContent-Length: 0\r\n\r\n")};
    net::io_context io;
    http::client client{io, direct};
    INFO(status);
    CHECK(error_of(io, client.get(server.url())) == http::error::weird_server_reply);
  }
}

TEST_CASE("a response over the bound is too large") {
  const auto tight = with([](auto& o) { o.max_body = 10; });
  net::io_context io;
  const std::string too_large = ": " + make_error_code(errc::too_large).message();
  const std::string body = "the body has more than client_options.max_body, 10 bytes" + too_large;
  const std::string fields = "the header fields have more than client_options.max_headers, 65536 bytes" + too_large;
  SECTION("announced") {
    scripted_server server{answer(ok("12345678901"))};
    http::client client{io, tight};
    CHECK(text_of(io, client.get(server.url())) == body);
  }
  SECTION("in chunks") {
    scripted_server server{
        answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n3\r\nabc\r\n0\r\n\r\n")};
    http::client client{io, tight};
    CHECK(text_of(io, client.get(server.url())) == body);
  }
  SECTION("without end") {
    scripted_server server{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\n\r\n");
      for (;;) co_await p.send("0123456789");
    }};
    http::client client{io, tight};
    CHECK(text_of(io, client.get(server.url())) == body);
  }
  SECTION("just inside is fine, and what HEAD announces is no body") {
    scripted_server exact{answer(ok("1234567890"))};
    scripted_server head{answer("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")};
    http::client client{io, tight};
    CHECK(run_to_end(io, client.get(exact.url())).body == "1234567890");
    CHECK(run_to_end(io, client.send(http::request{"HEAD", head.url()})).status == 200);
  }
  SECTION("headers beyond what libcurl accepts itself") {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += "A: " + std::string(10'000, 'a') + "\r\n";
    const bool decodes = GENERATE(false, true);  // but there is no body yet
    const auto roomy = with([decodes](auto& o) {
      o.max_headers = 1 << 20;
      o.decode_body = decodes;
    });
    for (const std::string& head : {lines, "A: " + std::string(300'000, 'a') + "\r\n"}) {
      scripted_server server{answer(ok("x", head))};
      http::client client{io, roomy};
      CHECK(text_of(io, client.get(server.url())) ==
            "the header fields, or one of their lines, are longer than libcurl accepts" + too_large);
    }
  }
  SECTION("headers in one response, or without end") {
    scripted_server server{answer(ok("x", "A: " + std::string(70'000, 'a') + "\r\n"))};
    scripted_server endless{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send("HTTP/1.1 200 OK\r\n");
      for (;;) co_await p.send("X-Header: value\r\n");
    }};
    scripted_server interim{[](peer& p) -> net::awaitable<void> {
      co_await p.request();
      for (;;) co_await p.send("HTTP/1.1 102 Processing\r\nX: y\r\n\r\n");
    }};
    http::client client{io, direct};
    CHECK(text_of(io, client.get(server.url())) == fields);
    CHECK(text_of(io, client.get(endless.url())) == fields);
    CHECK(text_of(io, client.get(interim.url())) == fields);
  }
}

TEST_CASE("a response that is too large leaves nothing behind for the next one") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      if (has(request, " /body ")) {
        co_await p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n3\r\nabc\r\n0\r\n\r\n");
      } else if (has(request, " /fields ")) {
        co_await p.send(ok("x", "A: " + std::string(70'000, 'a') + "\r\n"));
      } else {
        co_await p.send(ok("fine"));
      }
    }
  }};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.max_body = 10; })};
  const auto said = [&](const char* path) { return text_of(io, client.get(server.url(path))); };
  for (int i = 0; i < 2; ++i) {
    CHECK(has(said("/body"), "client_options.max_body, 10 bytes"));
    CHECK(has(said("/fields"), "client_options.max_headers, 65536 bytes"));
    CHECK(said("/fine").empty());
    CHECK(has(said("/fields"), "client_options.max_headers, 65536 bytes"));
    CHECK(has(said("/body"), "client_options.max_body, 10 bytes"));
    const auto r = run_to_end(io, client.get(server.url("/fine")));
    CHECK(r.body == "fine");
    CHECK(r.problem.empty());
  }
}

TEST_CASE("a server that refuses an upload midway is heard") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(ok("x"));
    std::string head;
    co_await net::async_read_until(p.socket, net::dynamic_buffer(head), "\r\n\r\n", net::use_awaitable);
    co_await p.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
    co_await p.linger();
  }};
  net::io_context io;
  http::client client{io, direct};
  CHECK(run_to_end(io, client.get(server.url())).status == 200);
  auto upload = http::request{"POST", server.url()}.with_body(std::string(16 << 20, 'x'));
  const auto r = run_to_end(io, client.send(std::move(upload)));
  CHECK(r.status == 413);
  CHECK(r.body == "no!");
  CHECK(r.reused);
}

TEST_CASE("redirects are followed, up to the bound") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      if (has(request, " /start ")) {
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: /end\r\nContent-Length: 4\r\nX-Hop: 1\r\n\r\nhop!");
      } else if (has(request, " /loop ")) {
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n");
      } else if (has(request, " /file ")) {
        co_await p.send("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n");
      } else {
        co_await p.send(ok(request.substr(0, request.find(' '))));
      }
    }
  }};
  net::io_context io;
  http::client client{io, direct};
  const auto r = run_to_end(io, client.get(server.url("/start")));
  CHECK(r.status == 200);
  CHECK(r.body == "GET");
  CHECK(r.redirects == 1);
  CHECK(r.url == server.url("/end"));
  CHECK_FALSE(r.headers.contains("X-Hop"));

  CHECK(error_of(io, client.get(server.url("/loop"))) == http::error::too_many_redirects);
  CHECK(error_of(io, client.get(server.url("/file"))) == http::error::unsupported_protocol);
  CHECK(run_to_end(io, client.send(http::request{"POST", server.url("/start")}.with_body("x"))).body == "GET");
  CHECK(run_to_end(io, client.send(http::request{"DELETE", server.url("/start")})).status == 302);

  http::client strict{io, with([](auto& o) { o.max_redirects = 0; })};
  const auto not_followed = run_to_end(io, strict.get(server.url("/start")));
  CHECK(not_followed.status == 302);
  CHECK(not_followed.redirect == server.url("/end"));
  CHECK(run_to_end(io, strict.get(server.url("/end"))).redirect.empty());
}

TEST_CASE("a body that nobody wants is counted and dropped") {
  scripted_server server{answer(ok("0123456789"))};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.max_body = 10; })};
  http::request r{server.url()};
  r.keep_body = false;
  const auto dropped = run_to_end(io, client.send(r));
  CHECK(dropped.body.empty());
  CHECK(dropped.body_size == 10);
  const auto kept = run_to_end(io, client.get(server.url()));
  CHECK(kept.body == "0123456789");
  CHECK(kept.body_size == 10);

  http::client tight{io, with([](auto& o) { o.max_body = 9; })};
  CHECK(error_of(io, tight.send(r)) == errc::too_large);
}

TEST_CASE("a host's name may have letters that DNS has not, whatever the locale") {
  scripted_server proxy{echo()};
  net::io_context io;
  http::client client{io, with([&](auto& o) { o.proxy = proxy.url(); })};
  for (const char* url : {"http://b\u00fccher.test/\u00fc?\u00fc", "HTTP://B\u00dcCHER.test/\u00fc?\u00fc"}) {
    const auto r = run_to_end(io, client.get(url));
    CHECK(r.body.starts_with("GET http://xn--bcher-kva.test/"));
    CHECK(has(r.body, "\r\nHost: xn--bcher-kva.test\r\n"));
  }
  const auto with_user = run_to_end(io, client.get("http://\u00fcser@example.test:81/"));
  CHECK(has(with_user.body, "\r\nHost: example.test:81\r\n"));
  CHECK(error_of(io, client.get("http://\xff\xfe.test/")) == http::error::malformed_url);
}

TEST_CASE("a URL of any length arrives whole") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    const std::string request = co_await p.request();
    const auto path = request.substr(4, request.find(" HTTP/") - 4);
    co_await p.send(ok(std::to_string(path.size()) + path.substr(path.size() - 4)));
  }};
  net::io_context io;
  http::client client{io, direct};
  for (const std::size_t size : {8'000u, 8'192u, 8'193u, 70'000u, 1'000'000u}) {
    CHECK(run_to_end(io, client.get(server.url("/" + std::string(size - 5, 'x') + "end!"))).body ==
          std::to_string(size) + "end!");
  }
}

TEST_CASE("a proxy that will not connect to the server is told apart from the server") {
  net::io_context io;
  for (const auto& [status, error] :
       {std::pair{"407", http::error::proxy_authentication_required}, std::pair{"403", http::error::proxy_refused},
        std::pair{"502", http::error::proxy_refused}}) {
    scripted_server proxy{answer(std::string{"HTTP/1.1 "} + status + " No\r\nContent-Length: 0\r\n\r\n")};
    http::client client{io, with([&](auto& o) { o.proxy = "http://user:secret@" + proxy.url().substr(7); })};
    CHECK(error_of(io, client.get("https://elsewhere.test/")) == error);
    const std::string said = text_of(io, client.get("https://elsewhere.test/secret"));
    CHECK(said ==
          std::string{"the proxy answered with status "} + status + ": " + http::make_error_code(error).message());
    const std::string text = http::make_error_code(error).message();
    CHECK_FALSE(has(text, "secret"));
  }
  // Without a tunnel it is a response as any.
  scripted_server proxy{answer("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")};
  http::client client{io, with([&](auto& o) { o.proxy = proxy.url(); })};
  CHECK(run_to_end(io, client.get("http://elsewhere.test/")).status == 407);
}

TEST_CASE("no more requests are under way than there are connections") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.connections = 3; })};
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    client.async_send(http::request{server.url()}, [&](std::error_code ec, const http::response& r) {
      CHECK(!ec);
      CHECK(r.status == 200);
      ++done;
    });
  }
  io.run();
  CHECK(done == 100);
  CHECK(server.connections() == 3);
}

TEST_CASE("one host can't take up more connections than its share") {
  scripted_server slow{silence()};
  scripted_server quick{answer(ok("x"))};
  net::io_context io;
  http::client client{io, with([](auto& o) {
                        o.connections = 4;
                        o.connections_per_host = 2;
                      })};
  int aborted = 0;
  for (int i = 0; i < 10; ++i) {
    client.async_send(http::request{slow.url()}, [&](std::error_code ec, const http::response&) {
      CHECK(ec == errc::stopped);
      ++aborted;
    });
  }
  int done = 0;
  for (int i = 0; i < 10; ++i) {
    client.async_send(http::request{quick.url()}, [&](std::error_code ec, const http::response&) {
      CHECK(!ec);
      if (++done == 10) client.stop();
    });
  }
  io.run();
  CHECK(done == 10);
  CHECK(aborted == 10);
  CHECK(slow.peak() <= 2);
  CHECK(quick.peak() <= 2);
}

TEST_CASE("a silent host holds up no healthy one, without any option") {
  scripted_server silent{silence()};
  scripted_server healthy{answer(ok("x"))};
  net::io_context io;
  http::client client{io, direct};
  int ended = 0, done = 0;
  for (int i = 0; i < 300; ++i) {
    const http::request slow = http::request{silent.url()}.with_timeout(1h);
    client.async_send(slow, [&](std::error_code, const http::response&) { ++ended; });
  }
  for (int i = 0; i < 40; ++i) {
    client.async_send(http::request{healthy.url()}, [&](std::error_code ec, const http::response&) {
      CHECK(!ec);
      CHECK(ended == 0);
      if (++done == 40) client.stop();
    });
  }
  io.run();
  CHECK(done == 40);
  CHECK(ended == 300);
  CHECK(silent.peak() <= client.connections_per_host());
  CHECK(healthy.peak() <= client.connections_per_host());
}

TEST_CASE("a client tells how many requests to one host are under way at most") {
  net::io_context io;
  CHECK(http::client{io, direct}.connections_per_host() == 16);
  const auto most = [&](std::size_t all, std::uint64_t of_each) {
    return http::client{io, with([&](auto& o) {
                          o.connections = all;
                          o.connections_per_host = of_each;
                        })}
        .connections_per_host();
  };
  CHECK(most(40, canigo::unlimited) == 40);
  CHECK(most(40, 3) == 3);
  CHECK(most(40, 50) == 40);
}

TEST_CASE("under a cap of the client's own no call takes a token while it waits for a connection") {
  std::atomic<int> open_requests{0}, peak{0};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      co_await p.request();
      const int now = ++open_requests;
      if (now > peak) peak = now;
      net::steady_timer pause{co_await net::this_coro::executor, 20ms};
      co_await pause.async_wait(net::use_awaitable);
      --open_requests;
      co_await p.send(ok("x"));
    }
  }};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.connections_per_host = 2; })};
  canigo::limiter quota{
      io, {.rates = {{canigo::rate::per_second(1'000'000), 100, 100}}, .concurrency = client.connections_per_host()}};
  const auto call = [&]() -> net::awaitable<void> {
    const auto token = co_await quota.acquire();
    const http::response r = co_await client.get(server.url());
    CHECK(r.status == 200);
    CHECK(client.stats().waiting == 0);
  };
  for (int i = 0; i < 20; ++i) net::co_spawn(io, call(), net::detached);
  io.run();
  CHECK(quota.stats().granted == 20);
  CHECK(peak == 2);
}

TEST_CASE("a host is the same whatever its spelling, the user and the path") {
  scripted_server server{silence()};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.connections_per_host = 1; })};
  const std::string port = ":" + std::to_string(server.port());
  int stopped = 0, refused = 0;
  const auto send = [&](const std::string& url) {
    client.async_send(http::request{url}, [&](std::error_code ec, const http::response&) {
      stopped += ec == errc::stopped;
      refused += ec == http::error::malformed_url || ec == http::error::unsupported_protocol;
    });
  };
  for (const char* url : {"http://localhost", "http://user:secret@localhost", "HTTP://LocalHost"}) {
    send(url + port + "/a@b");
  }
  send("no scheme");
  send("a@b://c");
  const auto look = [&]() -> net::awaitable<void> {
    while (server.connections() == 0 || refused < 2) {
      co_await net::post(net::use_awaitable);
    }
    CHECK(client.stats().running == 1);
    CHECK(client.stats().waiting == 2);
    client.stop();
  };
  net::co_spawn(io, look(), net::detached);
  io.run();
  CHECK(stopped == 3);
  CHECK(refused == 2);
}

TEST_CASE("a host is the same with and without the port that its scheme stands for") {
  scripted_server proxy{silence()};
  net::io_context io;
  http::client client{io, with([&](auto& o) {
                        o.connections_per_host = 1;
                        o.proxy = proxy.url();
                      })};
  int stopped = 0;
  for (const char* url : {"http://a.test/", "http://a.test:80/", "https://a.test/", "https://a.test:443/",
                          "http://a.test:443/", "https://a.test:80/"}) {
    client.async_send(http::request{url},
                      [&](std::error_code ec, const http::response&) { stopped += ec == errc::stopped; });
  }
  while (client.stats().running < 4) io.poll();
  CHECK(client.stats().running == 4);
  CHECK(client.stats().waiting == 2);
  client.stop();
  io.restart();
  io.run();
  CHECK(stopped == 6);
}

TEST_CASE("a thousand requests at once from one thread") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, with([](auto& o) {
                        o.connections = 200;
                        o.connections_per_host = 200;
                      })};
  int done = 0;
  for (int i = 0; i < 1000; ++i) {
    client.async_send(http::request{server.url()}, [&](std::error_code ec, const http::response&) { done += !ec; });
  }
  io.run();
  CHECK(done == 1000);
  CHECK(server.connections() <= 200);
}

TEST_CASE("any completion token, any thread, several threads") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, with([](auto& o) { o.connections = 8; })};
  auto guard = net::make_work_guard(io);
  std::vector<std::thread> loops;
  for (int i = 0; i < 4; ++i) loops.emplace_back([&] { io.run(); });
  std::vector<std::thread> callers;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        std::future<http::response> f = client.async_send(http::request{server.url()}, net::use_future);
        done += f.get().status == 200;
      }
    });
  }
  for (auto& t : callers) t.join();
  guard.reset();
  for (auto& t : loops) t.join();
  CHECK(done == 200);
  CHECK(server.connections() <= 8);
}

TEST_CASE("a completion runs on the handler's executor, never inside the call") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  net::io_context other;
  auto strand = net::make_strand(other);
  http::client client{io, direct};
  bool called = false;
  const auto handler = [&](std::error_code ec, const http::response&) {
    CHECK(!ec);
    CHECK(strand.running_in_this_thread());
    called = true;
  };
  client.async_send(http::request{server.url()}, net::bind_executor(strand, handler));
  CHECK_FALSE(called);
  io.run();
  CHECK_FALSE(called);
  other.run();
  CHECK(called);

  called = false;
  client.async_send(http::request{"nonsense"}, [&](std::error_code ec, const http::response&) {
    CHECK(ec == http::error::malformed_url);
    called = true;
  });
  CHECK_FALSE(called);
  io.restart();
  io.run();
  CHECK(called);
}

TEST_CASE("an option of HTTP that is a timeout is more than 0, and max is none") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  check_timeout_option("client_options.connect_timeout",
                       [&](canigo::duration d) { http::client{io, {.connect_timeout = d}}; });
  check_timeout_option("client_options.timeout", [&](canigo::duration d) { http::client{io, {.timeout = d}}; });

  http::client client{io, direct};
  check_timeout_option("request.timeout", [&](canigo::duration d) {
    try {
      run_to_end(io, client.send(http::request{"nonsense"}.with_timeout(d)));
    } catch (const std::system_error& e) {
      if (e.code() != http::error::malformed_url) throw;  // that comes later
    }
  });
  std::error_code error;
  client.async_send(http::request{server.url()}.with_timeout(0s),
                    [&](std::error_code ec, const http::response&) { error = ec; });
  io.restart();
  io.run();
  CHECK(error == errc::invalid_argument);
}

TEST_CASE("a client works on a strand's executor too") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  const auto strand = net::make_strand(io);
  http::client client{strand, direct};
  CHECK(run_to_end(io, client.get(server.url())).status == 200);
  CHECK(client.get_executor() == strand);
}
