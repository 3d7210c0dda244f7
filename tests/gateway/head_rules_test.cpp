#include "gateway/policy/head_rules.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;
using gateway::listen_mode;
using gateway_test::head_of;

namespace {

gateway::head_judgement judge(std::string_view text, listen_mode mode = listen_mode::reverse) {
  static const gateway::size_limits usual;
  // The plan's path would lie in a head that is gone.
  static std::vector<gateway::message_head> kept;
  kept = {head_of(text)};
  return gateway::judge_head(kept[0], mode, usual);
}

/// The status and the words of a refusal; empty: none.
std::string said(const gateway::head_judgement& j) {
  if (!j.refused) return "";
  CHECK(j.refused->error == "bad_request");
  return std::to_string(j.refused->status) + " " + j.refused->detail;
}

const std::string host = "\nHost: a\n";

}  // namespace

TEST_CASE("gateway: a plain request goes, and its plan says how", "[gateway][head]") {
  const auto get = judge("GET /x?y HTTP/1.1" + host);
  CHECK(said(get).empty());
  CHECK((get.plan.form == gateway::target_form::origin && get.plan.path == "/x?y"));
  CHECK((!get.plan.is_chunked && !get.plan.has_length && !get.plan.wants_continue));
  const auto post = judge("POST / HTTP/1.1" + host + "Content-Length: 12\nExpect: 100-Continue\n");
  CHECK(said(post).empty());
  CHECK((post.plan.has_length && post.plan.length == 12 && post.plan.wants_continue));
  const auto chunked = judge("POST / HTTP/1.1" + host + "Transfer-Encoding: Chunked\n");
  CHECK(said(chunked).empty());
  CHECK((chunked.plan.is_chunked && !chunked.plan.has_length));
  const auto empty = judge("POST / HTTP/1.1" + host + "Content-Length: 0\nExpect: 100-continue\n");
  CHECK((said(empty).empty() && empty.plan.has_length && !empty.plan.wants_continue));
  const auto old = judge("GET / HTTP/1.0" + host + "Expect: 100-continue\nContent-Length: 1\n");
  CHECK((said(old).empty() && !old.plan.wants_continue));
}

