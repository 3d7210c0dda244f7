#include "gateway/config/places.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

TEST_CASE("gateway: where a listener waits is an address and a port, or a socket's path", "[gateway]") {
  const auto v4 = gateway::parse_listen_address("127.0.0.1:8080");
  REQUIRE(v4);
  CHECK((v4->host == "127.0.0.1" && v4->port == 8080 && v4->is_loopback && v4->is_local() && !v4->is_unix()));
  const auto v6 = gateway::parse_listen_address("[::1]:0");
  REQUIRE(v6);
  CHECK((v6->host == "::1" && v6->port == 0 && v6->is_loopback));
  const auto all = gateway::parse_listen_address("0.0.0.0:80");
  REQUIRE(all);
  CHECK_FALSE(all->is_local());
  const auto any = gateway::parse_listen_address("[::]:80");
  REQUIRE(any);
  CHECK_FALSE(any->is_local());
  const auto mapped = gateway::parse_listen_address("[::ffff:127.0.0.1]:80");
  REQUIRE(mapped);
  CHECK_FALSE(mapped->is_local());
  const auto path = gateway::parse_listen_address("unix:/run/gateway.sock");
  REQUIRE(path);
  CHECK((path->path == "/run/gateway.sock" && path->is_unix() && path->is_local()));
  for (const std::string& bad : {std::string{""},
                                 std::string{"127.0.0.1"},
                                 std::string{":8080"},
                                 std::string{"8080"},
                                 std::string{"localhost:80"},
                                 std::string{"127.0.0.1:65536"},
                                 std::string{"127.0.0.1:080"},
                                 std::string{"127.0.0.1:00"},
                                 std::string{"127.0.0.1:-1"},
                                 std::string{"127.1:80"},
                                 std::string{"::1:80"},
                                 std::string{"[::1]"},
                                 std::string{"[127.0.0.1]:80"},
                                 std::string{"[fe80::1%eth0]:80"},
                                 std::string{"127.0.0.1:80:0"},
                                 std::string{"unix:"},
                                 std::string{"unix:/"},
                                 std::string{"unix:run"},
                                 "unix:/" + std::string(107, 'a'),
                                 std::string{"unix:/a\0b", 9}}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_listen_address(bad));
  }
  CHECK(gateway::parse_listen_address("unix:/" + std::string(106, 'a')));
}

TEST_CASE("gateway: the URL of an upstream is a scheme, a host, a port and a path", "[gateway]") {
  struct row {
    std::string_view text;
    bool is_tls;
    std::string_view host;
    int port;
    std::string_view path, host_field;
    bool is_address;
  };
  for (const row& r :
       {row{"https://api.openai.com", true, "api.openai.com", 443, "", "api.openai.com", false},
        row{"HTTP://API.example.com./", false, "api.example.com", 80, "", "api.example.com", false},
        row{"http://10.0.0.1:8080/v1/", false, "10.0.0.1", 8080, "/v1", "10.0.0.1:8080", true},
        row{"https://[2001:DB8:0::1]/a/b", true, "2001:db8::1", 443, "/a/b", "[2001:db8::1]", true},
        row{"https://h:80", true, "h", 80, "", "h:80", false}, row{"http://h:80", false, "h", 80, "", "h", false}}) {
    CAPTURE(r.text);
    const auto o = gateway::parse_origin(r.text);
    REQUIRE(o);
    CHECK(o->is_tls == r.is_tls);
    CHECK(o->host == r.host);
    CHECK(o->port == r.port);
    CHECK(o->path == r.path);
    CHECK(o->host_field == r.host_field);
    CHECK(o->is_address == r.is_address);
  }
  for (const std::string_view bad : {"",
                                     "api.openai.com",
                                     "ftp://h",
                                     "https:/h",
                                     "https://",
                                     "https:///v1",
                                     "https://u:p@h",
                                     "https://h?q",
                                     "https://h#f",
                                     "https://h/a?q",
                                     "https://h/a#f",
                                     "https://h/a b",
                                     "https://h//a",
                                     "https://h/a//",
                                     "https://h/./a",
                                     "https://h/..",
                                     "https://h/%2e%2e/",
                                     "https://h\\a",
                                     "https://h:0",
                                     "https://h:",
                                     "https://0x7f.1",
                                     "https://127.1",
                                     "https://[example.com]",
                                     "https://b\xc3\xbc"
                                     "cher.example",
                                     " https://h",
                                     "https://h "}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_origin(bad));
  }
}

TEST_CASE("gateway: forward mode names hosts with their ports, or all names under a domain", "[gateway]") {
  const auto one = gateway::parse_allowed_host("Repo.Example.org.:80");
  REQUIRE(one);
  CHECK((one->host == "repo.example.org" && one->port == 80 && !one->with_subdomains));
  const auto many = gateway::parse_allowed_host("*.example.com:443");
  REQUIRE(many);
  CHECK((many->host == "example.com" && many->port == 443 && many->with_subdomains));
  const auto address = gateway::parse_allowed_host("[2001:db8::1]:8443");
  REQUIRE(address);
  CHECK((address->host == "2001:db8::1" && address->port == 8443));
  for (const std::string_view bad : {"", "*", "*:443", "*.:443", "example.com", "example.com:0", "a.*.com:443",
                                     "*.10.0.0.1:80", "https://example.com:443", "example.com:443/", "*.*.com:443"}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_allowed_host(bad));
  }
}

TEST_CASE("gateway: a prefix is a plain path, and loses the slash at its end", "[gateway]") {
  CHECK(gateway::parse_prefix("/openai") == "/openai");
  CHECK(gateway::parse_prefix("/openai/") == "/openai");
  CHECK(gateway::parse_prefix("/a/b.c") == "/a/b.c");
  CHECK(gateway::parse_prefix("/") == "/");
  for (const std::string_view bad :
       {"", "openai", "//", "/a//b", "/a/../b", "/.", "/a?b", "/a#b", "/a%2f", "/a b", "/a\\b", "/\xc3\xbc"}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_prefix(bad));
  }
}
