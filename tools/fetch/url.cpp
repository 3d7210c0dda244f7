#include "url.hpp"

#include <algorithm>
#include <cstddef>

namespace fetch {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool has_scheme(std::string_view url, std::string_view scheme) {
  return url.size() >= scheme.size() && std::ranges::equal(url.substr(0, scheme.size()), scheme, {}, lower);
}

/// The positions of the name, password, host and port in a URL with a scheme. More than two slashes after the scheme
/// are skipped, as in libcurl.
struct authority {
  explicit authority(std::string_view url)
      : begin{std::min(url.find_first_not_of('/', url.find("://") + 1), url.size())},
        end{std::min(url.find_first_of("/?#", begin), url.size())} {
    const auto at = url.substr(0, end).rfind('@');
    host = at == std::string_view::npos || at < begin ? begin : at + 1;
  }
  std::size_t begin;
  std::size_t end;
  std::size_t host;
};

}  // namespace

bool is_http(std::string_view url) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (has_scheme(url, scheme)) return url.find_first_not_of("/?#", scheme.size()) == scheme.size();
  }
  return false;
}

std::string origin_of(std::string_view url) {
  const authority a{url};
  std::string origin{url.substr(0, a.begin)};
  origin += url.substr(a.host, a.end - a.host);
  std::ranges::transform(origin, origin.begin(), lower);
  const std::string_view port = origin.starts_with("https:") ? ":443" : ":80";
  if (origin.ends_with(port)) origin.resize(origin.size() - port.size());
  return origin;
}

std::string_view host_of(std::string_view url) {
  const authority a{url};
  const auto host = url.substr(a.host, a.end - a.host);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

std::string_view file_of(std::string_view url) {
  auto path = url.substr(authority{url}.end);
  path = path.substr(0, path.find_first_of("?#"));
  const auto slash = path.rfind('/');
  const auto file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return file.empty() ? "index" : file;
}

std::string with_credentials_of(std::string_view before, std::string url) {
  const authority old{before};
  const authority a{url};
  const bool has_some = a.host != a.begin;
  if (!has_some && origin_of(before) == origin_of(url))
    url.insert(a.begin, before.substr(old.begin, old.host - old.begin));
  return url;
}

std::string with_credentials(std::string url, std::string_view credentials) {
  const authority a{url};
  const bool has_some = a.host != a.begin;
  if (!has_some && !credentials.empty()) url.insert(a.begin, std::string{credentials} + '@');
  return url;
}

std::string without_credentials(std::string_view url) {
  constexpr auto none = std::string_view::npos;
  std::string shown;
  while (url.find("://") != none) {  // a URL may contain another URL
    const authority a{url};
    // If the password contains a slash, the text up to the slash looks like HOST:PORT. A port that is not a number
    // shows that this text is a name and the beginning of a password.
    const auto host = url.substr(a.host, a.end - a.host);
    const auto colon = host.find(':', host.starts_with('[') ? host.find(']') : 0);
    const bool has_port = colon == none || host.find_first_not_of("0123456789", colon + 1) == none;
    const auto at = has_port ? a.host - 1 : url.rfind('@');
    const bool has_credentials = has_port ? a.host != a.begin : at != none && at > a.begin;
    shown += url.substr(0, a.begin);
    if (has_credentials) shown += "***";
    const auto rest = has_credentials ? at : a.begin;
    shown += url.substr(rest, std::max(rest, a.end) - rest);
    url.remove_prefix(std::max(rest, a.end));
  }
  const auto at = shown.empty() ? url.rfind('@') : none;
  if (at != none) return std::string{"***"}.append(url.substr(at));
  return shown.append(url);
}

}  // namespace fetch