TEST_CASE("gateway: what two readers could understand differently is a 400", "[gateway][head]") {
  struct row {
    std::string text, why;
  };
  const std::string line = "GET / HTTP/1.1";
  const row rows[] = {
      // Methods.
      {"get / HTTP/1.1" + host, "the method is not in upper case"},
      {"Get / HTTP/1.1" + host, "the method is not in upper case"},
      {"propfind / HTTP/1.1" + host, "the method is not in upper case"},
      {"Za / HTTP/1.1" + host, "the method is not in upper case"},
      {"Az / HTTP/1.1" + host, "the method is not in upper case"},
      {"GE(T / HTTP/1.1" + host, "the method is no token"},
      {" / HTTP/1.1" + host, "the method is no token"},
      // Fields.
      {line + host + "a b: c\n", "a field's name is no token"},
      {line + host + "a : c\n", "a field's name is no token"},
      {line + host + ": c\n", "a field's name is no token"},
      {line + host + "\xc3\xbc: c\n", "a field's name is no token"},
      {line + host + "a: b\rc\n", "a field's value has a control character"},
      {line + host + std::string{"a: b\0c\n", 7}, "a field's value has a control character"},
      {line + host +
           "a: b\x7f"
           "c\n",
       "a field's value has a control character"},
      // Host.
      {line + "\n", "there is no Host"},
      {"GET / HTTP/1.0\n", "there is no Host"},
      {line + host + "Host: a\n", "there is more than one Host"},
      {line + host + "hOST: b\n", "there is more than one Host"},
      {line + "\nHost: a, b\n", "Host is no plain name or address"},
      {line + "\nHost: a b\n", "Host is no plain name or address"},
      {line + "\nHost:\n", "Host is no plain name or address"},
      {line + "\nHost: u@a\n", "Host is no plain name or address"},
      {line + "\nHost: a/b\n", "Host is no plain name or address"},
      {line + "\nHost: a:\n", "Host is no plain name or address"},
      {line + "\nHost: a:99999\n", "Host is no plain name or address"},
      {line + "\nHost: [::1\n", "Host is no plain name or address"},
      {line + "\nHost: 0x7f.1\n", "Host is no plain name or address"},
      // Content-Length.
      {line + host + "Content-Length: 5\nContent-Length: 5\n", "there is more than one Content-Length"},
      {line + host + "Content-Length: 5\ncontent-length: 6\n", "there is more than one Content-Length"},
      {line + host + "Content-Length: 5, 5\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: 05\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: 00\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: +5\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: -5\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: 0x5\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: 5.0\n", "Content-Length is no plain number"},
      {line + host + "Content-Length: 5 5\n", "Content-Length is no plain number"},
      {line + host + "Content-Length:\n", "Content-Length is no plain number"},
      // Transfer-Encoding.
      {line + host + "Transfer-Encoding: chunked\nContent-Length: 5\n",
       "there are both Transfer-Encoding and Content-Length"},
      {line + host + "Content-Length: 5\nTransfer-Encoding: chunked\n",
       "there are both Transfer-Encoding and Content-Length"},
      {"POST / HTTP/1.0" + host + "Transfer-Encoding: chunked\n", "Transfer-Encoding is not of HTTP/1.0"},
      // Targets.
      {"GET  HTTP/1.1" + host, "the target is empty"},
      {"GET /a#b HTTP/1.1" + host, "the target has a fragment"},
      {"GET /a b HTTP/1.1" + host, "the target has a byte that is not visible ASCII"},
      {"GET /\x7f HTTP/1.1" + host, "the target has a byte that is not visible ASCII"},
      {"GET /\xc3\xbc HTTP/1.1" + host, "the target has a byte that is not visible ASCII"},
      {"GET /\t HTTP/1.1" + host, "the target has a byte that is not visible ASCII"},
      {"GET x HTTP/1.1" + host, "the target does not begin with '/'"},
      {"OPTIONS * HTTP/1.1" + host, "the target does not begin with '/'"},
      {"GET http://a/ HTTP/1.1" + host, "the target does not begin with '/'"},
      {"CONNECT a:443 HTTP/1.1\nHost: a:443\n", "CONNECT is for forward mode"},
      {"CONNECT /a HTTP/1.1" + host, "CONNECT is for forward mode"},
      // Connection.
      {line + host + "Connection: Host\n", "Connection names Host, which is of the message"},
      {line + host + "Connection: close, authorization\n", "Connection names authorization, which is of the message"},
      {line + host + "Connection: Cookie\n", "Connection names Cookie, which is of the message"},
      {line + host + "Connection: content-LENGTH\n", "Connection names content-LENGTH, which is of the message"},
      {line + host + "Connection: a\nConnection: Content-Type\n",
       "Connection names Content-Type, which is of the message"},
      {line + host + "Connection: a b\n", "Connection names something that is no token"},
      {line + host + "Connection: a;b\n", "Connection names something that is no token"},
  };
  for (const row& r : rows) {
    CAPTURE(r.text);
    CHECK(said(judge(r.text)) == "400 " + r.why);
  }
  for (const std::string coding :
       {"gzip", "identity", "xchunked", "chunked, identity", "identity, chunked", "chunked, chunked", "gzip, chunked",
        "", "chunked;q=1", "\"chunked\"", "chunked,", ",chunked", "c hunked"}) {
    CAPTURE(coding);
    CHECK(said(judge("POST / HTTP/1.1" + host + "Transfer-Encoding: " + coding + "\n")) ==
          "400 Transfer-Encoding is something else than exactly one \"chunked\"");
  }
  CHECK(said(judge("POST / HTTP/1.1" + host + "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n")) ==
        "400 Transfer-Encoding is something else than exactly one \"chunked\"");
}

TEST_CASE("gateway: only a whole handshake asks for a websocket", "[gateway][head][websocket]") {
  const std::string key = "Sec-WebSocket-Key: a\n", version = "Sec-WebSocket-Version: 13\n";
  const std::string upgrade = "Connection: keep-alive, upgrade\nUpgrade: WebSocket\n";
  const auto judge = [](const std::string& text, listen_mode mode = listen_mode::reverse) {
    return gateway::judge_head(head_of(text), mode, {});
  };
  const auto right = judge("GET / HTTP/1.1" + host + upgrade + key + version);
  CHECK((!right.refused && right.plan.is_websocket));
  CHECK_FALSE(judge("GET / HTTP/1.1" + host + key + version).plan.is_websocket);
  for (const std::string& wrong :
       {"POST / HTTP/1.1" + host + upgrade + key + version, "GET / HTTP/1.0" + host + upgrade + key + version,
        "GET / HTTP/1.1" + host + "Upgrade: websocket\n" + key + version, "GET / HTTP/1.1" + host + upgrade + key,
        "GET / HTTP/1.1" + host + upgrade + version, "GET / HTTP/1.1" + host + upgrade + key + key + version,
        "GET / HTTP/1.1" + host + upgrade + key + version + version,
        "GET / HTTP/1.1" + host + upgrade + key + version + "Upgrade: websocket\n",
        "GET / HTTP/1.1" + host + upgrade + key + version + "Content-Length: 1\n",
        "GET / HTTP/1.1" + host + upgrade + key + version + "Expect: 100-continue\n"}) {
    CAPTURE(wrong);
    const auto judged = judge(wrong);
    REQUIRE(judged.refused);
    CHECK((judged.refused->status == 501 && !judged.plan.is_websocket));
  }
  const auto absolute = judge("GET http://a/ HTTP/1.1" + host + upgrade + key + version, listen_mode::both);
  REQUIRE(absolute.refused);
  CHECK(absolute.refused->status == 501);
}

