#include "canigo/detail/queue/shared_places.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

shared_places::shared_places(std::uint64_t capacity) : capacity_{capacity}, seekers_{std::make_unique<wait_queue>(1)} {}

void shared_places::make_room_for(int priorities) {
  auto larger = std::make_unique<wait_queue>(priorities);
  const std::lock_guard lock{mutex_};
  if (priorities <= seekers_->priorities()) return;
  while (wait_node* n = seekers_->first_of_most_important()) {
    seekers_->remove(*n);
    larger->push(*n, {});
  }
  seekers_.swap(larger);
}

bool shared_places::try_take() noexcept {
  const std::lock_guard lock{mutex_};
  if (occupied_ >= capacity_ || !seekers_->empty()) return false;
  ++occupied_;
  return true;
}

bool shared_places::seek(place_seeker& s, int priority) noexcept {
  const std::lock_guard lock{mutex_};
  if (s.linked() && s.priority != priority) seekers_->remove(s);
  if (!s.linked()) {
    s.priority = static_cast<std::uint16_t>(priority);
    seekers_->push(s, {});
  }
  if (occupied_ >= capacity_ || seekers_->first_of_most_important() != &s) return false;
  seekers_->remove(s);
  ++occupied_;
  return true;
}

void shared_places::withdraw(place_seeker& s) noexcept {
  const std::lock_guard lock{mutex_};
  if (s.linked()) seekers_->remove(s);
}

bool shared_places::put_back(std::uint64_t places) noexcept {
  const std::lock_guard lock{mutex_};
  occupied_ -= places;
  return is_sought();
}

place_seeker* shared_places::next_to_look() noexcept {
  const std::lock_guard lock{mutex_};
  if (!is_sought()) return nullptr;
  auto& s = static_cast<place_seeker&>(*seekers_->first_of_most_important());
  s.keep();
  return &s;
}

void shared_places::pass_on() noexcept {
  while (place_seeker* s = next_to_look()) {
    s->look_again();
    s->let_go();
  }
}

void shared_places::resize(std::uint64_t capacity) noexcept {
  {
    const std::lock_guard lock{mutex_};
    capacity_ = capacity;
  }
  pass_on();
}

std::uint64_t shared_places::capacity() const noexcept {
  const std::lock_guard lock{mutex_};
  return capacity_;
}

std::uint64_t shared_places::occupied() const noexcept {
  const std::lock_guard lock{mutex_};
  return occupied_;
}

}  // namespace canigo::detail
