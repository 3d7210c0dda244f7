#include "gateway/upstream/budget_lines.hpp"

#include <asio/post.hpp>

#include <algorithm>

namespace canigo::gateway {

budget_line::budget_line(const net::any_io_executor& executor, int priorities, duration ageing)
    : executor_{executor},
      turns_{executor, {.concurrency = 1, .priorities = priorities, .ageing = ageing, .name = "budget"}},
      timer_{executor} {}

void budget_line::rest(std::chrono::sys_seconds window_end) {
  constexpr duration longest = std::chrono::seconds{1};
  rests_.store(true, std::memory_order_relaxed);
  turns_.pause();
  const auto left = window_end - std::chrono::system_clock::now();
  const duration wait = left < longest ? std::max<duration>(left, duration::zero()) : longest;
  net::post(executor_, [weak = weak_from_this(), wait] {
    if (const auto self = weak.lock()) self->arm(wait);
  });
}

void budget_line::arm(duration wait) {
  timer_.expires_after(wait);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = error ? nullptr : weak.lock();
    if (self) self->look_again();
  });
}

void budget_line::look_again() {
  rests_.store(false, std::memory_order_relaxed);
  turns_.resume();
}

std::shared_ptr<budget_line> budget_lines::of(const std::string& budget) {
  const std::lock_guard lock{mutex_};
  std::shared_ptr<budget_line>& line = lines_[budget];
  if (!line) line = std::make_shared<budget_line>(executor_, priorities_, ageing_);
  has_lines_.store(true, std::memory_order_relaxed);
  return line;
}

std::shared_ptr<budget_line> budget_lines::find(const std::string& budget) const {
  if (!has_lines_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock{mutex_};
  const auto found = lines_.find(budget);
  return found == lines_.end() ? nullptr : found->second;
}

void budget_lines::look_again(const std::string& budget) noexcept {
  if (const auto line = find(budget); line && line->waiting() > 0) line->look_again();
}

void budget_lines::look_again() {
  const std::lock_guard lock{mutex_};
  for (const auto& [name, line] : lines_) line->look_again();
}

}  // namespace canigo::gateway
