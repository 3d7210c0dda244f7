#include "verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace demo {

using namespace std::chrono_literals;

judge::judge(canigo::rate quota, std::uint64_t burst, canigo::duration tolerance)
    : quota_{quota}, burst_{burst}, tolerance_{tolerance} {}

std::uint64_t judge::allowed_in(canigo::duration window) const {
  const auto periods =
      static_cast<double>((window + tolerance_).count()) / static_cast<double>(quota_.period().count());
  return burst_ + static_cast<std::uint64_t>(periods * static_cast<double>(quota_.tokens()));
}

std::size_t judge::most_in_a_period() const {
  std::size_t most = 0;
  for (std::size_t first = 0, last = 0; last < arrivals_.size(); ++last) {
    while (arrivals_[last].at - arrivals_[first].at > quota_.period()) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

bool judge::is_kept() const {
  for (std::size_t first = 0; first < arrivals_.size(); ++first) {
    for (std::size_t last = first; last < arrivals_.size(); ++last) {
      if (last - first + 1 > allowed_in(arrivals_[last].at - arrivals_[first].at)) return false;
    }
  }
  return true;
}

std::size_t judge::refused() const {
  return static_cast<std::size_t>(
      std::count_if(arrivals_.begin(), arrivals_.end(), [](const arrival& a) { return a.refused; }));
}

std::string judge::order() const {
  std::string classes;
  for (const arrival& a : arrivals_) {
    if (!a.refused) classes += a.priority < 10 ? fmt::to_string(a.priority) : fmt::format("({})", a.priority);
  }
  return classes;
}

std::string judge::text() const {
  const auto span = arrivals_.empty() ? 0ns : arrivals_.back().at - arrivals_.front().at;
  return fmt::format(
      "requests         {} in {} ms, {} of them refused\n"
      "quota            {} and a burst of {}\n"
      "worst {:<10} {} requests, {} are allowed\n"
      "order by class   {}\n"
      "verdict          {}\n",
      arrivals_.size(), span / 1ms, refused(), canigo::to_string(quota_), burst_, canigo::to_string(quota_.period()),
      most_in_a_period(), allowed_in(quota_.period()), order(),
      is_kept() ? "the quota was kept" : "THE QUOTA WAS EXCEEDED");
}

std::string judge::json() const {
  return fmt::format(
      R"({{"requests":{},"refused":{},"most_in_a_period":{},"allowed_in_a_period":{},"order":"{}","kept":{}}})"
      "\n",
      arrivals_.size(), refused(), most_in_a_period(), allowed_in(quota_.period()), order(), is_kept());
}

}  // namespace demo
