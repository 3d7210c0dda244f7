#include "canigo/http/retry_after.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <optional>
#include <string_view>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::http::response;
using canigo::http::retry_after;

namespace {

// Thu, 01 Jan 2026 00:00:00 GMT
const auto new_year = std::chrono::system_clock::from_time_t(1767225600);

std::optional<duration> wait_for(std::string_view value, std::string_view date = "") {
  response r;
  r.headers.add("retry-after", value);
  if (!date.empty()) r.headers.add("Date", date);
  return retry_after(r, new_year);
}

}  // namespace

TEST_CASE("Retry-After in seconds is that long") {
  CHECK(wait_for("0") == 0s);
  CHECK(wait_for("7") == 7s);
  CHECK(wait_for("007") == 7s);
  CHECK(wait_for("1.5") == 1500ms);
  CHECK(wait_for("0.0001") == 1ms);
}

TEST_CASE("of several fields Retry-After the longest counts") {
  response r;
  for (const char* value : {"5", "nonsense", "7", "6.5", "Thu, 01 Jan 2026 00:00:06 GMT"})
    r.headers.add("Retry-After", value);
  CHECK(retry_after(r, new_year) == 7s);
  CHECK(retry_after(r, new_year, 2s) == 2s);
}

TEST_CASE("Retry-After as a date is the time until then") {
  CHECK(wait_for("Thu, 01 Jan 2026 00:00:30 GMT") == 30s);
  CHECK(wait_for("Thursday, 01-Jan-26 00:01:00 GMT") == 60s);
  CHECK(wait_for("Thu Jan  1 00:00:05 2026") == 5s);
}

TEST_CASE("a date in the past asks for no wait") {
  CHECK(wait_for("Wed, 31 Dec 2025 23:59:00 GMT") == 0s);
  CHECK(wait_for("Thu, 01 Jan 1970 00:00:00 GMT") == 0s);
}

TEST_CASE("a date counts from the server's own clock if the response tells it") {
  CHECK(wait_for("Wed, 31 Dec 2025 23:55:10 GMT", "Wed, 31 Dec 2025 23:55:00 GMT") == 10s);
  CHECK(wait_for("Thu, 01 Jan 2026 00:00:30 GMT", "no date at all") == 30s);
}

TEST_CASE("no wait is longer than the bound") {
  response r;
  r.headers.add("Retry-After", "99999999999999999999999999999999");
  CHECK(retry_after(r, new_year) == 24h);
  CHECK(retry_after(r, new_year, 10s) == 10s);
  CHECK(retry_after(r, new_year, 1500ms) == 1500ms);
  CHECK(retry_after(r, new_year, -1s) == 0s);
  r.headers.set("Retry-After", "2");
  CHECK(retry_after(r, new_year, 1500ms) == 1500ms);
  r.headers.set("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT");
  CHECK(retry_after(r, new_year) == 24h);
}

TEST_CASE("what is neither seconds nor a date asks for nothing") {
  for (const std::string_view text :
       {"", "-1", "+1", "1.5.5", "1s", "soon", "Thu, 99 Foo 2026", "2026-01-01", "0x10", "\x80\xff"}) {
    INFO(text);
    CHECK_FALSE(wait_for(text));
  }
  CHECK_FALSE(retry_after(response{}, new_year));
}

TEST_CASE("what is no wait is none") {
  CHECK_FALSE(wait_for("{"));
  CHECK_FALSE(wait_for("["));
  CHECK_FALSE(wait_for("@"));
}

TEST_CASE("a wait in milliseconds counts before Retry-After") {
  response r;
  r.headers.add("Retry-After", "2");
  r.headers.add("retry-after-ms", "1043");
  CHECK(retry_after(r, new_year) == 1043ms);
}
