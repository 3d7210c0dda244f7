#include "gateway/policy/own_places.hpp"

#include "support/catch.hpp"

#include <string_view>

namespace gateway = canigo::gateway;
namespace net = canigo::net;

namespace {

net::ip::tcp::endpoint at(const char* address, unsigned short port) { return {net::ip::make_address(address), port}; }

}  // namespace

TEST_CASE("gateway: a listener is found by its address and port", "[gateway][destination]") {
  gateway::own_places own{[](const net::ip::address&) { return false; }};
  CHECK_FALSE(own.contains(at("127.0.0.1", 80)));
  own.add(at("127.0.0.1", 80));
  own.add(at("::1", 81));
  own.add(at("::ffff:10.0.0.9", 82));
  CHECK(own.contains(at("127.0.0.1", 80)));
  CHECK(own.contains(at("::ffff:127.0.0.1", 80)));
  CHECK(own.contains(at("::1", 81)));
  CHECK(own.contains(at("10.0.0.9", 82)));
  CHECK_FALSE(own.contains(at("127.0.0.1", 81)));
  CHECK_FALSE(own.contains(at("127.0.0.2", 80)));
  CHECK_FALSE(own.contains(at("::1", 80)));
}

TEST_CASE("gateway: the unspecified address leads to this machine", "[gateway][destination]") {
  gateway::own_places own{[](const net::ip::address&) { return false; }};
  own.add(at("10.0.0.9", 80));
  CHECK(own.contains(at("0.0.0.0", 80)));
  CHECK(own.contains(at("::", 80)));
  CHECK(own.contains(at("::ffff:0.0.0.0", 80)));
  CHECK_FALSE(own.contains(at("0.0.0.0", 81)));
}

TEST_CASE("gateway: a listener at every address has all of this machine's", "[gateway][destination]") {
  gateway::own_places own{[](const net::ip::address& a) { return a == net::ip::make_address("192.0.2.7"); }};
  own.add(at("0.0.0.0", 80));
  CHECK(own.contains(at("192.0.2.7", 80)));
  CHECK(own.contains(at("::ffff:192.0.2.7", 80)));
  CHECK_FALSE(own.contains(at("192.0.2.8", 80)));
  CHECK_FALSE(own.contains(at("192.0.2.7", 81)));
}

TEST_CASE("gateway: the kernel knows the addresses of this machine", "[gateway][destination]") {
  CHECK(gateway::own_places::is_of_this_machine(net::ip::make_address("127.0.0.1")));
  CHECK(gateway::own_places::is_of_this_machine(net::ip::make_address("127.8.9.10")));
  CHECK_FALSE(gateway::own_places::is_of_this_machine(net::ip::make_address("192.0.2.7")));
  CHECK_FALSE(gateway::own_places::is_of_this_machine(net::ip::make_address("2001:db8::7")));
}
