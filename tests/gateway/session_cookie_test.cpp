#include "gateway/policy/session_cookie.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>

using canigo::gateway::session_cookie;

namespace {

constexpr std::chrono::system_clock::time_point signed_in_at{std::chrono::seconds{1'700'000'000}};

}  // namespace

TEST_CASE("a session's cookie is good for its token and its time", "[gateway]") {
  const session_cookie sessions;
  const std::string value = sessions.make("token", signed_in_at);
  const std::string cookies = "other=1; canigo_admin=" + value + "; canigo_admin_x=2";
  CHECK(sessions.is_good(cookies, "token", signed_in_at));
  CHECK(sessions.is_good(cookies, "token", signed_in_at + session_cookie::lifetime - std::chrono::seconds{1}));
  CHECK_FALSE(sessions.is_good(cookies, "token", signed_in_at + session_cookie::lifetime));
  CHECK_FALSE(sessions.is_good(cookies, "another", signed_in_at));
  CHECK(value.find("token") == value.npos);
}

TEST_CASE("nobody else makes a session's cookie", "[gateway]") {
  const session_cookie sessions;
  const session_cookie of_another_process;
  const std::string own = "canigo_admin=";
  const std::string value = sessions.make("token", signed_in_at);
  CHECK_FALSE(of_another_process.is_good(own + value, "token", signed_in_at));
  CHECK_FALSE(sessions.is_good(own + "9" + value, "token", signed_in_at));  // a later end
  CHECK_FALSE(sessions.is_good(own + value + "0", "token", signed_in_at));
  for (const char* wrong : {"", ".", "1.", "9999999999", "9999999999.", "x.y", "99999999999999999999999999.00"})
    CHECK_FALSE(sessions.is_good(own + wrong, "token", signed_in_at));
  CHECK_FALSE(sessions.is_good("xcanigo_admin=" + value, "token", signed_in_at));
  CHECK_FALSE(sessions.is_good("", "token", signed_in_at));
}

TEST_CASE("secrets are compared as a whole", "[gateway]") {
  const session_cookie sessions;
  CHECK(sessions.is_same("abc", "abc"));
  CHECK_FALSE(sessions.is_same("abc", "abd"));
  CHECK_FALSE(sessions.is_same("abc", "ab"));
  CHECK_FALSE(sessions.is_same("", "a"));
  CHECK(sessions.is_same("", ""));
}