TEST_CASE("gateway: other refusals of a head have their own status", "[gateway][head]") {
  gateway::size_limits small;
  small.target = 4;
  small.fields = 2;
  small.body = 10;
  const auto status = [&](const std::string& text) {
    const auto head = head_of(text);
    const auto j = gateway::judge_head(head, listen_mode::reverse, small);
    return j.refused ? j.refused->status : 0;
  };
  CHECK(status("GET /abc HTTP/1.1" + host) == 0);
  CHECK(status("GET /abcd HTTP/1.1" + host) == 414);
  CHECK(status("GET / HTTP/1.1" + host + "a: b\n") == 0);
  CHECK(status("GET / HTTP/1.1" + host + "a: b\nc: d\n") == 431);
  CHECK(status("PUT / HTTP/1.1" + host + "Content-Length: 10\n") == 0);
  CHECK(status("PUT / HTTP/1.1" + host + "Content-Length: 11\n") == 413);
  CHECK(status("PUT / HTTP/1.1" + host + "Content-Length: 18446744073709551616\n") == 413);
  CHECK(status("PUT / HTTP/1.1" + host + "Content-Length: 18446744073709551615\n") == 413);
  CHECK(status("GET / HTTP/1.1" + host + "Upgrade: websocket\n") == 501);
  CHECK(status("GET / HTTP/1.1" + host + "Upgrade: h2c, WebSocket/13\n") == 501);
  CHECK(status("GET / HTTP/1.1" + host + "Upgrade: h2c\n") == 0);
  CHECK(status("GET / HTTP/1.1" + host + "Expect: 200-ok\n") == 417);
  auto newer = head_of("GET / HTTP/1.1" + host);
  newer.version = 20;
  const auto j = gateway::judge_head(newer, listen_mode::reverse, small);
  REQUIRE(j.refused);
  CHECK(j.refused->status == 505);
}

