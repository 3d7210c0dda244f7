#include "gateway/call/attempt_meaning.hpp"

#include <array>
#include <cstddef>

namespace canigo::gateway {
namespace {

struct row {
  attempt_end end;
  attempt_meaning means;
};

using again = another_attempt;
using kind = attempt_end_kind;

// One row for each value of attempt_end, in the order of the enumeration.
constexpr std::array table{
    row{attempt_end::complete, {.place = settlement::charge}},
    row{attempt_end::put_back,
        {.again = again::follows, .counted_as = retry_reason::refused, .place = settlement::release}},
    row{attempt_end::unreachable,
        {.again = again::always,
         .for_breaker = kind::unreachable,
         .place = settlement::give_back,
         .status = 502,
         .error = "upstream_failed",
         .detail = "no connection to the upstream"}},
    row{attempt_end::connect_timed_out,
        {.again = again::always,
         .for_breaker = kind::unreachable,
         .place = settlement::give_back,
         .status = 504,
         .error = "upstream_timeout",
         .detail = "no connection to the upstream in time"}},
    row{attempt_end::forbidden,
        {.place = settlement::give_back,
         .status = 403,
         .error = "destination_forbidden",
         .detail = "the upstream's name leads to an address that is not public"}},
    row{attempt_end::loop,
        {.place = settlement::give_back,
         .status = 508,
         .error = "loop",
         .detail = "the destination is this gateway itself"}},
    row{attempt_end::lost,
        {.again = again::if_safe,
         .counted_as = retry_reason::lost,
         .for_breaker = kind::lost,
         .status = 502,
         .error = "upstream_failed",
         .detail = "the upstream closed the connection unanswered"}},
    row{attempt_end::first_byte_late,
        {.again = again::if_safe,
         .counted_as = retry_reason::late,
         .for_breaker = kind::lost,
         .status = 504,
         .error = "upstream_timeout",
         .detail = "the upstream did not answer in time"}},
    row{attempt_end::bad_response,
        {.for_breaker = kind::lost,
         .status = 502,
         .error = "upstream_failed",
         .detail = "the upstream's answer is no HTTP/1.1"}},
    row{attempt_end::body_failed, {}},
    row{attempt_end::cut, {.logged = "upstream_failed"}},
    row{attempt_end::outrun, {}},
    row{attempt_end::client_lost, {}},
    row{attempt_end::client_stalled, {.logged = "stalled"}},
    row{attempt_end::idle, {.logged = "idle"}},
    row{attempt_end::no_events,
        {.place = settlement::charge,
         .status = 502,
         .error = "no_events",
         .detail = "the upstream's answer is no stream of events"}},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].end) != i) return false;
  return static_cast<std::size_t>(attempt_end::no_events) + 1 == table.size();
}
static_assert(is_in_order());

}  // namespace

const attempt_meaning& meaning_of(attempt_end end) noexcept { return table[static_cast<std::size_t>(end)].means; }

}  // namespace canigo::gateway
