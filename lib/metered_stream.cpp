#include "canigo/metered_stream.hpp"

#include "canigo/error.hpp"

#include <string>
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
    if (e.code() == errc::stopped) return;  // each operation says that
    throw std::system_error{e.code(), std::string{"metered_stream_options."} + direction + ": no step of " +
                                          std::to_string(chunk) + " bytes, the chunk, can ever be granted"};
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
    return false;  // an acquire tells why
  }
}

}  // namespace canigo::detail
