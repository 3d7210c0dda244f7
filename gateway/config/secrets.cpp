#include "gateway/config/secrets.hpp"

#include "gateway/config/file_kind.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace canigo::gateway {
namespace {

/// The max number of bytes of a secret.
constexpr std::size_t most_bytes = 64 << 10;

std::optional<std::string> read_file(const std::string& path) {
  // A pipe or a device is refused, because reading it may block for ever.
  if (!is_readable_file(path)) return std::nullopt;
  std::ifstream file{path, std::ios::binary};
  std::string text(most_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.eof()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::optional<secret> read_secret(const text_at& source, report& problems) {
  constexpr std::string_view env = "env:", file = "file:";
  std::optional<std::string> value;
  if (source.text.starts_with(env) && source.text.size() > env.size()) {
    if (const char* found = std::getenv(source.text.c_str() + env.size())) value = found;
    if (!value) problems.refuse_text(source.where, source.field, source.text, "an environment variable that is set");
  } else if (source.text.starts_with("file:/")) {
    value = read_file(source.text.substr(file.size()));
    if (!value) problems.refuse_text(source.where, source.field, source.text, "a file that can be read, up to 64KiB");
  } else {
    problems.complain(source.where, source.field,
                      "is not shown here; allowed: env:NAME or file:/PATH, never the secret");
  }
  if (!value) return std::nullopt;
  while (!value->empty() && (value->back() == '\n' || value->back() == '\r')) value->pop_back();
  if (value->empty()) {
    problems.complain(source.where, source.field, fmt::format("is \"{}\", which is empty", source.text));
    return std::nullopt;
  }
  return secret{source.text, std::move(*value)};
}

bool is_readable_file(const std::string& path) {
  return path.starts_with('/') && is_regular_file(path) && std::ifstream{path}.good();
}

}  // namespace canigo::gateway
