#include "gateway/call/request_list.hpp"

namespace canigo::gateway {
namespace {

std::uint32_t slot_of(std::uint64_t number) noexcept { return static_cast<std::uint32_t>(number >> 8) & 0xffffff; }

}  // namespace

std::uint64_t request_list::enter(call& whose) {
  if (free_ == none) {
    free_ = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({.next_free = none});
  }
  const std::uint32_t at = free_;
  slot& s = slots_[at];
  free_ = s.next_free;
  s.who = &whose;
  if (++s.use == 0) s.use = 1;  // skips 0, so that the number of a request is never 0
  ++size_;
  return std::uint64_t{s.use} << 32 | std::uint64_t{at} << 8 | loop_;
}

void request_list::leave(std::uint64_t number) noexcept {
  const std::uint32_t at = slot_of(number);
  slots_[at].who = nullptr;
  slots_[at].next_free = free_;
  free_ = at;
  --size_;
}

call* request_list::find(std::uint64_t number) const noexcept {
  const std::uint32_t at = slot_of(number);
  if (loop_of(number) != loop_ || at >= slots_.size() || slots_[at].use != number >> 32) return nullptr;
  return slots_[at].who;
}

}  // namespace canigo::gateway
