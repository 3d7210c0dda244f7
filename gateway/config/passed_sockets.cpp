#include "gateway/config/passed_sockets.hpp"

#include <charconv>
#include <optional>
#include <string_view>

namespace canigo::gateway {
namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view digits{text};
  int n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return n;
}

}  // namespace

std::vector<passed_socket> read_passed_sockets(const char* pid, const char* count, const char* names, int own_pid) {
  constexpr int first = 3;  // the first passed descriptor; 0 to 2 are the standard streams
  constexpr int most = 1024;
  const auto n = number(count);
  if (number(pid) != own_pid || !n || *n < 1 || *n > most) return {};
  std::vector<passed_socket> found;
  for (int i = 0; i < *n; ++i) found.push_back({first + i, "unknown"});
  if (names == nullptr) return found;
  std::string_view rest{names};
  for (passed_socket& s : found) {
    const auto colon = rest.find(':');
    const bool is_last = &s == &found.back();
    if ((colon == rest.npos) != is_last) return {};  // the number of names differs from the number of sockets
    s.name = rest.substr(0, colon);
    rest.remove_prefix(is_last ? rest.size() : colon + 1);
  }
  return found;
}

}  // namespace canigo::gateway
