// Strands for the workers of pools, in place of the library's: those are Asio's, which keeps notes about the calling
// thread that a fiber would take along.

#include "canigo/detail/pool/worker_strand.hpp"

#include "canigo/detail/context/post.hpp"

#include "work.hpp"
#include "world.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace interleaving {

namespace {

/// What waits for its turn; at most one of it runs at a time, on whichever thread runs the loop below.
struct strand {
  explicit strand(net::any_io_executor b) : base{std::move(b)} {}
  strand(const strand&) = delete;
  strand& operator=(const strand&) = delete;
  /// As Asio's, which leaves the list of all strands of its context.
  ~strand() {
    if (const auto* l = canigo::detail::target_of<loop_executor>(base)) l->reach();
  }
  net::any_io_executor base;
  work_queue queue;
  bool scheduled = false;
  bool closed = false;
  std::uint32_t operation = 0;  // that the worker's coroutine runs, or ran last
};

/// All strands of a world. When it ends, what waits in them goes: a coroutine there holds its strand, which holds it.
class strands final : public net::execution_context::service {
 public:
  using key_type = strands;
  static net::execution_context::id id;

  explicit strands(net::execution_context& context) : service{context} {}

  std::shared_ptr<strand> make(const net::any_io_executor& base) {
    auto s = std::make_shared<strand>(base);
    all_.push_back(s);
    return s;
  }

 private:
  void shutdown() override {
    std::vector<work_queue> dropped;
    for (const auto& one : all_) {
      const auto s = one.lock();
      if (!s) continue;
      s->closed = true;
      dropped.push_back(std::exchange(s->queue, {}));
    }
  }

  std::vector<std::weak_ptr<strand>> all_;
};

net::execution_context::id strands::id;

void schedule(const std::shared_ptr<strand>& s) {
  s->scheduled = true;
  net::post(s->base, [s] {
    work next = s->queue.pop();
    next();
    s->scheduled = false;
    if (!s->queue.empty()) schedule(s);
  });
}

class strand_executor {
 public:
  strand_executor(std::shared_ptr<strand> s, canigo::detail::worker_strand::mark m) : strand_{std::move(s)}, mark_{m} {}
  /// As the library's: a copy belongs to the operation that asks for it.
  strand_executor(const strand_executor& other) noexcept : strand_{other.strand_}, mark_{other.mark_} {
    if (mark_.operation == 0) mark_.operation = strand_->operation;
  }
  strand_executor(strand_executor&&) noexcept = default;
  strand_executor& operator=(const strand_executor& other) noexcept { return *this = strand_executor{other}; }
  strand_executor& operator=(strand_executor&&) noexcept = default;

  template <class F>
  void execute(F&& f) const {
    if (strand_->closed) return;
    strand_->queue.push(work{std::forward<F>(f)});
    if (!strand_->scheduled) schedule(strand_);
  }
  bool operator==(const strand_executor& other) const noexcept { return strand_ == other.strand_; }
  net::execution_context& query(net::execution::context_t) const noexcept {
    return net::query(strand_->base, net::execution::context);
  }
  static constexpr net::execution::blocking_t query(net::execution::blocking_t) noexcept {
    return net::execution::blocking.never;
  }
  strand_executor require(net::execution::blocking_t::never_t) const noexcept { return *this; }
  canigo::detail::worker_strand::mark mark() const noexcept { return mark_; }
  strand_executor marked(std::uint32_t operation) const { return {strand_, {mark_.owner, mark_.home, operation}}; }

 private:
  std::shared_ptr<strand> strand_;
  canigo::detail::worker_strand::mark mark_;
};

class model_strand final : public canigo::detail::worker_strand {
 public:
  model_strand(const net::any_io_executor& base, canigo::detail::worker_strand::mark m)
      : strand_{net::use_service<strands>(net::query(base, net::execution::context)).make(base)},
        typed_{strand_, m},
        executor_{typed_} {}

  const net::any_io_executor& executor() const noexcept override { return executor_; }
  const net::any_io_executor& executor_for(std::uint32_t operation) noexcept override {
    operations_executor_ = typed_.marked(operation);
    return operations_executor_;
  }
  void begins(std::uint32_t operation) noexcept override { strand_->operation = operation; }
  void post(canigo::detail::suspended& s) const override {
    typed_.execute(canigo::detail::resumption<std::allocator<void>>{s, {}});
  }
  void dispatch(canigo::detail::suspended& s) const override { post(s); }
  void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot,
             canigo::detail::worker_life until_it_goes) const override {
    net::co_spawn(executor_, std::move(coroutine),
                  net::bind_cancellation_slot(slot, [life = std::move(until_it_goes)](const std::exception_ptr&) {}));
  }

 private:
  std::shared_ptr<strand> strand_;
  strand_executor typed_;
  net::any_io_executor executor_;
  net::any_io_executor operations_executor_;
};

}  // namespace

}  // namespace interleaving

namespace canigo::detail {

std::unique_ptr<worker_strand> worker_strand::make(const net::any_io_executor& base, const void* owner,
                                                   const void* home) {
  return std::make_unique<interleaving::model_strand>(base, mark{owner, home, 0});
}

net::any_io_executor worker_strand::of_no_worker(const net::any_io_executor& base) {
  return interleaving::model_strand{base, {}}.executor();
}

bool worker_strand::is_one(const net::any_io_executor& executor) noexcept {
  return target_of<interleaving::strand_executor>(executor) != nullptr;
}

worker_strand::mark worker_strand::mark_of(const net::any_io_executor& executor) noexcept {
  const auto* s = target_of<interleaving::strand_executor>(executor);
  return s != nullptr ? s->mark() : mark{};
}

}  // namespace canigo::detail
