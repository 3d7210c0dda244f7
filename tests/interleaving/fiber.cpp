#include "fiber.hpp"

#include <cxxabi.h>

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

struct fiber::stack {
  // Stacks that all begin at the same place in a page would fight for the same lines of the cache.
  std::size_t size() const noexcept { return sizeof(bytes) - skew; }

  static inline std::size_t made = 0;
  std::size_t skew = ++made % 16 * 320;
  alignas(64) std::byte bytes[256 * 1024];
};

fiber::fiber() noexcept : of_thread_{reinterpret_cast<exceptions*>(abi::__cxa_get_globals())} {}

fiber::~fiber() = default;

void fiber::begin(function f, void* argument) {
  if (!stack_) stack_ = std::unique_ptr<stack>{new stack};
  function_ = f;
  argument_ = argument;
  exceptions_ = {};
  fake_stack_ = nullptr;
  context_.begin(stack_->bytes, stack_->size(), &fiber::run, this);
}

void fiber::run(void* of) {
  auto& self = *static_cast<fiber*>(of);
  self.arrive();
  fiber& next = self.function_(self.argument_);
  arrived_from = nullptr;
  next.announce(nullptr);
  self.context_.switch_to(next.context_);
}

#ifdef CANIGO_ADDRESS_SANITIZER

void fiber::announce(void** leaving) const noexcept {
  __sanitizer_start_switch_fiber(leaving, stack_ ? stack_->bytes : sanitizer_bottom_,
                                 stack_ ? stack_->size() : sanitizer_size_);
}

void fiber::arrive() noexcept {
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  if (arrived_from != nullptr && !arrived_from->stack_) {
    arrived_from->sanitizer_bottom_ = bottom;
    arrived_from->sanitizer_size_ = size;
  }
  *of_thread_ = exceptions_;
}

#else

void fiber::announce(void**) const noexcept {}

void fiber::arrive() noexcept { *of_thread_ = exceptions_; }

#endif

void fiber::switch_to(fiber& other) noexcept {
  exceptions_ = *of_thread_;
  arrived_from = this;
  other.announce(&fake_stack_);
  context_.switch_to(other.context_);
  arrive();
}

}  // namespace interleaving
