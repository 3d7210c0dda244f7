#include "gateway/wire/host_name.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace gateway = canigo::gateway;
using kind = gateway::host_name::kind;

TEST_CASE("gateway: a host has one spelling", "[gateway]") {
  struct row {
    std::string_view text;
    kind what;
    std::string_view host;
  };
  for (const row& r :
       {row{"example.com", kind::name, "example.com"}, row{"EXAMPLE.com.", kind::name, "example.com"},
        row{"localhost", kind::name, "localhost"}, row{"xn--bcher-kva.example", kind::name, "xn--bcher-kva.example"},
        row{"my_service", kind::name, "my_service"}, row{"1.example", kind::name, "1.example"},
        row{"0x7f.1.example", kind::name, "0x7f.1.example"}, row{"0xg", kind::name, "0xg"},
        row{"127.0.0.1", kind::v4, "127.0.0.1"}, row{"255.255.255.255", kind::v4, "255.255.255.255"},
        row{"[::1]", kind::v6, "::1"}, row{"[2001:DB8:0:0:0:0:0:1]", kind::v6, "2001:db8::1"},
        row{"[::ffff:10.0.0.1]", kind::v6, "::ffff:10.0.0.1"}}) {
    CAPTURE(r.text);
    const auto parsed = gateway::parse_host(r.text);
    REQUIRE(parsed);
    CHECK(parsed->what == r.what);
    CHECK(parsed->text == r.host);
  }
}

TEST_CASE("gateway: a host that two readers understand differently is refused", "[gateway]") {
  for (const std::string& bad : {std::string{""},
                                 std::string{"."},
                                 std::string{"example.com.."},
                                 std::string{".example.com"},
                                 std::string{"a..b"},
                                 std::string{"-a.com"},
                                 std::string{"a-.com"},
                                 std::string{"a b"},
                                 std::string{"a@b"},
                                 std::string{"a%2eb"},
                                 std::string{"b\xc3\xbc"
                                             "cher.example"},
                                 std::string{"[example.com]"},
                                 std::string{"[127.0.0.1]"},
                                 std::string{"[::1"},
                                 std::string{"::1"},
                                 std::string{"[::1%25eth0]"},
                                 std::string{"[]"},
                                 std::string{"[[::1]]"},
                                 std::string{"0x7f.1"},
                                 std::string{"127.1"},
                                 std::string{"2130706433"},
                                 std::string{"0x7f000001"},
                                 std::string{"0177.0.0.1"},
                                 std::string{"127.0.0.01"},
                                 std::string{"127.0.0.1."},
                                 std::string{"256.0.0.1"},
                                 std::string{"1.2.3.4.5"},
                                 std::string{"1.2.3"},
                                 std::string{"example.0x"},
                                 std::string{"example.1"},
                                 std::string{"example.com\0.evil", 17},
                                 std::string{"[::1\0]", 6},
                                 std::string(64, 'a') + ".com",
                                 std::string(300, 'a')}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_host(bad));
  }
}

TEST_CASE("gateway: a name has up to 253 characters, and its labels up to 63", "[gateway]") {
  const std::string label(63, 'a');
  const std::string name = label + "." + label + "." + label + "." + std::string(61, 'b');
  CHECK(name.size() == 253);
  CHECK(gateway::parse_host(name));
  CHECK(gateway::parse_host(name + "."));
  CHECK_FALSE(gateway::parse_host(name + "b"));
  CHECK_FALSE(gateway::parse_host(label + "a.com"));
}

TEST_CASE("gateway: a port is 1 to 65535 in plain digits", "[gateway]") {
  CHECK(gateway::parse_port("1") == 1);
  CHECK(gateway::parse_port("65535") == 65535);
  for (const std::string_view bad :
       {"", "0", "65536", "+1", "-1", "080", " 80", "80 ", "8o", "000080", "99999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_port(bad));
  }
  const auto both = gateway::parse_host_and_port("[::1]:443");
  REQUIRE(both);
  CHECK((both->host.text == "::1" && both->port == 443 && both->host.in_url() == "[::1]"));
  const auto alone = gateway::parse_host_and_port("Example.com");
  REQUIRE(alone);
  CHECK((alone->host.text == "example.com" && !alone->port));
  for (const std::string_view bad :
       {"", ":80", "a:", "a:0", "a:b", "a:80:80", "[::1]80", "[::1]:", "::1:80", "u@a:80", "a:80/"}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::parse_host_and_port(bad));
  }
}
