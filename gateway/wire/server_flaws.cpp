#include "gateway/wire/server_flaws.hpp"

#include "gateway/wire/text.hpp"

#include <algorithm>

namespace canigo::gateway {
namespace {

constexpr std::string_view line_end = "\r\n";

constexpr bool is_hex(char c) noexcept { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

constexpr std::size_t status_end = 12;

/// Whether the input begins with the version and the status of a status line, such as "HTTP/1.1 200".
bool begins_with_status(std::string_view input) noexcept {
  constexpr std::string_view version = "HTTP/1.";
  constexpr std::size_t status = 9;
  return input.size() >= status_end && input.starts_with(version) && is_digit(input[version.size()]) &&
         input[status - 1] == ' ' && std::ranges::all_of(input.substr(status, status_end - status), is_digit);
}

/// Returns the position of the line with a chunk's size. If the input begins with the line break that ends the data of
/// the previous chunk, the line begins after this line break.
std::size_t start_of_line(std::string_view input) noexcept { return input.starts_with(line_end) ? line_end.size() : 0; }

}  // namespace

std::optional<mended_text> mend_status_line(std::string_view input) {
  if (!begins_with_status(input) || !input.substr(status_end).starts_with(line_end)) return {};
  mended_text mended{.text = {}, .at = status_end, .added = 1};
  mended.text.reserve(input.size() + 1);
  mended.text.append(input.substr(0, status_end)).append(1, ' ').append(input.substr(status_end));
  return mended;
}

bool ends_within_status_line(std::string_view input) noexcept {
  return begins_with_status(input) && input.substr(status_end) == line_end.substr(0, 1);
}

std::optional<mended_text> mend_chunk_line(std::string_view input) {
  std::size_t end = start_of_line(input);
  const std::size_t start = end;
  while (end < input.size() && is_hex(input[end])) ++end;
  std::size_t blanks = 0;
  while (end + blanks < input.size() && (input[end + blanks] == ' ' || input[end + blanks] == '\t')) ++blanks;
  if (end == start || blanks == 0 || !input.substr(end + blanks).starts_with(line_end)) return {};
  const bool is_last = std::ranges::all_of(input.substr(start, end - start), [](char c) { return c == '0'; });
  const std::string_view rest = input.substr(end + blanks, is_last ? input.npos : line_end.size());
  mended_text mended{.text = {}, .at = end, .dropped = blanks, .is_line = !is_last};
  mended.text.reserve(end + rest.size());
  mended.text.append(input.substr(0, end)).append(rest);
  return mended;
}

bool has_chunk_line(std::string_view input) noexcept {
  return input.find(line_end, start_of_line(input)) != std::string_view::npos;
}

}  // namespace canigo::gateway
