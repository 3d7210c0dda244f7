#include "canigo/detail/time/date_text.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::detail::parse_go_duration;
using canigo::detail::parse_http_date;
using canigo::detail::parse_rfc3339;

namespace {

constexpr std::chrono::sys_seconds then{784'111'777s};  // Sun, 06 Nov 1994 08:49:37 GMT

}  // namespace

TEST_CASE("a date of HTTP has three forms and no others", "[time]") {
  CHECK(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == then);
  CHECK(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT") == then);
  CHECK(parse_http_date("Sun Nov  6 08:49:37 1994") == then);
  CHECK(parse_http_date("Wed Nov 16 08:49:37 1994") == then + 240h);
  CHECK(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT") == std::chrono::sys_seconds{});
  CHECK(parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"));
  CHECK(parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT"));
  CHECK(parse_http_date("Friday, 01-Jan-70 00:00:00 GMT") == std::chrono::sys_seconds{});
  CHECK(*parse_http_date("Tuesday, 31-Dec-69 00:00:00 GMT") > then);
  for (const std::string_view bad : {"",
                                     "Sun",
                                     "Sun, 6 Nov 1994 08:49:37 GMT",
                                     "sun, 06 Nov 1994 08:49:37 GMT",
                                     "Sun, 06 nov 1994 08:49:37 GMT",
                                     "Sun, 06 Nov 94 08:49:37 GMT",
                                     "Sun, 06 Nov 1994 08:49:37",
                                     "Sun, 06 Nov 1994 08:49:37 UTC",
                                     "Sun, 06 Nov 1994 08:49:37 GMT ",
                                     " Sun, 06 Nov 1994 08:49:37 GMT",
                                     "Sun, 06 Nov 1994 24:00:00 GMT",
                                     "Sun, 06 Nov 1994 08:60:00 GMT",
                                     "Sun, 06 Nov 1994 08:49:61 GMT",
                                     "Sun, 00 Nov 1994 08:49:37 GMT",
                                     "Sun, 31 Nov 1994 08:49:37 GMT",
                                     "Thu, 29 Feb 2023 00:00:00 GMT",
                                     "Sun, 06 Nov 1994 8:49:37 GMT",
                                     "Sun, 06 Nov 19944 08:49:37 GMT",
                                     "Sun Nov 6 08:49:37 1994",
                                     "Sun Nov  6 08:49:37 1994 GMT",
                                     "784111777",
                                     "1994-11-06T08:49:37Z"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_http_date(bad));
  }
}

TEST_CASE("a date of RFC 3339 may have a fraction and an offset", "[time]") {
  CHECK(parse_rfc3339("1994-11-06T08:49:37Z") == then);
  CHECK(parse_rfc3339("1994-11-06t08:49:37z") == then);
  CHECK(parse_rfc3339("1994-11-06T09:49:37+01:00") == then);
  CHECK(parse_rfc3339("1994-11-06T05:19:37-03:30") == then);
  CHECK(parse_rfc3339("1994-11-06T08:49:36.5Z") == then);
  CHECK(parse_rfc3339("1994-11-06T08:49:37.000Z") == then);
  CHECK(parse_rfc3339("1994-11-06T08:49:36." + std::string(100, '9') + "Z") == then);
  CHECK(parse_rfc3339("2016-12-31T23:59:60Z") == parse_rfc3339("2017-01-01T00:00:00Z"));
  CHECK(parse_rfc3339("0000-01-01T00:00:00Z"));
  for (const std::string_view bad :
       {"", "1994", "1994-11-06", "1994-11-06T08:49:37", "1994-11-06 08:49:37Z", "94-11-06T08:49:37Z",
        "1994-00-06T08:49:37Z", "1994-13-06T08:49:37Z", "1994-11-31T08:49:37Z", "1994-11-06T24:00:00Z",
        "1994-11-06T08:49:37.Z", "1994-11-06T08:49:37+1:00", "1994-11-06T08:49:37+24:00", "1994-11-06T08:49:37+01:60",
        "1994-11-06T08:49:37+0100", "1994-11-06T08:49:37ZZ", "1994-11-06T08:49:37Z ", "+994-11-06T08:49:37Z"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_rfc3339(bad));
  }
}

TEST_CASE("a span of Go is the sum of its parts", "[time]") {
  CHECK(parse_go_duration("0s") == 0s);
  CHECK(parse_go_duration("6m0s") == 6min);
  CHECK(parse_go_duration("120ms") == 120ms);
  CHECK(parse_go_duration("2m59.56s") == 179'560ms);
  CHECK(parse_go_duration("1h2m3.5s") == 3'723'500ms);
  CHECK(parse_go_duration("10h17m5.723s") == 37'025'723ms);
  CHECK(parse_go_duration("1.5h") == 90min);
  CHECK(parse_go_duration("7us") == 7us);
  CHECK(parse_go_duration("7\xc2\xb5s") == 7us);
  CHECK(parse_go_duration("7\xce\xbcs") == 7us);
  CHECK(parse_go_duration("7ns") == 7ns);
  CHECK(parse_go_duration("99999999999999999999h") == duration::max());
  CHECK(parse_go_duration("9999999h9999999h") == duration::max());
  CHECK(parse_go_duration("2562047h2562047h") == duration::max());
  for (const std::string_view bad : {"", "s", "6", "6m0", "6 m", " 6m", "6m ", "-6m", "+6m", "6d", "1.s", ".5s",
                                     "1..5s", "6M", "6m0s1", "6min", "1e3s"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_go_duration(bad));
  }
}
