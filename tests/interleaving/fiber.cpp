#include "fiber.hpp"

#include <cxxabi.h>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CANIGO_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CANIGO_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef CANIGO_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace interleaving {

namespace {

// Where the running fiber came from: it takes leave of nobody else.
fiber* arrived_from = nullptr;

}  // namespace

// A run of a model makes a few fibers, and there are hundreds of thousands of runs.
std::vector<std::unique_ptr<fiber::stack>>& fiber::unused_stacks() {
  static std::vector<std::unique_ptr<stack>> stacks;
  return stacks;
}

fiber::fiber(std::function<void()> body, std::function<fiber&()> next)
    : body_{std::move(body)}, next_{std::move(next)} {
  auto& unused = unused_stacks();
  if (unused.empty()) {
    stack_ = std::unique_ptr<stack>{new stack};
  } else {
    stack_ = std::move(unused.back());
    unused.pop_back();
  }
  context_.begin(stack_->bytes, sizeof(stack), &fiber::run, this);
}

fiber::~fiber() {
  if (stack_) unused_stacks().push_back(std::move(stack_));
}

void fiber::run(void* of) {
  auto& self = *static_cast<fiber*>(of);
  self.arrive();
  self.body_();
  fiber& next = self.next_();
  arrived_from = nullptr;
#ifdef CANIGO_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(nullptr, next.stack_ ? next.stack_->bytes : next.sanitizer_bottom_,
                                 next.stack_ ? sizeof(stack) : next.sanitizer_size_);
#endif
  self.context_.switch_to(next.context_);
}

void fiber::arrive() noexcept {
#ifdef CANIGO_ADDRESS_SANITIZER
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  if (arrived_from != nullptr && !arrived_from->stack_) {
    arrived_from->sanitizer_bottom_ = bottom;
    arrived_from->sanitizer_size_ = size;
  }
#endif
  *reinterpret_cast<exceptions*>(abi::__cxa_get_globals()) = exceptions_;
}

void fiber::switch_to(fiber& other) noexcept {
  exceptions_ = *reinterpret_cast<exceptions*>(abi::__cxa_get_globals());
  arrived_from = this;
#ifdef CANIGO_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_ ? other.stack_->bytes : other.sanitizer_bottom_,
                                 other.stack_ ? sizeof(stack) : other.sanitizer_size_);
#endif
  context_.switch_to(other.context_);
  arrive();
}

}  // namespace interleaving
