#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace interleaving {

/// A function object that need not be copyable. A small one is stored in the object, to save allocations.
class work {
 public:
  work() noexcept = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, work>)
  explicit work(F&& f) {
    using held = std::conditional_t<fits<std::decay_t<F>>, std::decay_t<F>, boxed<std::decay_t<F>>>;
    ::new (static_cast<void*>(bytes_.data())) held{std::forward<F>(f)};
    kind_ = &kind_of<held>;
  }
  work(work&& other) noexcept : kind_{std::exchange(other.kind_, nullptr)} {
    if (kind_ != nullptr) kind_->move(other.bytes_.data(), bytes_.data());
  }
  work& operator=(work&& other) noexcept {
    if (this == &other) return *this;
    std::destroy_at(this);
    return *std::construct_at(this, std::move(other));
  }
  ~work() {
    if (kind_ != nullptr) kind_->destroy(bytes_.data());
  }

  void operator()() { kind_->call(bytes_.data()); }

 private:
  static constexpr std::size_t room = 64;

  template <class F>
  static constexpr bool fits =
      sizeof(F) <= room && alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

  template <class F>
  struct boxed {
    explicit boxed(F&& f) : p{std::make_unique<F>(std::move(f))} {}
    explicit boxed(const F& f) : p{std::make_unique<F>(f)} {}
    void operator()() { (*p)(); }
    std::unique_ptr<F> p;
  };

  struct kind {
    void (*call)(void*);
    void (*move)(void* from,
                 void* to) noexcept;  // moves the function from `from` to `to`, and leaves nothing in `from`
    void (*destroy)(void*) noexcept;
  };
  template <class F>
  static constexpr kind kind_of{
      .call = [](void* f) { (*static_cast<F*>(f))(); },
      .move =
          [](void* from, void* to) noexcept {
            ::new (to) F{std::move(*static_cast<F*>(from))};
            static_cast<F*>(from)->~F();
          },
      .destroy = [](void* f) noexcept { static_cast<F*>(f)->~F(); },
  };

  alignas(std::max_align_t) std::array<std::byte, room> bytes_;
  const kind* kind_ = nullptr;
};

/// A queue of functions to call, first in first out.
class work_queue {
 public:
  bool empty() const noexcept { return first_ == all_.size(); }
  void push(work w) {
    if (all_.capacity() == 0) all_.reserve(8);
    all_.push_back(std::move(w));
  }
  work pop() {
    work next{std::move(all_[first_])};
    if (++first_ == all_.size()) {
      all_.clear();
      first_ = 0;
    }
    return next;
  }
  /// Destroys the waiting functions. Functions pushed by their destructors stay in the queue.
  void drop() {
    const std::vector<work> dropped{std::exchange(all_, {})};
    first_ = 0;
  }

 private:
  std::vector<work> all_;
  std::size_t first_ = 0;
};

}  // namespace interleaving
