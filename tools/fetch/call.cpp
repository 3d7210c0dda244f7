#include "call.hpp"

#include "json_call.hpp"
#include "text.hpp"
#include "url.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

namespace fetch {

namespace {

std::string_view trimmed(std::string_view s) {
  constexpr std::string_view blank = " \t\r";
  const auto first = s.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(blank) - first + 1);
}

}  // namespace

std::size_t call::size() const {
  std::size_t sum = sizeof(call) + url.capacity() + file.capacity() + method.capacity() + body_file.capacity();
  for (const auto h : headers) sum += sizeof(h) + h.name.size() + h.value.size();
  return sum + (body ? body->capacity() : 0) + (id ? id->capacity() : 0);
}

std::string call::id_as_json() const {
  if (!id) return "null";
  return id_is_number ? *id : json_text(*id);
}

void call::failed(const std::system_error& e) {
  error = failed_with = e.code();
  problem = in_words_of_options(e.what());
}

parsed_line parse_line(std::string_view line, int priorities) {
  line = trimmed(line);
  if (line.empty() || line.front() == '#') return {};
  if (line.front() == '{') return parse_json(line, priorities);
  const auto gap = line.find_first_of(" \t");
  if (gap == std::string_view::npos) return {{}, "expected PRIORITY URL, or a JSON object"};
  const std::string_view number = line.substr(0, gap);
  int priority = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), priority);
  if (error != std::errc{} || end != number.data() + number.size() || priority < 0 || priority >= priorities) {
    return {{}, fmt::format("priority is {}; allowed: 0 to {}", printable_url(number).substr(0, 40), priorities - 1)};
  }
  const std::string_view url = trimmed(line.substr(gap));
  if (!is_http(url)) {
    return {{}, fmt::format("URL is {}; allowed: http://HOST… or https://HOST…", printable_url(url).substr(0, 80))};
  }
  if (url.find_first_of(" \t") != std::string_view::npos) return {{}, "more than PRIORITY URL"};
  call c;
  c.priority = priority;
  c.url = url;
  return {std::move(c), {}};
}

}  // namespace fetch
