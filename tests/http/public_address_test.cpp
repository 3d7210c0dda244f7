#include "canigo/http/public_address.hpp"

#include "canigo/net.hpp"

#include "support/catch.hpp"

#include <asio/ip/address.hpp>

#include <initializer_list>

namespace http = canigo::http;
namespace net = canigo::net;

namespace {

bool is_public(const char* address) { return http::is_public(net::ip::make_address(address)); }

}  // namespace

TEST_CASE("http: an address of a private or special network is not public, to its first and last") {
  for (const char* address : {
           "0.0.0.0",     "0.255.255.255",   "10.0.0.0",     "10.255.255.255",
           "100.64.0.0",  "100.127.255.255", "127.0.0.1",    "127.255.255.255",
           "169.254.0.0", "169.254.169.254", "172.16.0.0",   "172.31.255.255",
           "192.0.0.0",   "192.0.0.255",     "192.0.2.0",    "192.0.2.255",
           "192.88.99.0", "192.88.99.255",   "192.168.0.0",  "192.168.255.255",
           "198.18.0.0",  "198.19.255.255",  "198.51.100.0", "198.51.100.255",
           "203.0.113.0", "203.0.113.255",   "224.0.0.0",    "239.255.255.255",
           "240.0.0.0",   "255.255.255.255", "::",           "::1",
           "::7f00:1",    "fc00::",          "fdff::1",      "fe80::1",
           "febf::1",     "fec0::1",         "ff02::1",      "100::1",
           "2001::1",     "2001:1ff:ffff::", "2001:db8::",   "2001:db8:ffff::",
           "3fff::",      "3fff:fff:ffff::", "5f00::1",      "64:ff9b:1::1",
           "4000::",      "1fff::",
       }) {
    CAPTURE(address);
    CHECK_FALSE(is_public(address));
  }
}

TEST_CASE("http: the neighbours of special networks are public") {
  for (const char* address : {
           "1.0.0.0",         "9.255.255.255", "11.0.0.0",      "100.63.255.255",  "100.128.0.0",     "126.255.255.255",
           "128.0.0.0",       "169.253.0.1",   "169.255.0.0",   "172.15.255.255",  "172.32.0.0",      "191.255.255.255",
           "192.0.1.0",       "192.0.3.0",     "192.88.98.255", "192.88.100.0",    "192.167.255.255", "192.169.0.0",
           "198.17.255.255",  "198.20.0.0",    "198.51.99.255", "198.51.101.0",    "203.0.112.255",   "203.0.114.0",
           "223.255.255.255", "8.8.8.8",       "2001:200::",    "2001:db7:ffff::", "2001:db9::",      "2606:4700::1111",
           "3ffe:ffff::",     "3fff:1000::",   "2000::",        "2a00:1450::1",
       }) {
    CAPTURE(address);
    CHECK(is_public(address));
  }
}

TEST_CASE("http: an address that carries another is judged by that one") {
  CHECK_FALSE(is_public("::ffff:127.0.0.1"));
  CHECK_FALSE(is_public("::ffff:10.1.2.3"));
  CHECK_FALSE(is_public("64:ff9b::192.168.1.1"));
  CHECK_FALSE(is_public("2002:0a00:0001::1"));
  CHECK(is_public("::ffff:8.8.8.8"));
  CHECK(is_public("64:ff9b::8.8.8.8"));
  CHECK(is_public("2002:0808:0808::1"));
}
