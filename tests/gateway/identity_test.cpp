#include "gateway/policy/identity.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;
using gateway_test::head_of;

namespace {

/// SHA-256 of "test", as sha256sum prints it, and of "second".
constexpr gateway::key_digest of_test{0x9f, 0x86, 0xd0, 0x81, 0x88, 0x4c, 0x7d, 0x65, 0x9a, 0x2f, 0xea,
                                      0xa0, 0xc5, 0x5a, 0xd0, 0x15, 0xa3, 0xbf, 0x4f, 0x1b, 0x2b, 0x0b,
                                      0x82, 0x2c, 0xd1, 0x5d, 0x6c, 0x15, 0xb0, 0xf0, 0x0a, 0x08};

std::vector<gateway::tenant> tenants() {
  std::vector<gateway::tenant> all(4);
  all[0].name = "keyed";
  // Another key with the same first bytes comes first in the table.
  all[3].name = "twin";
  all[3].keys = {of_test};
  all[3].keys[0][31] ^= 1;
  all[0].keys = {of_test};
  all[1].name = "certified";
  all[1].subject = "CN=search";
  all[2].name = "local";
  all[2].uid = 1004;
  return all;
}

struct asked {
  std::string fields;
  std::vector<std::string> names = {};
  std::optional<std::uint32_t> uid = {};
  std::string_view anonymous = {};
  std::string_view replaced = {};
  bool is_proxy = false;
  std::string host = "a";
};

gateway::identification find(const asked& a) {
  static const gateway::identity_table table{tenants()};
  return table.find(head_of("GET / HTTP/1.1\nHost: " + a.host + "\n" + a.fields), {a.names, a.uid, a.anonymous},
                    a.replaced, a.is_proxy);
}

/// The tenant, or minus the status of the refusal.
int found(const asked& a) {
  const auto i = find(a);
  CHECK(i.tenant.has_value() != i.refused.has_value());
  return i.tenant ? static_cast<int>(*i.tenant) : -i.refused->status;
}

}  // namespace

TEST_CASE("gateway: a key is somebody's by its digest", "[gateway][identity]") {
  CHECK(found({"X-Canigo-Key: test\n"}) == 0);
  CHECK(found({"x-canigo-key:   test \n"}) == 0);
  CHECK(found({"Proxy-Authorization: Bearer test\n"}) == 0);
  CHECK(found({"Proxy-Authorization: bearer  test\n"}) == 0);
  CHECK(found({"Proxy-Authorization: Basic dXNlcjp0ZXN0\n"}) == 0);  // user:test
  CHECK(found({"Proxy-Authorization: Basic dGVzdDo=\n"}) == 0);      // test:
  CHECK(found({"Proxy-Authorization: Basic OnRlc3Q=\n"}) == 0);      // :test
  for (const std::string wrong :
       {"X-Canigo-Key: Test\n", "X-Canigo-Key: test2\n", "X-Canigo-Key:\n", "X-Canigo-Key: tes\n",
        "Proxy-Authorization: test\n", "Proxy-Authorization: Digest test\n", "Proxy-Authorization: Basic test\n",
        "Proxy-Authorization: Basic dGVzdA==\n", "Proxy-Authorization: Basic dGVzdDp=\n",
        "Proxy-Authorization: Bearer\n", "X-Canigo-Key: test\nX-Canigo-Key: test\n",
        "X-Canigo-Key: test\nProxy-Authorization: Bearer other\n"}) {
    CAPTURE(wrong);
    CHECK(found({wrong}) == -401);
    CHECK(found({.fields = wrong, .is_proxy = true}) == -407);
    // One that is wrong is told so, and does not go on as somebody else.
    CHECK(found({.fields = wrong, .uid = 1004, .anonymous = "local"}) == -401);
  }
  CHECK(found({""}) == -401);
  CHECK(find({""}).refused->error == "unauthorized");
}

TEST_CASE("gateway: a refusal names the headers that carry a key there", "[gateway][identity]") {
  const std::string plain = find({""}).refused->detail;
  CHECK(plain.find("X-Canigo-Key; Authorization is the upstream's here") != plain.npos);
  const std::string replaced = find({.fields = "", .replaced = "authorization"}).refused->detail;
  CHECK(replaced.find("X-Canigo-Key, or into Authorization as a Bearer token") != replaced.npos);
  const std::string other = find({.fields = "", .replaced = "X-Api-Key"}).refused->detail;
  CHECK(other.find("X-Canigo-Key, into X-Api-Key, or into Authorization as a Bearer token") != other.npos);
  const std::string proxy = find({.fields = "", .is_proxy = true}).refused->detail;
  CHECK(proxy.find("Proxy-Authorization (Basic or Bearer)") != proxy.npos);
}

