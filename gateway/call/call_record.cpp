#include "gateway/call/call_record.hpp"

#include "gateway/policy/fields.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace canigo::gateway {
namespace {

/// Removes the query, the user and the password from a request target or a Host value. If the result is not a substring
/// of `target`, stores the result in the member `own` of the record's texts.
std::string_view without_secrets(std::string_view target, call_record& r, std::string call_texts::* own) {
  target = target.substr(0, target.find('?'));
  target = target.substr(0, target.find('#'));
  if (target.starts_with('/')) return target;
  const auto scheme = target.find("://");
  const std::size_t start = scheme == target.npos ? 0 : scheme + 3;
  const std::string_view authority = target.substr(start, target.find('/', start) - start);
  const auto at = authority.rfind('@');
  if (at == authority.npos) return target;
  return texts_of(r).*own = std::string{target.substr(0, start)}.append(target.substr(start + at + 1));
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
  r.host = without_secrets(value_of(head, "host").value_or(""), r, &call_texts::host);
  r.path = without_secrets(head.target, r, &call_texts::path);
  r.wants_problem = std::ranges::any_of(head.fields, [](const field& f) {
    return same_text(f.name, "Accept") && f.value.find("application/problem+json") != f.value.npos;
  });
  return r;
}

}  // namespace canigo::gateway
