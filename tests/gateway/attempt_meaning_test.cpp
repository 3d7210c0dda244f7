// The consequences of each end of an attempt, as a table: what is sent again, what the breaker learns, how the place is
// settled, and the words of the gateway.
#include "gateway/call/attempt_meaning.hpp"

#include "support/catch.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace gateway = canigo::gateway;
using end = gateway::attempt_end;
using again = gateway::another_attempt;
using kind = gateway::attempt_end_kind;
using gateway::settlement;

namespace {

struct row {
  end of;
  again repeats;
  std::optional<kind> breaker;
  settlement place;
  int status;
  std::string_view error;
  std::string_view logged;
};

constexpr std::array rows{
    row{end::complete, again::never, {}, settlement::charge, 0, "", ""},
    row{end::put_back, again::follows, {}, settlement::release, 0, "", ""},
    row{end::unreachable, again::always, kind::unreachable, settlement::give_back, 502, "upstream_failed", ""},
    row{end::connect_timed_out, again::always, kind::unreachable, settlement::give_back, 504, "upstream_timeout", ""},
    row{end::forbidden, again::never, {}, settlement::give_back, 403, "destination_forbidden", ""},
    row{end::loop, again::never, {}, settlement::give_back, 508, "loop", ""},
    row{end::lost, again::if_safe, kind::lost, settlement::keep, 502, "upstream_failed", ""},
    row{end::first_byte_late, again::if_safe, kind::lost, settlement::keep, 504, "upstream_timeout", ""},
    row{end::bad_response, again::never, kind::lost, settlement::keep, 502, "upstream_failed", ""},
    row{end::body_failed, again::never, {}, settlement::keep, 0, "", ""},
    row{end::cut, again::never, {}, settlement::keep, 0, "", "upstream_failed"},
    row{end::outrun, again::never, {}, settlement::keep, 0, "", ""},
    row{end::client_lost, again::never, {}, settlement::keep, 0, "", ""},
    row{end::client_stalled, again::never, {}, settlement::keep, 0, "", "stalled"},
    row{end::idle, again::never, {}, settlement::keep, 0, "", "idle"},
    row{end::no_events, again::never, {}, settlement::charge, 502, "no_events", ""},
};

}  // namespace

TEST_CASE("gateway: each end of an attempt has its consequences", "[gateway][attempt_meaning]") {
  for (const row& r : rows) {
    CAPTURE(static_cast<int>(r.of));
    const gateway::attempt_meaning& means = gateway::meaning_of(r.of);
    CHECK(means.again == r.repeats);
    CHECK(means.for_breaker == r.breaker);
    CHECK(means.place == r.place);
    CHECK(means.status == r.status);
    CHECK(means.error == r.error);
    CHECK(means.logged == r.logged);
  }
}

TEST_CASE("gateway: nothing that an upstream may have seen is given back or sent again unasked",
          "[gateway][attempt_meaning]") {
  for (const row& r : rows) {
    CAPTURE(static_cast<int>(r.of));
    const gateway::attempt_meaning& means = gateway::meaning_of(r.of);
    CHECK(gateway::nothing_was_sent(r.of) == (means.place == settlement::give_back));
    if (means.again == again::always) CHECK(gateway::nothing_was_sent(r.of));
    // An answer of the gateway has words for a person; an end without an answer has none.
    CHECK((means.status == 0) == means.detail.empty());
    CHECK((means.status == 0) == means.error.empty());
  }
}

TEST_CASE("gateway: a repeat is counted by its reason", "[gateway][attempt_meaning]") {
  using gateway::retry_reason;
  CHECK(gateway::meaning_of(end::put_back).counted_as == retry_reason::refused);
  CHECK(gateway::meaning_of(end::lost).counted_as == retry_reason::lost);
  CHECK(gateway::meaning_of(end::first_byte_late).counted_as == retry_reason::late);
  CHECK(gateway::meaning_of(end::unreachable).counted_as == retry_reason::connect);
  CHECK(gateway::meaning_of(end::connect_timed_out).counted_as == retry_reason::connect);
}
