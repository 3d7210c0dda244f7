#include "gateway/policy/routes.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;

namespace {

std::vector<gateway::upstream> upstreams_of(std::initializer_list<std::string_view> prefixes) {
  std::vector<gateway::upstream> all;
  for (const auto prefix : prefixes) all.emplace_back().prefix = prefix;
  return all;
}

}  // namespace

TEST_CASE("gateway: the longest prefix that ends at a slash leads the way", "[gateway][routes]") {
  const auto all = upstreams_of({"/a", "/a/b", "/ab", "/c/d"});
  const gateway::route_table routes{all};
  const std::pair<std::string_view, int> rows[] = {
      {"/a", 0},     {"/a/", 0},     {"/a/x", 0},    {"/a?b", 0},    {"/a/b", 1},      {"/a/b/", 1}, {"/a/b/c", 1},
      {"/a/b?c", 1}, {"/a/bc", 0},   {"/ab", 2},     {"/ab/c", 2},   {"/abc", -1},     {"/c", -1},   {"/c/d/e", 3},
      {"/", -1},     {"", -1},       {"/x", -1},     {"//a", -1},    {"/A", -1},       {"/%61", -1}, {"/a%2Fb", -1},
      {"/a//b", 0},  {"/a/../b", 0}, {"/x?/a/", -1}, {"/a?/../", 0}, {"/a/b/../c", 1}, {"/a\\b", -1}};
  for (const auto& [target, upstream] : rows) {
    CAPTURE(target);
    const auto found = routes.find(target);
    CHECK((found ? static_cast<int>(*found) : -1) == upstream);
  }
}

TEST_CASE("gateway: the prefix of one slash leads all that no other does", "[gateway][routes]") {
  const auto all = upstreams_of({"/", "/a"});
  const gateway::route_table routes{all};
  CHECK(routes.find("/") == 0u);
  CHECK(routes.find("/ab") == 0u);
  CHECK(routes.find("//") == 0u);
  CHECK(routes.find("/a/") == 1u);
  CHECK_FALSE(gateway::route_table{{}}.find("/"));
}

TEST_CASE("gateway: a target goes out byte for byte behind the upstream's path", "[gateway][routes]") {
  struct row {
    std::string_view prefix, path, target, sent;
  };
  for (const row& r : {row{"/a", "", "/a/v1/x?y=%20#", "/v1/x?y=%20#"}, row{"/a", "", "/a", "/"},
                       row{"/a", "", "/a/", "/"}, row{"/a", "", "/a?x", "/?x"}, row{"/a", "/v1", "/a/x", "/v1/x"},
                       row{"/a", "/v1", "/a", "/v1/"}, row{"/a", "", "/a/%2F..//x/./../", "/%2F..//x/./../"},
                       row{"/", "", "/x", "/x"}, row{"/", "/v1", "/", "/v1/"}, row{"/", "/v1", "//x", "/v1//x"}}) {
    CAPTURE(r.prefix, r.target);
    gateway::upstream u;
    u.prefix = r.prefix;
    u.url.path = r.path;
    CHECK(gateway::target_for(u, r.target) == r.sent);
  }
}
