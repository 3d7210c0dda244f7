#include "response_head.hpp"

#include "canigo/error.hpp"
#include "canigo/http/error.hpp"

#include "text.hpp"

#include <algorithm>
#include <charconv>

namespace canigo::http::detail {
namespace {

/// Whether this is a status line of HTTP/1.0, 1.1, 2 or 3. curl also accepts incomplete lines, such as "HTTP 200".
bool is_status_line(std::string_view line) noexcept {
  constexpr std::string_view protocol = "HTTP/";
  if (!line.starts_with(protocol)) return false;
  line.remove_prefix(protocol.size());
  for (const std::string_view version : {"1.1 ", "1.0 ", "2 ", "2.0 ", "3 ", "3.0 "}) {
    if (!line.starts_with(version)) continue;
    line.remove_prefix(version.size());
    constexpr std::size_t digits = 3;
    return line.size() > digits && line[0] != '0' && std::ranges::all_of(line.substr(0, digits), is_digit) &&
           is_blank(line[digits]);
  }
  return false;
}

}  // namespace

std::error_code response_head::take(std::string_view line, headers& fields, const headers& asked) {
  // The bytes of all redirects and interim responses are counted, because a server may send interim responses
  // endlessly.
  bytes_ += line.size();
  if (bytes_ > most_bytes_) return errc::too_large;
  if (!is_inside_ && (line.starts_with("HTTP/") || !is_complete_)) return begin(line, fields, asked);
  if (line == "\r\n" || line == "\n") {
    is_inside_ = false;
    is_complete_ = true;
    return {};
  }
  if (line.starts_with(' ') || line.starts_with('\t')) {
    if (const auto more = trim(line); !more.empty() && !fields.empty()) {
      if (!fields[fields.size() - 1].value.empty()) fields.append_to_last(" ");
      fields.append_to_last(more);
    }
    return {};
  }
  // A line without a colon is a name without a value.
  const auto colon = std::min(line.find(':'), line.size() - 1);
  const auto name = trim(line.substr(0, colon));
  const auto value = trim(line.substr(colon + 1));
  if (is_inside_ && same_text(name, "Content-Length") && !take_length(value)) return error::weird_server_reply;
  fields.add(name, value);
  return {};
}

std::error_code response_head::begin(std::string_view status_line, headers& fields, const headers& asked) {
  if (!is_status_line(status_line)) return error::weird_server_reply;
  // Rejects an answer 101 to a request without the field Upgrade, because the bytes after a 101 are not HTTP.
  constexpr std::string_view switching = "101";
  const auto status = status_line.substr(status_line.find(' ') + 1);
  if (status.starts_with(switching) && !asked.contains("Upgrade")) return error::weird_server_reply;
  fields.clear();
  length_ = {};
  is_complete_ = false;
  is_inside_ = true;
  return {};
}

/// Reads the value of Content-Length. Returns false if the length differs from an earlier one, or is no number. The end
/// of the body is then unknown, and with it the beginning of the next response.
bool response_head::take_length(std::string_view value) noexcept {
  std::uint64_t length = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), length);
  const bool is_number = failed == std::errc{} && end == value.data() + value.size();
  if (!is_number || length_.value_or(length) != length) return false;
  length_ = length;
  return true;
}

}  // namespace canigo::http::detail
