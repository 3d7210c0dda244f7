#include "text.hpp"

#include "url.hpp"

#include <fmt/format.h>

#include <utility>

namespace fetch {

std::string in_words_of_options(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"timeout", "--timeout"}, {"ca_file", "--cacert"},    {"cert_file", "--cert"},
      {"key_file", "--key"},    {"key_password", "--pass"}, {"allow_address", "--no-private"}};
  for (const auto& [theirs, ours] : names) {
    const std::string with_prefix = fmt::format("client_options.{}", theirs);
    if (const auto at = text.find(with_prefix); at != std::string::npos) text.replace(at, with_prefix.size(), ours);
    // A path before "allowed:" may contain the name of an option, too. So the name is replaced only after "allowed:".
    if (const auto at = text.find(theirs, text.find("allowed:")); at < text.size())
      text.replace(at, theirs.size(), ours);
  }
  return text;
}

std::string printable_url(std::string_view url) { return printable(without_credentials(url)); }
std::string json_url(std::string_view url) { return json_text(without_credentials(url)); }

}  // namespace fetch
