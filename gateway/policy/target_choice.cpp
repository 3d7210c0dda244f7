#include "gateway/policy/target_choice.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/policy/routes.hpp"
#include "gateway/wire/text.hpp"

#include <algorithm>
#include <utility>

namespace canigo::gateway {
namespace {

// Hashes a text with FNV-1a and the finalizer of MurmurHash3. So keys that differ in one bit get hashes that differ in
// about half of the bits.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t from = 0xcbf29ce484222325) noexcept {
  for (const char c : text) from = (from ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return from;
}
constexpr std::uint64_t mixed(std::uint64_t n) noexcept {
  n = (n ^ n >> 33) * 0xff51afd7ed558ccd;
  n = (n ^ n >> 33) * 0xc4ceb9fe1a85ec53;
  return n ^ n >> 33;
}

/// Percent-encodes all characters except the unreserved ones (RFC 3986, 2.3).
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (unreserved_characters.has(c)) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append(1, '%').append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    }
  }
  return encoded;
}

/// Returns the value of a cookie; nothing if the request has no such cookie, or an empty one.
std::optional<std::string_view> cookie_of(const message_head& head, std::string_view name) noexcept {
  for (const field& f : head.fields) {
    if (!same_text(f.name, "Cookie")) continue;
    std::string_view rest = f.value;
    while (!rest.empty()) {
      const auto end = rest.find(';');
      const std::string_view one = trim(rest.substr(0, end));
      if (one.size() > name.size() + 1 && one.starts_with(name) && one[name.size()] == '=')
        return one.substr(name.size() + 1);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
  }
  return std::nullopt;
}

constexpr std::string_view place_of_model = "{model}";

/// Returns the element of target::paths that changes the path `rest`; null if there is none. `rest`: the path of a
/// request without the upstream's prefix.
const path_change* change_of(const target& t, std::string_view rest) noexcept {
  const auto found = std::ranges::find(t.paths, rest, &path_change::from);
  return found == t.paths.end() ? nullptr : &*found;
}

std::string_view without_query(std::string_view path) noexcept { return path.substr(0, path.find('?')); }

}  // namespace

target_set targets_of(const upstream& u) noexcept {
  const std::size_t n = std::max<std::size_t>(u.targets.size(), 1);
  return all_targets >> (most_targets - n);
}

target_set serving(const upstream& u, std::string_view model) noexcept {
  if (model.empty() || u.targets.empty()) return targets_of(u);
  target_set found = 0;
  for (std::size_t i = 0; i < u.targets.size(); ++i) {
    const std::vector<std::string>& models = u.targets[i].models;
    const bool serves =
        models.empty() || std::ranges::any_of(models, [&](const std::string& m) { return is_of_model(m, model); });
    if (serves) found |= target_set{1} << i;
  }
  return found;
}

target_set callable_without_model(const upstream& u, std::string_view path) noexcept {
  target_set found = targets_of(u);
  const std::string_view rest = behind_prefix(u, without_query(path));
  for (std::size_t i = 0; i < u.targets.size(); ++i) {
    const path_change* const change = change_of(u.targets[i], rest);
    if (change != nullptr && change->to.find(place_of_model) != std::string::npos) found &= ~(target_set{1} << i);
  }
  return found;
}

std::vector<target_set> substitutes(const upstream& u, std::size_t target) {
  std::vector<target_set> found;
  for (const std::string& entry : u.targets[target].models) found.push_back(serving(u, entry));
  if (!found.empty()) return found;
  target_set unlisted = 0;
  for (std::size_t i = 0; i < u.targets.size(); ++i)
    if (u.targets[i].models.empty()) unlisted |= target_set{1} << i;
  return {unlisted};
}

upstream settings_at(const upstream& u, const target& t) {
  upstream at = u;
  at.targets.clear();
  at.url = t.url;
  at.credential = t.credential;
  at.provider = t.provider;
  at.concurrency = t.concurrency;
  at.refusal_body = t.refusal_body;
  at.quota_resets = t.quota_resets;
  at.private_addresses = t.private_addresses;
  return at;
}

std::string target_at(const upstream& u, const target& t, std::string_view path, std::string_view model) {
  const std::string_view query = path.substr(std::min(path.find('?'), path.size()));
  const std::string_view rest = behind_prefix(u, without_query(path));
  const path_change* const change = change_of(t, rest);
  std::string text = t.url.path;
  if (change == nullptr) {
    if (!rest.starts_with('/')) text += '/';
    return text.append(rest).append(query);
  }
  std::string_view to = change->to;
  for (auto at = to.find(place_of_model); at != to.npos; at = to.find(place_of_model)) {
    text.append(to.substr(0, at)).append(percent_encoded(model));
    to.remove_prefix(at + place_of_model.size());
  }
  text.append(to);
  if (query.size() <= 1) return text;
  return text.append(1, change->to.find('?') == std::string::npos ? '?' : '&').append(query.substr(1));
}

std::optional<std::uint64_t> sticky_key(const sticky_options& o, const message_head& head, std::string_view body) {
  using kind = sticky_options::kind;
  // A key by kind::prompt_prefix is made from the first bytes of the body, because related chats share their system
  // prompt and tools there. Providers cache prompts in blocks of about this size.
  constexpr std::size_t longest_prefix = 1'024;
  std::optional<std::string_view> text;
  if (o.by == kind::header) text = value_of(head, o.name);
  if (o.by == kind::cookie) text = cookie_of(head, o.name);
  if (o.by == kind::prompt_prefix) text = body.substr(0, longest_prefix);
  if (!text || trim(*text).empty()) return std::nullopt;
  return mixed(hash_of(*text));
}

std::optional<std::size_t> target_of_key(const upstream& u, target_set of, std::uint64_t key) noexcept {
  std::optional<std::size_t> best;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < u.targets.size(); ++i) {
    if (!has(of, i)) continue;
    const target& t = u.targets[i];
    const std::uint64_t weight = mixed(key ^ hash_of(t.name));
    const int prefer = best ? u.targets[*best].prefer : t.prefer;
    if (best && (t.prefer > prefer || (t.prefer == prefer && weight <= most))) continue;
    best = i;
    most = weight;
  }
  return best;
}

}  // namespace canigo::gateway
