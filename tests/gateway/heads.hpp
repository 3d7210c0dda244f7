#pragma once

#include "gateway/wire/message.hpp"

#include <string>
#include <string_view>

namespace gateway_test {

/// Parses a head from a text with line feeds: "GET /x HTTP/1.1\nHost: a\n". Values are not trimmed.
inline canigo::gateway::message_head head_of(std::string_view text) {
  canigo::gateway::message_head head;
  const auto line_of = [&text] {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    return line;
  };
  std::string_view first = line_of();
  const auto space = first.find(' ');
  const auto last = first.rfind(' ');
  head.method = first.substr(0, space);
  head.target = first.substr(space + 1, last - space - 1);
  head.version = first.substr(last + 1) == "HTTP/1.0" ? 10 : 11;
  while (!text.empty()) {
    const std::string_view line = line_of();
    const auto colon = line.find(':');
    const std::string_view value = line.substr(colon + 1);
    head.fields.push_back(
        {std::string{line.substr(0, colon)}, std::string{value.starts_with(' ') ? value.substr(1) : value}});
  }
  return head;
}

}  // namespace gateway_test
