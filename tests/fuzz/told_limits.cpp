// Fields of responses from anywhere, read for what they tell of limits: each time is within
// its bound, and what is told twice says no more than once.

#include "canigo/detail/told/told_limits.hpp"

#include "target.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::detail::told_limits;

namespace {

told_limits read(std::string_view text, duration most, int times) {
  canigo::detail::limit_fields fields;
  for (int i = 0; i < times; ++i) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      const std::string_view name = line.substr(0, line.find(':'));
      fields.take(name, line.substr(std::min(name.size() + 1, line.size())));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  }
  return fields.read(std::chrono::system_clock::time_point{1'700'000'000s}, most);
}

void check(const told_limits& told, duration most) {
  const auto is_bounded = [&](const std::optional<duration>& d) { return !d || (*d >= 0s && *d <= most); };
  fuzz::require(is_bounded(told.retry_after) && is_bounded(told.wait_of_refusal()), "a wait is within its bound");
  fuzz::require(is_bounded(told.reset_of_used_up(false)), "so is the reset of a quota");
  fuzz::require(told.quotas().size() <= told_limits::most_quotas, "there are no more quotas than there is room for");
  for (const auto& q : told.quotas()) {
    fuzz::require(q.left.has_value() && is_bounded(q.reset), "a quota has a rest, and a reset within the bound");
    fuzz::require(!q.window || *q.window >= 0s, "a window does not end before it begins");
  }
}

bool same(const told_limits& a, const told_limits& b) {
  return a.retry_after == b.retry_after && a.forbids_retry == b.forbids_retry &&
         std::ranges::equal(a.quotas(), b.quotas(), [](const auto& x, const auto& y) {
           return x.unit == y.unit && x.resource == y.resource && x.limit == y.limit && x.left == y.left &&
                  x.window == y.window && x.reset == y.reset;
         });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  const std::uint8_t how = in.byte();
  const duration most = how % 4 == 0 ? duration::max() : how % 4 == 1 ? duration{} : duration{1h};
  const told_limits told = read(in.text(), most, 1);
  check(told, most);
  fuzz::require(same(told, read(in.text(), most, 2)), "a field that is repeated adds nothing");
  return 0;
}
