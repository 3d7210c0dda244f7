#pragma once

#include "machine_context.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace interleaving {

/// A stack of its own for one thread of a model. All fibers run on the thread that made them, one at a time, and give
/// way only by switch_to().
class fiber {
 public:
  /// The fiber that the calling thread is in already.
  fiber() = default;
  /// When `body` returns, `next()` says which fiber goes on.
  fiber(std::function<void()> body, std::function<fiber&()> next);
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Leaves the running fiber, which is this one, for `other`; returns when somebody switches back.
  void switch_to(fiber& other) noexcept;

 private:
  struct stack {
    alignas(64) std::byte bytes[256 * 1024];
  };
  /// What the C++ runtime keeps for each thread about exceptions under way.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static std::vector<std::unique_ptr<stack>>& unused_stacks();
  static void run(void* of);
  void arrive() noexcept;

  machine_context context_;
  std::unique_ptr<stack> stack_;
  std::function<void()> body_;
  std::function<fiber&()> next_;
  exceptions exceptions_;
  void* fake_stack_ = nullptr;              // the address sanitizer's
  const void* sanitizer_bottom_ = nullptr;  // of a stack that the thread had before
  std::size_t sanitizer_size_ = 0;
};

}  // namespace interleaving
