#include "canigo/metered_stream.hpp"

#include "canigo/error.hpp"

#include <string>
#include <string_view>
#include <tuple>

namespace canigo::detail {
namespace {

void check_direction(const metering& m, std::size_t chunk, const char* direction) {
  if (m.limit == nullptr) return;
  request step = m.request;
  step.tokens = chunk;
  step.deadline = {};
  try {
    std::ignore = m.limit->estimate(step);
  } catch (const std::system_error& e) {
    // If the scheduler was stopped, this check throws nothing, because each later operation of the stream reports
    // errc::stopped.
    if (e.code() == errc::stopped) return;
    if (e.code() == errc::too_large) {
      throw_invalid("metered_stream_options.chunk", chunk, std::string{"1 to the burst of the limit of "} + direction,
                    errc::too_large);
    }
    const std::string field = std::string{"metered_stream_options."} + direction + ".request";
    if (e.code() == errc::invalid_priority) {
      throw_invalid(field + ".priority", step.priority, "a class of the limit", errc::invalid_priority);
    }
    // The text of `e` ends with the message of its code. This message is cut off, because the constructor of the new
    // exception appends it again.
    const std::string_view why = e.what();
    throw std::system_error{
        e.code(), field + " is one that the limit never grants: " + std::string{why.substr(0, why.rfind(": "))}};
  }
}

}  // namespace

void check_metering(const metered_stream_options& o) {
  if (o.chunk < 1) throw_invalid("metered_stream_options.chunk", o.chunk, "1 or more");
  check_direction(o.read, o.chunk, "read");
  check_direction(o.write, o.chunk, "write");
}

bool takes_at_once(scheduler& limit, const request& r) noexcept {
  try {
    return limit.try_acquire(r);
  } catch (const std::system_error&) {
    return false;  // the caller then calls acquire(), which throws the same error as try_acquire()
  }
}

}  // namespace canigo::detail
