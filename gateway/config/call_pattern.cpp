#include "gateway/config/call_pattern.hpp"

#include "gateway/wire/text.hpp"

#include <algorithm>

namespace canigo::gateway {
namespace {

/// Whether the pattern matches the whole path. A '*' matches any number of bytes other than '/'. Each '*' first matches
/// no byte. After a mismatch, the last '*' matches one byte more. An earlier '*' is not tried again: if the last '*'
/// can't make the pattern match, a longer match of the earlier one can't either.
bool fits(std::string_view pattern, std::string_view path) noexcept {
  std::size_t p = 0, at = 0;
  std::size_t star = pattern.npos, resume = 0;
  while (at < path.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = at;
    } else if (p < pattern.size() && pattern[p] == path[at]) {
      ++p;
      ++at;
    } else if (star != pattern.npos && path[resume] != '/') {
      p = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

/// Whether the pattern matches the whole path or a suffix of the path.
bool fits_an_end(std::string_view pattern, std::string_view path) noexcept {
  if (pattern.find('*') == pattern.npos) return path.ends_with(pattern);
  for (std::size_t at = 0; at <= path.size(); ++at)
    if (fits(pattern, path.substr(at))) return true;
  return false;
}

/// Whether a part of a path is "." or "..". A dot may also be written as %2e.
bool is_of_dots(std::string_view part) noexcept {
  int dots = 0;
  while (!part.empty()) {
    const bool is_written_out = part.size() >= 3 && same_text(part.substr(0, 3), "%2e");
    if (!is_written_out && part.front() != '.') return false;
    part.remove_prefix(is_written_out ? 3 : 1);
    ++dots;
  }
  return dots == 1 || dots == 2;
}

/// Returns the length of the separator at the beginning of a text: a slash or a backslash, plain or percent-encoded,
/// because some servers take each of them as a separator. Returns 0 if the text begins with no separator.
std::size_t separator_size(std::string_view text) noexcept {
  if (text.starts_with('/') || text.starts_with('\\')) return 1;
  const std::string_view code = text.substr(0, 3);
  return same_text(code, "%2f") || same_text(code, "%5c") ? 3 : 0;
}

}  // namespace

bool may_be_another_path(std::string_view path, bool may_end_with_slash) noexcept {
  const auto is_parameter = [](std::string_view from) {
    return from.front() == ';' || same_text(from.substr(0, 3), "%3b");
  };
  for (std::size_t at = 0; at < path.size(); ++at)
    if (is_parameter(path.substr(at))) return true;
  std::size_t begin = path.npos;  // where the current part of the path begins; npos: no slash was found yet
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t size = separator_size(path.substr(at));
    const bool is_end = at == path.size();
    if (size == 0 && !is_end) {
      ++at;
      continue;
    }
    if (begin != path.npos) {
      const std::string_view part = path.substr(begin, at - begin);
      if ((part.empty() && !(is_end && may_end_with_slash)) || is_of_dots(part)) return true;
    }
    at += std::max<std::size_t>(size, 1);
    begin = at;
  }
  return false;
}

bool call_pattern::matches(std::string_view called, std::string_view target) const noexcept {
  if (called != method) return false;
  const std::string_view pattern = path, all = target.substr(0, target.find('?'));
  if (pattern == "*") return true;
  // Most paths match no pattern. So the pattern is checked first, and the parts of the path are inspected only after a
  // match.
  const bool has_form = pattern.starts_with('*') ? fits_an_end(pattern.substr(1), all) : fits(pattern, all);
  return has_form && !may_be_another_path(all, pattern.ends_with('/'));
}

std::optional<call_pattern> parse_call_pattern(std::string_view text) {
  const auto space = text.find(' ');
  const std::string_view method = text.substr(0, space);
  const std::string_view path = space == text.npos ? std::string_view{} : text.substr(space + 1);
  const bool begins_well = path.starts_with('/') || path.starts_with('*');
  const bool is_plain = std::ranges::all_of(path, [](char c) { return c > ' ' && c < '\x7f' && c != '?' && c != '#'; });
  if (method.empty() || !std::ranges::all_of(method, is_letter) || !begins_well || !is_plain) return std::nullopt;
  return call_pattern{std::string{method}, std::string{path}};
}

}  // namespace canigo::gateway
