#include "call_queue.hpp"

#include "url.hpp"

#include <algorithm>
#include <iterator>

namespace fetch {

call_queue::call_queue(const asio::any_io_executor& executor, int classes, std::size_t limit, double most_per_second,
                       const server_limits& per_server, std::function<bool(const call&)> is_hopeless)
    : executor_{executor},
      limit_{limit},
      most_per_second_{most_per_second},
      per_server_{per_server},
      is_hopeless_{std::move(is_hopeless)},
      of_class_(static_cast<std::size_t>(classes)) {
  if (!per_server.rate) return;
  rates_.emplace(executor, canigo::keyed_scheduler_options{
                               .rate = *per_server.rate, .burst = per_server.burst, .most_keys = most_with_rate});
}

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

server& call_queue::server_at(std::string origin) {
  const auto [entry, is_new] = servers_.try_emplace(origin, most_per_second_);
  server& s = entry->second;
  if (!is_new) return s;
  s.origin = std::move(origin);
  if (per_server_.is_adaptive) {
    const canigo::adaptive_limit_options usual;
    s.at_once.emplace(executor_, canigo::adaptive_limit_options{
                                     .initial = std::min<std::uint64_t>(usual.initial, per_server_.connections),
                                     .most = per_server_.connections});
  }
  return s;
}

void call_queue::put(call c) {
  server& s = server_at(origin_of(c.target()));
  auto& of_class = s.waiting[c.priority];
  const std::tuple place{c.priority, c.order, &s};
  if (s.is_in_turn && (of_class.empty() || c.order < of_class.begin()->first)) {
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
  while (!first_.empty()) {
    server& s = *std::get<server*>(*first_.begin());
    const auto of_class = s.waiting.find(std::get<int>(*first_.begin()));
    if (!is_hopeless_ || !is_hopeless_(of_class->second.begin()->second)) return true;
    hopeless_.push_back(taken(s, of_class));
    forget_if_like_new(s);
  }
  return false;
}

canigo::time_point call_queue::next_at() const {
  auto when = canigo::time_point::max();
  if (!later_.empty()) when = later_.begin()->first;
  if (!held_.empty()) when = std::min(when, held_.begin()->first);
  return when;
}

std::optional<call> call_queue::take(canigo::time_point now) {
  while (has_next(now)) {
    server& s = *std::get<server*>(*first_.begin());
    const auto of_class = s.waiting.find(std::get<int>(*first_.begin()));
    if (rates_ && !rates_->try_acquire(s.origin)) {
      hold_for_token(s, now);
      continue;
    }
    call c = taken(s, of_class);
    ++s.running;
    if (s.at_once) c.place_at_server = s.at_once->try_acquire().value_or(canigo::adaptive_permit{});
    if (s.pace.is_slowed()) hold(s, now + s.pace.gap());
    if (rates_ && !s.waiting.empty()) hold_for_token(s, now);
    see_turn(s);
    return c;
  }
  return std::nullopt;
}

void call_queue::hold_for_token(server& s, canigo::time_point now) {
  const auto wait = rates_->retry_after(s.origin);
  if (wait > canigo::duration::zero()) hold(s, canigo::saturating_add(now, wait));
}

std::vector<call> call_queue::take_all() {
  wake(canigo::time_point::max());
  std::vector<call> all;
  for (auto& [origin, s] : servers_) {
    while (!s.waiting.empty()) all.push_back(taken(s, s.waiting.begin()));
  }
  std::ranges::sort(all, {}, [](const call& c) { return std::pair{c.priority, c.order}; });
  return all;
}

call call_queue::taken(server& s, std::map<int, std::map<std::size_t, call>>::iterator of_class) {
  auto& [priority, calls] = *of_class;
  call c = std::move(calls.begin()->second);
  if (s.is_in_turn) first_.erase({priority, c.order, &s});
  calls.erase(calls.begin());
  if (calls.empty()) {
    s.waiting.erase(of_class);
  } else if (s.is_in_turn) {
    first_.insert({priority, calls.begin()->first, &s});
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
  }
  s.is_held = true;
  s.held_until = until;
  held_.emplace(until, &s);
  see_turn(s);
}

void call_queue::release(server& s) {
  held_.erase({s.held_until, &s});
  s.is_held = false;
  see_turn(s);
}

void call_queue::see_turn(server& s) {
  const bool has_place = s.running < per_server_.connections && (!s.at_once || s.running < s.at_once->limit());
  const bool may_be_asked = !s.is_held && has_place;
  if (std::exchange(s.is_in_turn, may_be_asked) == may_be_asked) return;
  if (may_be_asked) {
    --out_of_turn_;
    for (const auto& [priority, calls] : s.waiting) first_.insert({priority, calls.begin()->first, &s});
  } else {
    ++out_of_turn_;
    for (const auto& [priority, calls] : s.waiting) first_.erase({priority, calls.begin()->first, &s});
  }
}

void call_queue::done(server& s, canigo::time_point now) {
  --s.running;
  see_turn(s);
  forget_if_like_new(s);
  if (servers_.size() > forgets_at_) forget_some(now);
}

void call_queue::forget_if_like_new(server& s) {
  const bool has_learned = s.pace.is_slowed() || s.at_once;
  const bool is_like_new = s.running == 0 && s.waiting.empty() && !s.is_held && !has_learned;
  if (is_like_new) servers_.erase(servers_.find(s.origin));
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
