#include "loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace conversations {
namespace {

void control(int epoll, int what, int descriptor, std::uint32_t events, std::uint64_t number) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = number;
  if (::epoll_ctl(epoll, what, descriptor, &e) != 0)
    throw std::system_error{errno, std::system_category(), "epoll_ctl"};
}

}  // namespace

loop::loop() : epoll_{::epoll_create1(EPOLL_CLOEXEC)} {
  if (epoll_ < 0) throw std::system_error{errno, std::system_category(), "epoll_create1"};
}

loop::~loop() { ::close(epoll_); }

void loop::watch(int descriptor, std::uint32_t events, std::shared_ptr<handler> h) {
  // A descriptor that was closed may be another one's before its last events are told.
  const std::uint64_t number = ++last_;
  control(epoll_, EPOLL_CTL_ADD, descriptor, events, number);
  numbers_[descriptor] = number;
  handlers_[number] = std::move(h);
}

void loop::change(int descriptor, std::uint32_t events) {
  control(epoll_, EPOLL_CTL_MOD, descriptor, events, numbers_.at(descriptor));
}

void loop::forget(int descriptor) {
  const auto found = numbers_.find(descriptor);
  if (found == numbers_.end()) return;
  control(epoll_, EPOLL_CTL_DEL, descriptor, 0, 0);
  handlers_.erase(found->second);
  numbers_.erase(found);
}

void loop::turn(milliseconds most) {
  const auto now = clock::now();
  auto wait = most;
  if (!timers_.empty()) {
    const auto left = std::chrono::ceil<milliseconds>(timers_.begin()->first - now);
    wait = std::clamp(left, milliseconds{0}, most);
  }
  std::array<epoll_event, 256> events;
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(wait.count()));
  for (int i = 0; i < n; ++i) {
    const auto& e = events[static_cast<std::size_t>(i)];
    const auto found = handlers_.find(e.data.u64);
    if (found == handlers_.end()) continue;  // closed by one before it
    const std::shared_ptr<handler> h = found->second;
    h->ready(e.events);
  }
  const auto due = clock::now();
  while (!timers_.empty() && timers_.begin()->first <= due) {
    const auto f = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    f();
  }
}

}  // namespace conversations
