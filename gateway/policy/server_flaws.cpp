#include "gateway/policy/server_flaws.hpp"

#include "gateway/policy/text.hpp"

#include <algorithm>

namespace canigo::gateway {
namespace {

constexpr std::string_view line_end = "\r\n";

constexpr bool is_hex(char c) noexcept { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

/// Where the line begins: the end of the last chunk's bytes comes first.
std::size_t start_of_line(std::string_view input) noexcept { return input.starts_with(line_end) ? line_end.size() : 0; }

}  // namespace

std::optional<mended_text> mend_status_line(std::string_view input) {
  constexpr std::string_view version = "HTTP/1.";
  constexpr std::size_t status = 9;
  constexpr std::size_t end = 12;
  if (!input.starts_with(version) || !input.substr(std::min(end, input.size())).starts_with(line_end)) return {};
  if (!is_digit(input[version.size()]) || input[status - 1] != ' ' ||
      !std::ranges::all_of(input.substr(status, end - status), is_digit)) {
    return {};
  }
  mended_text mended{.text = {}, .at = end, .added = 1};
  mended.text.reserve(input.size() + 1);
  mended.text.append(input.substr(0, end)).append(1, ' ').append(input.substr(end));
  return mended;
}

std::optional<mended_text> mend_chunk_line(std::string_view input) {
  std::size_t end = start_of_line(input);
  const std::size_t start = end;
  while (end < input.size() && is_hex(input[end])) ++end;
  std::size_t blanks = 0;
  while (end + blanks < input.size() && (input[end + blanks] == ' ' || input[end + blanks] == '\t')) ++blanks;
  if (end == start || blanks == 0 || !input.substr(end + blanks).starts_with(line_end)) return {};
  mended_text mended{.text = {}, .at = end, .dropped = blanks};
  mended.text.reserve(input.size() - blanks);
  mended.text.append(input.substr(0, end)).append(input.substr(end + blanks));
  return mended;
}

bool has_chunk_line(std::string_view input) noexcept {
  return input.find(line_end, start_of_line(input)) != std::string_view::npos;
}

}  // namespace canigo::gateway
