#include "gateway/call/call_record.hpp"

#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

/// A target, or a Host, without the query, and without a user and a password.
std::string without_secrets(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.starts_with('/')) return std::string{target};
  const auto scheme = target.find("://");
  const std::size_t start = scheme == target.npos ? 0 : scheme + 3;
  const std::string_view authority = target.substr(start, target.find('/', start) - start);
  const auto at = authority.rfind('@');
  if (at == authority.npos) return std::string{target};
  return std::string{target.substr(0, start)}.append(target.substr(start + at + 1));
}

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string{text};
  return std::string{text.substr(0, most)} + "…";
}

call_record begin_record(const message_head& head, std::string id) {
  call_record r;
  r.time = std::chrono::system_clock::now();
  r.since = std::chrono::steady_clock::now();
  r.id = std::move(id);
  r.method = head.method;
  r.host = without_secrets(value_of(head, "host").value_or(""));
  r.path = without_secrets(head.target);
  r.wants_problem = std::ranges::any_of(head.fields, [](const field& f) {
    return same_text(f.name, "Accept") && f.value.find("application/problem+json") != f.value.npos;
  });
  return r;
}

}  // namespace canigo::gateway
