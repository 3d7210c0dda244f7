#include "name_template.hpp"

#include <canigo/error.hpp>

#include "text.hpp"
#include "url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace fetch {

namespace {

constexpr std::size_t longest_part = 255;

[[noreturn]] void refuse(const std::string& why) {
  throw std::system_error{canigo::make_error_code(canigo::errc::invalid_argument), why};
}

bool is_harmless(char c) {
  constexpr std::string_view some = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~@=+,%";
  return some.find(c) != std::string_view::npos;
}

std::string tamed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool would_hide = out.empty() && c == '.';
    if (is_harmless(c) && !would_hide) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

/// Calls `f` with each part of the text between slashes.
template <class F>
void each_part(std::string_view path, F&& f) {
  for (;;) {
    const auto slash = std::min(path.find('/'), path.size());
    f(path.substr(0, slash));
    if (slash == path.size()) return;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

name_template::place name_template::place_called(std::string_view name) {
  if (name == "order") return place::order;
  if (name == "class") return place::priority;
  if (name == "id") return place::id;
  if (name == "host") return place::host;
  if (name == "file") return place::file;
  refuse(fmt::format("{{{}}} is unknown; allowed: {{order}}, {{class}}, {{id}}, {{host}}, {{file}}", printable(name)));
}

name_template::name_template(std::string_view text) {
  each_part(text, [](std::string_view part) {
    if (part.empty()) refuse("a part of it is empty; allowed: a path below the folder, not only a folder");
    if (part == "." || part == "..") refuse("a part of it is . or ..; allowed: a path below the folder");
  });
  while (!text.empty()) {
    const auto brace = std::min(text.find_first_of("{}"), text.size());
    if (brace > 0) parts_.emplace_back(std::string{text.substr(0, brace)});
    text.remove_prefix(brace);
    if (text.empty()) break;
    const auto end = text.find('}');
    if (text.front() == '}' || end == std::string_view::npos) refuse("a brace is alone; allowed: pairs, as in {order}");
    parts_.emplace_back(place_called(text.substr(1, end - 1)));
    text.remove_prefix(end + 1);
  }
}

name_template::result name_template::name_of(const call& c) const {
  std::string name;
  for (const auto& part : parts_) {
    if (const auto* text = std::get_if<std::string>(&part)) {
      name += *text;
      continue;
    }
    switch (std::get<place>(part)) {
      case place::order:
        name += fmt::to_string(c.order);
        break;
      case place::priority:
        name += fmt::to_string(c.priority);
        break;
      case place::id:
        if (!c.id) return {{}, "there is no id, which --name needs"};
        name += tamed(*c.id);
        break;
      case place::host:
        name += tamed(host_of(c.url));
        break;
      case place::file:
        name += tamed(file_of(c.url));
        break;
    }
  }
  std::string problem;
  each_part(name, [&](std::string_view part) {
    if (part.empty() || part == "." || part == "..") {
      problem = fmt::format("a part of its file's name is '{}'; allowed: any other", part);
    } else if (part.size() > longest_part) {
      problem = fmt::format("a part of its file's name has {} bytes; allowed: up to {}", part.size(), longest_part);
    }
  });
  if (!problem.empty()) return {{}, problem};
  return {std::move(name), {}};
}

}  // namespace fetch
