#include "host_queue.hpp"

#include "canigo/error.hpp"

#include "text.hpp"

#include <algorithm>

namespace canigo::http::detail {

std::string host_queue::key_of(std::string_view url) {
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return {};
  const auto authority_at = scheme_end + 3;
  const auto authority_end = std::min(url.find_first_of("/?#", authority_at), url.size());
  const auto user_end = url.substr(0, authority_end).rfind('@');
  const auto host_at = user_end == std::string_view::npos || user_end < authority_at ? authority_at : user_end + 1;

  std::string key{url.substr(0, authority_at)};
  key += url.substr(host_at, authority_end - host_at);
  std::ranges::transform(key, key.begin(), lower);
  const std::string_view port = key.starts_with("https:") ? ":443" : ":80";
  if (key.ends_with(port)) key.erase(key.size() - port.size());
  return key;
}

std::string host_in(std::string_view url) {
  const std::string key = host_queue::key_of(url);
  if (key.empty()) return {};
  return canigo::detail::printable(std::string_view{key}.substr(key.find("://") + 3));
}

void host_queue::push(transfer& t) {
  auto [at, is_new] = hosts_.try_emplace(per_host_ == unlimited ? std::string{} : key_of(t.request_.url));
  host& h = at->second;
  if (is_new) h.key = at->first;
  t.host_ = &h;
  h.waiting.push(t);
  ++waiting_;
  update(h);
}

transfer* host_queue::next() noexcept {
  if (running_ == places_) return nullptr;
  host* h = turn_.pop();
  if (h == nullptr) return nullptr;
  transfer* t = h->waiting.pop();
  --waiting_;
  ++running_;
  ++h->running;
  update(*h);
  return t;
}

bool host_queue::is_waiting(const transfer& t) noexcept {
  return t.host_ != nullptr && decltype(host::waiting)::contains(t);
}

void host_queue::remove(transfer& t) noexcept {
  if (t.host_ == nullptr) return;
  host& h = *t.host_;
  t.host_ = nullptr;
  if (decltype(h.waiting)::contains(t)) {
    h.waiting.remove(t);
    --waiting_;
  } else {
    --running_;
    --h.running;
  }
  update(h);
}

void host_queue::update(host& h) noexcept {
  const bool can_go = !h.waiting.empty() && (per_host_ == unlimited || h.running < per_host_);
  if (can_go != turn_.contains(h)) can_go ? turn_.push(h) : turn_.remove(h);
  if (per_host_ != unlimited && h.waiting.empty() && h.running == 0) hosts_.erase(hosts_.find(h.key));
}

}  // namespace canigo::http::detail