TEST_CASE("gateway: a bearer token is a key only where the upstream gets another one", "[gateway][identity]") {
  CHECK(found({.fields = "Authorization: Bearer test\n", .replaced = "Authorization"}) == 0);
  CHECK(found({"Authorization: Bearer test\n"}) == -401);
  // There it would go to the upstream, whatever else shows who the client is.
  for (const asked& leaks : {asked{.fields = "Authorization: Bearer test\n", .anonymous = "local"},
                             asked{.fields = "X-Canigo-Key: test\nAuthorization: bearer test\n"}}) {
    CHECK(found(leaks) == -401);
    CHECK(find(leaks).refused->detail.find("would go to the upstream") != std::string::npos);
  }
  // An SDK puts its key into the field that its API has for it.
  CHECK(found({.fields = "X-Api-Key: test\n", .replaced = "x-api-key"}) == 0);
  CHECK(found({.fields = "Authorization: Bearer test\n", .replaced = "X-Api-Key"}) == 0);
  CHECK(found({.fields = "X-Api-Key: test\nX-Api-Key: test\n", .replaced = "X-Api-Key"}) == -401);
  CHECK(found({"X-Api-Key: test\n"}) == -401);
  // Clients of an API send a dummy where they must send something.
  CHECK(found({.fields = "Authorization: Bearer dummy\n", .anonymous = "local", .replaced = "Authorization"}) == 2);
  CHECK(found({.fields = "Authorization: Bearer dummy\n", .replaced = "Authorization"}) == -401);
  CHECK(found({.fields = "Authorization: Basic dXNlcjp0ZXN0\n", .replaced = "Authorization"}) == -401);
  CHECK(found({.fields = "Authorization: Bearer test\nAuthorization: Bearer x\n", .replaced = "Authorization"}) ==
        -401);
}

TEST_CASE("gateway: the first match counts: certificate, key, uid, anonymous", "[gateway][identity]") {
  const std::vector<std::string> names{"CN=other", "CN=search"};
  CHECK(found({.fields = "X-Canigo-Key: test\n", .names = names, .uid = 1004, .anonymous = "local"}) == 1);
  CHECK(found({.fields = "X-Canigo-Key: wrong\n", .names = names}) == 1);
  CHECK(found({.fields = "X-Canigo-Key: test\n", .names = {"CN=other"}, .uid = 1004, .anonymous = "twin"}) == 0);
  CHECK(found({.fields = "", .names = {"CN=other"}, .uid = 1004, .anonymous = "twin"}) == 2);
  CHECK(found({.fields = "", .names = {"CN=other"}, .uid = 1005, .anonymous = "twin"}) == 3);
  CHECK(found({.fields = "", .names = {"cn=search", "search", ""}, .uid = 0}) == -401);
  CHECK(found({.fields = "", .anonymous = "nobody"}) == -401);
}

TEST_CASE("gateway: without a key no page of another site is served", "[gateway][identity]") {
  for (const std::string host :
       {"localhost", "localhost:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "gateway", "a.localhost:80"}) {
    CAPTURE(host);
    CHECK(found({.fields = "", .anonymous = "local", .host = host}) == 2);
    CHECK(found({.fields = "Origin: http://" + host + "\nSec-Fetch-Site: same-origin\n",
                 .anonymous = "local",
                 .host = host}) == 2);
  }
  // A site whose name leads to this machine.
  for (const std::string host : {"evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "[::2]"}) {
    CAPTURE(host);
    CHECK(found({.fields = "", .anonymous = "local", .host = host}) == -401);
    CHECK(found({.fields = "", .uid = 7, .anonymous = "local", .host = host}) == 2);
    CHECK(found({.fields = "", .anonymous = "local", .is_proxy = true, .host = host}) == 2);
    CHECK(found({.fields = "X-Canigo-Key: test\n", .anonymous = "local", .host = host}) == 0);
  }
  // A site that names this machine.
  for (const std::string fields : {"Origin: https://evil.example\n", "Origin: null\n", "Sec-Fetch-Site: cross-site\n",
                                   "Sec-Fetch-Site: same-site\n", "sec-fetch-site: CROSS-SITE\n"}) {
    CAPTURE(fields);
    CHECK(found({.fields = fields, .anonymous = "local"}) == -401);
    CHECK(found({.fields = fields + "X-Canigo-Key: test\n", .anonymous = "local"}) == 0);
  }
}

TEST_CASE("gateway: base64 is read in its one form", "[gateway][identity]") {
  const std::pair<std::string_view, std::string_view> good[] = {
      {"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9vYmFy", "foobar"}, {"/+8=", "\xff\xef"}};
  for (const auto& [text, bytes] : good) {
    CAPTURE(text);
    CHECK(gateway::decode_base64(text) == std::string{bytes});
  }
  // The whole alphabet, in its order, and the characters beside it in ASCII.
  const auto all = gateway::decode_base64("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
  REQUIRE(all);
  for (std::size_t i = 0; i < 64; ++i) {
    const auto byte_at = [&](std::size_t at) { return static_cast<unsigned char>(at < all->size() ? (*all)[at] : 0); };
    const std::size_t bit = i * 6;
    const unsigned two = byte_at(bit / 8) * 256u + byte_at(bit / 8 + 1);
    CHECK((two >> (10 - bit % 8) & 63) == i);
  }
  for (const char beside : {'@', '[', '`', '{', '.', ':', '*', ',', '-', '_', '\0', '\xff'}) {
    CAPTURE(beside);
    CHECK_FALSE(gateway::decode_base64(std::string{"Zm9"} + beside));
    CHECK_FALSE(gateway::decode_base64(beside + std::string{"m9v"}));
  }
  for (const std::string_view bad :
       {"Z", "Zg", "Zg=", "Zm9", "Zh==", "Zm9=", "=", "====", "Zg===", "Z g=", "Zm-v", "Zm9v\n", "Z===", "Zg==Zg=="}) {
    CAPTURE(bad);
    CHECK_FALSE(gateway::decode_base64(bad));
  }
}
