#include "seconds.hpp"

#include "text.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <string>

namespace canigo::http::detail {

std::optional<std::chrono::system_clock::time_point> parse_date(std::string_view text) {
  // curl_getdate takes much for a date, a bare number for instance; every form that HTTP allows begins with the
  // weekday.
  constexpr std::size_t longest = 64;
  if (text.empty() || !is_letter(text.front()) || text.size() > longest) return std::nullopt;
  const std::time_t t = curl_getdate(std::string{text}.c_str(), nullptr);
  if (t == -1) return std::nullopt;
  // The clock counts nanoseconds in 64 bits, which end in 2262.
  constexpr std::time_t last = 8'000'000'000;
  return std::chrono::system_clock::from_time_t(std::clamp<std::time_t>(t, 0, last));
}

}  // namespace canigo::http::detail
