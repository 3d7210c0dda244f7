#include "../../lib/jobs/postgres_hearing.hpp"

#include "support/catch.hpp"

#include <chrono>

using canigo::time_point;
using canigo::jobs::detail::postgres_hearing;
using namespace std::chrono_literals;
using hearing = postgres_hearing::state;

namespace {

constexpr time_point connected_at{1h};

}  // namespace

TEST_CASE("a connection to the server itself hears others, and not itself", "[jobs][postgres]") {
  postgres_hearing h{17, 17, "probe"};
  CHECK_FALSE(h.needs_probe());
  CHECK(h.now() == hearing::works);
  CHECK_FALSE(h.hear(17, ""));
  CHECK(h.hear(18, ""));
  h.note_process(17);
  h.judge(connected_at);
  CHECK(h.now() == hearing::works);
}

TEST_CASE("behind a proxy a notification has to arrive, which another connection has sent", "[jobs][postgres]") {
  postgres_hearing h{99, 17, "probe"};
  CHECK(h.needs_probe());
  CHECK(h.now() == hearing::unknown);
  h.judge(connected_at + 24h);
  CHECK(h.now() == hearing::unknown);  // nobody has sent one
  h.has_sent(connected_at);
  // Until then every notification may be that of another.
  CHECK(h.hear(17, ""));
  CHECK(h.hear(18, "another probe"));
  CHECK(h.now() == hearing::unknown);
  SECTION("it arrives") {
    CHECK(h.hear(18, "probe"));
    CHECK(h.now() == hearing::works);
    CHECK_FALSE(h.hear(17, ""));
    h.judge(connected_at + 24h);
    CHECK(h.now() == hearing::works);
    h.note_process(18);
    CHECK(h.now() == hearing::lent);
  }
  SECTION("it is that of the only session there is") {
    CHECK(h.hear(17, "probe"));
    CHECK(h.now() == hearing::works);
    CHECK(h.hear(17, ""));
  }
  SECTION("it does not arrive in time") {
    h.judge(connected_at + postgres_hearing::longest_way - 1ns);
    CHECK(h.now() == hearing::unknown);
    h.judge(connected_at + postgres_hearing::longest_way);
    CHECK(h.now() == hearing::lent);
    h.hear(18, "probe");
    CHECK(h.now() == hearing::lent);  // it listens no more
  }
  SECTION("another process carries out a transaction") {
    h.note_process(17);
    CHECK(h.now() == hearing::unknown);
    h.note_process(18);
    CHECK(h.now() == hearing::lent);
    h.note_process(17);
    CHECK(h.now() == hearing::lent);
  }
}