TEST_CASE("gateway: forward mode wants a URL, or a host and a port for a tunnel", "[gateway][head]") {
  struct row {
    std::string target, host;
    int port;
    std::string path;
    bool is_tls;
  };
  for (const row& r : {row{"http://a/x?y", "a", 80, "/x?y", false}, row{"http://A.b.:8080", "a.b", 8080, "", false},
                       row{"HTTPS://a?q", "a", 443, "?q", true}, row{"http://[::1]:81/", "::1", 81, "/", false},
                       row{"http://10.0.0.1/", "10.0.0.1", 80, "/", false}}) {
    CAPTURE(r.target);
    const std::string name = r.host.find(':') == std::string::npos ? r.host : "[" + r.host + "]";
    const std::string text =
        "GET " + r.target + " HTTP/1.1\nHost: " + name + (r.port % 443 % 80 ? ":" + std::to_string(r.port) : "") + "\n";
    for (const auto mode : {listen_mode::forward, listen_mode::both}) {
      const auto j = judge(text, mode);
      CHECK(said(j).empty());
      CHECK(j.plan.form == gateway::target_form::absolute);
      CHECK(
          (j.plan.host.text == r.host && j.plan.port == r.port && j.plan.path == r.path && j.plan.is_tls == r.is_tls));
    }
  }
  const auto tunnel = judge("CONNECT Example.com:443 HTTP/1.1\nHost: example.com:443\n", listen_mode::forward);
  CHECK(said(tunnel).empty());
  CHECK((tunnel.plan.form == gateway::target_form::tunnel && tunnel.plan.host.text == "example.com"));
  CHECK(tunnel.plan.port == 443);
  CHECK(said(judge("CONNECT a:443 HTTP/1.1\nHost: a\n", listen_mode::forward)).empty());
  CHECK(said(judge("CONNECT a:443 HTTP/1.0\n", listen_mode::forward)).empty());
  CHECK(said(judge("CONNECT a:443 HTTP/1.1\n", listen_mode::forward)) == "400 there is no Host");
  CHECK(said(judge("GET http://a/ HTTP/1.0\n", listen_mode::forward)) == "400 there is no Host");
  // As Node's own example sends it.
  CHECK(judge("CONNECT a:443 HTTP/1.1\nHost: 127.0.0.1:8080\n", listen_mode::forward).plan.host.text == "a");
  CHECK(judge("GET http://b:81/ HTTP/1.1\nHost: c\n", listen_mode::forward).plan.host.text == "b");
  CHECK(said(judge("GET /x HTTP/1.1" + host, listen_mode::both)).empty());

  const std::pair<std::string, std::string> refused[] = {
      {"GET /x HTTP/1.1" + host, "the target is no absolute URL, as forward mode wants it"},
      {"GET ftp://a/ HTTP/1.1" + host, "the target's scheme is neither http nor https"},
      {"GET * HTTP/1.1" + host, "the target's scheme is neither http nor https"},
      {"GET a HTTP/1.1" + host, "the target's scheme is neither http nor https"},
      {"GET http:/a HTTP/1.1" + host, "the target's scheme is neither http nor https"},
      {"GET http:///x HTTP/1.1" + host, "the target has no HOST or HOST:PORT"},
      {"GET http://u:p@a/ HTTP/1.1" + host, "the target has no HOST or HOST:PORT"},
      {"GET http://a:0/ HTTP/1.1" + host, "the target has no HOST or HOST:PORT"},
      {"GET http://a:/ HTTP/1.1" + host, "the target has no HOST or HOST:PORT"},
      {"GET http://a/#b HTTP/1.1" + host, "the target has a fragment"},
      {"CONNECT a HTTP/1.1" + host, "the target of CONNECT is no HOST:PORT"},
      {"CONNECT a: HTTP/1.1" + host, "the target of CONNECT is no HOST:PORT"},
      {"CONNECT http://a:80 HTTP/1.1" + host, "the target of CONNECT is no HOST:PORT"},
      {"CONNECT a:443/x HTTP/1.1" + host, "the target of CONNECT is no HOST:PORT"},
      {"CONNECT a:443 HTTP/1.1" + host + "Content-Length: 3\n", "CONNECT has a body"},
      {"CONNECT a:443 HTTP/1.1" + host + "Transfer-Encoding: chunked\n", "CONNECT has a body"},
  };
  for (const auto& [text, why] : refused) {
    CAPTURE(text);
    CHECK(said(judge(text, listen_mode::forward)) == "400 " + why);
  }
  for (const char* name : {"[a]", "0x7f.1", "2130706433", "a\\@b", "127.1", "[::1", "exam\"ple", "-a"}) {
    const std::string text = name;
    for (const std::string& start : {"GET http://" + text + "/", "CONNECT " + text + ":443"}) {
      CAPTURE(start);
      const auto j = judge(start + " HTTP/1.1" + host, listen_mode::forward);
      REQUIRE(j.refused);
      CHECK((j.refused->status == 403 && j.refused->error == "destination_forbidden"));
    }
  }
}

TEST_CASE("gateway: a request that comes back is told by its Via", "[gateway][head]") {
  const std::string via = "1.1 canigo-7f3a";
  const auto status = [&](const std::string& fields) {
    const auto found = gateway::judge_loop(head_of("GET / HTTP/1.1" + host + fields), via);
    if (found) CHECK(found->error == "loop");
    return found ? found->status : 0;
  };
  CHECK(status("") == 0);
  CHECK(status("Via: 1.1 canigo-7f3a\n") == 508);
  CHECK(status("Via: 1.0 proxy, HTTP/1.1 CANIGO-7F3A (a comment)\n") == 508);
  CHECK(status("Via: 1.1 a\nvia: 1.1 b,1.1\tcanigo-7f3a\n") == 508);
  CHECK(status("Via: 1.1 canigo-7f3b, 1.1 canigo-7f3, 1.1 xcanigo-7f3a\n") == 0);
  CHECK(status("Via: canigo-7f3a\n") == 0);
  CHECK(status("X-Via: 1.1 canigo-7f3a\n") == 0);
}
