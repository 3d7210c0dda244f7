#include "canigo/time.hpp"

#include <string_view>

namespace canigo {
namespace {

struct printed_unit {
  duration length;
  std::string_view name;
};

constexpr printed_unit printed_units[] = {{std::chrono::hours{24}, "d"},        {std::chrono::hours{1}, "h"},
                                          {std::chrono::minutes{1}, "m"},       {std::chrono::seconds{1}, "s"},
                                          {std::chrono::milliseconds{1}, "ms"}, {std::chrono::microseconds{1}, "us"}};

}  // namespace

std::string to_string(duration span) {
  if (span == duration::zero()) return "0s";
  for (const printed_unit& u : printed_units)
    if (span % u.length == duration::zero()) return std::to_string(span / u.length).append(u.name);
  return std::to_string(span.count()).append("ns");
}

}  // namespace canigo
