#include "call_queue.hpp"

#include "url.hpp"

#include <algorithm>
#include <iterator>

namespace fetch {

call_queue::call_queue(int classes, std::size_t limit, double most_per_second)
    : limit_{limit}, most_per_second_{most_per_second}, of_class_(static_cast<std::size_t>(classes)) {}

void call_queue::add(call c) {
  std::size_t& waiting = of_class_[static_cast<std::size_t>(c.priority)];
  c.is_ahead = waiting >= limit_;
  if (c.is_ahead) bytes_ahead_ += c.size();
  ++waiting;
  ++waiting_;
  put(std::move(c));
}

void call_queue::put_back(call c, canigo::time_point when) {
  ++of_class_[static_cast<std::size_t>(c.priority)];
  ++waiting_;
  later_.emplace(when, std::move(c));
}

void call_queue::put(call c) {
  std::string origin = origin_of(c.target());
  server& s = servers_.try_emplace(origin, most_per_second_).first->second;
  if (s.origin.empty()) s.origin = std::move(origin);
  auto& of_class = s.waiting[c.priority];
  const std::tuple place{c.priority, c.order, &s};
  if (!s.is_held && (of_class.empty() || c.order < of_class.begin()->first)) {
    if (!of_class.empty()) first_.erase({c.priority, of_class.begin()->first, &s});
    first_.insert(place);
  }
  of_class.emplace(c.order, std::move(c));
}

void call_queue::wake(canigo::time_point now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    put(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
  while (!held_.empty() && held_.begin()->first <= now) release(*held_.begin()->second);
}

bool call_queue::has_next(canigo::time_point now) {
  wake(now);
  return !first_.empty();
}

canigo::time_point call_queue::next_at() const {
  auto when = canigo::time_point::max();
  if (!later_.empty()) when = later_.begin()->first;
  if (!held_.empty()) when = std::min(when, held_.begin()->first);
  return when;
}

std::optional<call> call_queue::take(canigo::time_point now) {
  if (!has_next(now)) return std::nullopt;
  server& s = *std::get<server*>(*first_.begin());
  auto c = taken(s, s.waiting.find(std::get<int>(*first_.begin())));
  ++s.running;
  if (s.pace.is_slowed()) hold(s, now + s.pace.gap());
  return c;
}

std::optional<call> call_queue::take_any() {
  wake(canigo::time_point::max());
  if (first_.empty()) return std::nullopt;
  server& s = *std::get<server*>(*first_.begin());
  return taken(s, s.waiting.find(std::get<int>(*first_.begin())));
}

std::optional<call> call_queue::taken(server& s, std::map<int, std::map<std::size_t, call>>::iterator of_class) {
  auto& [priority, calls] = *of_class;
  call c = std::move(calls.begin()->second);
  first_.erase({priority, c.order, &s});
  calls.erase(calls.begin());
  if (!calls.empty()) {
    first_.insert({priority, calls.begin()->first, &s});
  } else {
    s.waiting.erase(of_class);
  }
  --of_class_[static_cast<std::size_t>(c.priority)];
  --waiting_;
  if (std::exchange(c.is_ahead, false)) bytes_ahead_ -= c.size();
  return c;
}

server& call_queue::server_of(const call& c) { return servers_.find(origin_of(c.target()))->second; }

void call_queue::hold(server& s, canigo::time_point until) {
  if (s.is_held) {
    if (until <= s.held_until) return;
    held_.erase({s.held_until, &s});
  } else {
    for (const auto& [priority, calls] : s.waiting) first_.erase({priority, calls.begin()->first, &s});
  }
  s.is_held = true;
  s.held_until = until;
  held_.emplace(until, &s);
}

void call_queue::release(server& s) {
  held_.erase({s.held_until, &s});
  s.is_held = false;
  for (const auto& [priority, calls] : s.waiting) first_.insert({priority, calls.begin()->first, &s});
}

void call_queue::done(server& s, canigo::time_point now) {
  --s.running;
  const bool is_like_new = s.running == 0 && s.waiting.empty() && !s.is_held && !s.pace.is_slowed();
  if (is_like_new) servers_.erase(servers_.find(s.origin));
  if (servers_.size() > forgets_at_) forget_some(now);
}

void call_queue::forget_some(canigo::time_point now) {
  wake(now);
  std::erase_if(servers_, [](const auto& entry) {
    const server& s = entry.second;
    return s.running == 0 && s.waiting.empty() && !s.is_held;
  });
  forgets_at_ = std::max(remembered, 2 * servers_.size());
}

}  // namespace fetch
