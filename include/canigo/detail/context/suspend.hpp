#pragma once

#include "canigo/detail/context/asio_private.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/execution/blocking.hpp>
#include <asio/execution/executor.hpp>
#include <asio/io_context.hpp>
#include <asio/is_executor.hpp>
#include <asio/prefer.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/require.hpp>
#include <asio/system_executor.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/version.hpp>
#if ASIO_VERSION >= 102300
#include <asio/deferred.hpp>
#endif

#include <cstddef>
#include <exception>
#include <memory>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo::detail {

class stealing_service;
template <class Allocator, bool IsTracked>
class stealing_executor;

/// A post of a suspended caller that is under way on this thread.
///
/// An executor may destroy the posted function in two ways. If the executor fails to allocate, it destroys the function
/// and throws; then the suspended caller must stay suspended. If it drops the function without an exception, the caller
/// must be destroyed, too.
class posting {
 public:
  explicit posting(suspended& s) noexcept;
  ~posting();
  posting(const posting&) = delete;
  posting& operator=(const posting&) = delete;

  bool was_dropped() const noexcept { return dropped_; }
  /// Whether this thread is inside a post of `s`.
  static bool is_under_way(const suspended& s) noexcept;
  /// Records that the posted function of `s` was destroyed. Returns false, and records nothing, if no post of `s` is
  /// under way on this thread.
  static bool note_dropped(const suspended& s) noexcept;

 private:
  static posting* find(const suspended& s) noexcept;

  const suspended* suspended_;
  posting* outer_;
  bool dropped_ = false;
};

/// The function that an executor queues for a suspended caller.
template <class Allocator>
class resumption {
 public:
  using allocator_type = Allocator;

  resumption(suspended& s, const Allocator& allocator) noexcept : suspended_{&s}, allocator_{allocator} {}
  resumption(resumption&& other) noexcept
      : suspended_{std::exchange(other.suspended_, nullptr)}, allocator_{other.allocator_} {}
  resumption& operator=(resumption&&) = delete;
  ~resumption() {
    if (suspended_ != nullptr && !posting::note_dropped(*suspended_)) suspended_->destroy();
  }

  allocator_type get_allocator() const noexcept { return allocator_; }
  void operator()() { std::exchange(suspended_, nullptr)->resume(); }

 private:
  suspended* suspended_;
  [[no_unique_address]] Allocator allocator_;
};

/// Posts the resumption of `s`. If that throws, `s` is unchanged.
///
/// If a strand fails to allocate, it may throw although it has queued the function. Such a strand may never run
/// anything again. In that case the caller stays in the strand, and is destroyed with the context.
template <class Executor, class Allocator>
void post_resumption(const Executor& executor, suspended& s, const Allocator& allocator) {
  const posting p{s};
  try {
    if constexpr (std::is_same_v<Executor, net::any_io_executor>) {
      detail::post(executor, resumption<Allocator>{s, allocator});
    } else {
      net::post(executor, resumption<Allocator>{s, allocator});
    }
  } catch (...) {
    if (p.was_dropped()) throw;
    return;
  }
  if (p.was_dropped()) s.destroy();
}

/// The io_context of an executor of type io_context::executor_type, also inside an any_io_executor; nullptr for any
/// other executor.
template <class Executor>
net::io_context* loop_of(const Executor& executor) noexcept {
  if constexpr (std::is_same_v<Executor, net::io_context::executor_type>) {
    return &executor.context();
  } else if constexpr (std::is_same_v<Executor, net::any_io_executor>) {
    const auto* io = target_of<net::io_context::executor_type>(executor);
    return io != nullptr ? &io->context() : nullptr;
  } else {
    return nullptr;
  }
}

/// The service that has the work queues (pumps) of a work_stealing executor; nullptr for any other executor.
stealing_service* pumps_in(const net::any_io_executor& executor) noexcept;
template <class Executor>
stealing_service* pumps_of(const Executor& executor) noexcept {
  if constexpr (std::is_same_v<Executor, stealing_executor<std::allocator<void>, false>>) {
    return &executor.service();
  } else if constexpr (std::is_same_v<Executor, net::any_io_executor>) {
    return pumps_in(executor);
  } else {
    return nullptr;
  }
}
/// Adds `s` to the work queues (pumps) of the service. One of the pumps resumes `s`.
void push_to(stealing_service& pumps, suspended& s) noexcept;

/// Creates the loop_inbox of an existing loop, if there is memory for it.
void make_inbox(net::io_context& loop) noexcept;
/// Queues `s` for its loop, through the loop's inbox if it has one. If this throws, `s` is unchanged.
void bring_to(net::io_context& loop, suspended& s);

/// Whether a function can be posted to an `Executor`. Asio's inline_executor can't queue, because it runs each function
/// immediately.
template <class Executor>
inline constexpr bool can_post = (net::execution::is_executor<Executor>::value &&
                                  net::can_require<Executor, net::execution::blocking_t::never_t>::value) ||
                                 net::is_executor<Executor>::value;

/// Whether the completion of a `Handler` is posted to the handler's own executor. If not, the completion is posted to
/// the executor of the object that the handler waits for.
///
/// The system executor does not count as an own executor. If the handler of a parallel group has no executor, Asio
/// gives the system executor to the group's operations. But Asio expects these operations to complete on the object's
/// thread.
///
/// The class `none` has an operator==, because handlers of stdexec wrap any executor and compare the wrapped executors.
template <class Handler>
inline constexpr bool has_own_executor = [] {
  struct none {
    bool operator==(const none&) const = default;
  };
  using own = typename net::associated_executor<Handler, none>::type;
  if constexpr (std::is_same_v<own, none> || std::is_same_v<own, net::system_executor>) {
    return false;
  } else {
    return can_post<typename net::associated_executor<Handler, net::any_io_executor>::type>;
  }
}();

/// The executor to which the completion of a handler is posted.
template <class Handler>
auto completion_executor(const Handler& handler, const net::any_io_executor& home) {
  if constexpr (has_own_executor<Handler>) {
    return net::get_associated_executor(handler, home);
  } else {
    return home;
  }
}

/// Whether a handler has its own allocator. std::allocator does not count: a handler that forwards the allocator of an
/// inner handler, such as the handler of async_compose, reports std::allocator if the inner handler has none.
template <class Handler>
inline constexpr bool has_own_allocator = [] {
  struct none {};
  using named = typename net::associated_allocator<Handler, none>::type;
  if constexpr (std::is_same_v<named, none>) {
    return false;
  } else {
    return !std::is_same_v<typename std::allocator_traits<named>::template rebind_alloc<char>, std::allocator<char>>;
  }
}();

/// The allocator of a handler. If the handler has none, it is Asio's recycling allocator, as in Asio itself, because
/// std::allocator would call malloc each time.
template <class Handler>
auto allocator_of(const Handler& handler) noexcept {
  if constexpr (has_own_allocator<Handler>) {
    return net::get_associated_allocator(handler);
  } else {
    return net::recycling_allocator<void>{};
  }
}

/// Whether `any` and `executor` are the same executor. Compares with the concrete executor inside `any`, so nothing is
/// allocated.
template <class Executor>
bool same_executor(const net::any_io_executor& any, const Executor& executor) noexcept {
  if constexpr (std::is_same_v<Executor, net::any_io_executor>) {
    return any == executor;
  } else {
    const auto* target = target_of<Executor>(any);
    return target != nullptr && *target == executor;
  }
}

/// Call it before a caller waits for an object on another loop. If the caller's executor is that of an io_context,
/// creates the loop_inbox of that io_context. The caller then comes back to its own loop through this inbox.
template <class Executor>
[[gnu::noinline, gnu::cold]] void prepare_to_come_back(const Executor& executor) noexcept {
  if (net::io_context* const loop = loop_of(executor)) make_inbox(*loop);
}

/// Whether a caller completes on the executor of the object that it will wait for.
template <class Executor>
[[gnu::always_inline]] inline bool completes_at(const net::any_io_executor& home, const Executor& executor) noexcept {
  if (same_executor(home, executor)) return true;
  prepare_to_come_back(executor);
  return false;
}

/// Whether a handler completes on `home`, the executor of the object that it will wait for. `executor`: the handler's
/// executor, which is ignored if it is not the handler's own (see has_own_executor).
template <class Handler, class Executor>
bool handler_completes_at(const net::any_io_executor& home, const Executor& executor) noexcept {
  if constexpr (has_own_executor<Handler>) {
    return completes_at(home, executor);
  } else {
    return true;
  }
}

/// Keeps the loop of a handler's own executor running while the handler is pending.
template <class Handler, bool = has_own_executor<Handler>>
class pending_work {
 public:
  pending_work(const Handler& handler, const net::any_io_executor& fallback)
      : executor_{
            net::prefer(net::get_associated_executor(handler, fallback), net::execution::outstanding_work.tracked)} {}

 private:
  using executor_type = typename net::associated_executor<Handler, net::any_io_executor>::type;
  std::decay_t<decltype(net::prefer(std::declval<executor_type>(), net::execution::outstanding_work.tracked))>
      executor_;
};

/// The specialization for a coroutine that uses use_awaitable. It is empty, because the coroutine's co_spawn keeps the
/// loop running until the coroutine has ended.
template <class Executor, class... Args>
class pending_work<asio_private::coroutine_handler<Executor, Args...>, true> {
 public:
  pending_work(const asio_private::coroutine_handler<Executor, Args...>&, const net::any_io_executor&) noexcept {}
};

/// The handler of park_here(): stores the result of the wait for a coroutine, and resumes the coroutine.
template <class Resume, class Result>
struct result_handler {
  using executor_type = typename net::associated_executor<Resume>::type;
  using cancellation_slot_type = net::cancellation_slot;

  executor_type get_executor() const noexcept { return net::get_associated_executor(resume); }
  cancellation_slot_type get_cancellation_slot() const noexcept { return stop; }
  template <class... Args>
  void operator()(Args&&... args) {
    *to = Result{std::forward<Args>(args)...};
    std::move(resume)();
  }

  Result* to;
  net::cancellation_slot stop;
  Resume resume;
};

/// The specialization for a coroutine that waits with park_here(). It is empty, because the coroutine's co_spawn keeps
/// the loop running.
template <class Resume, class Result>
class pending_work<result_handler<Resume, Result>, true> {
 public:
  pending_work(const result_handler<Resume, Result>&, const net::any_io_executor&) noexcept {}
};

/// The specialization for a handler without its own executor. It is empty, because the object that the handler waits
/// for keeps its loop running.
template <class Handler>
class pending_work<Handler, false> {
 public:
  pending_work(const Handler&, const net::any_io_executor&) noexcept {}
};

/// Takes the place of pending_work for a coroutine. It is empty, because co_spawn keeps the coroutine's loop running
/// until the coroutine has ended.
struct no_work {};

/// A suspended caller with its handler. `Base` is derived from suspended and adds:
///
///     results take_results() noexcept                 the arguments of the handler, as a tuple
///     void abandon() noexcept                         gives back a grant that is not delivered
///     void request_cancel() noexcept                  the caller wants to cancel
///     const net::any_io_executor& home_executor()     the executor of the object that the caller waits for
template <class Base, class Handler, class Allocator, class Work>
class suspended_op final : public Base {
 public:
  template <class... BaseArgs>
  suspended_op(Handler&& handler, const Allocator& allocator, Work&& work, BaseArgs&&... args)
      : Base(std::forward<BaseArgs>(args)...),
        handler_(std::move(handler)),
        work_(std::move(work)),
        allocator_(allocator) {}

  /// Connects the handler's cancellation slot, if it has one, to this operation. Call it before this operation is
  /// passed to the engine.
  void allow_cancel() {
    if (auto slot = net::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.template emplace<canceller>(this);
    }
  }

  void resume() override {
    if (canceller_ != nullptr) net::get_associated_cancellation_slot(handler_).clear();
    auto arguments = Base::take_results();
    [[maybe_unused]] Work work(std::move(work_));
    Handler handler(std::move(handler_));
    free();
    std::apply(std::move(handler), std::move(arguments));
  }

  void post() override {
    const auto executor = completion_executor(handler_, Base::home_executor());
    post_resumption(executor, *this, net::recycling_allocator<void>{});
  }
  void post_across() override {
    const auto executor = completion_executor(handler_, Base::home_executor());
    if (net::io_context* const loop = loop_of(executor)) {
      bring_to(*loop, *this);
    } else if (stealing_service* const pumps = pumps_of(executor)) {
      push_to(*pumps, *this);
    } else {
      post();
    }
  }

  void destroy() noexcept override {
    // The cancellation signal may be destroyed already, so its slot can't be cleared. Instead, the canceller in the
    // slot is disconnected from this operation.
    if (canceller_ != nullptr) canceller_->op = nullptr;
    canceller_ = nullptr;
    Base::abandon();
    [[maybe_unused]] Work work(std::move(work_));
    [[maybe_unused]] const Handler handler(std::move(handler_));
    free();
  }

 private:
  /// The function object in the cancellation slot. The canceller and the operation point to each other; the one that
  /// ends first resets the pointer of the other.
  struct canceller {
    explicit canceller(suspended_op* o) noexcept : op{o} { op->canceller_ = this; }
    canceller(const canceller&) = delete;
    canceller& operator=(const canceller&) = delete;
    ~canceller() {
      if (op != nullptr) op->canceller_ = nullptr;
    }
    void operator()(net::cancellation_type type) const {
      if (op != nullptr && type != net::cancellation_type::none) op->request_cancel();
    }
    suspended_op* op;
  };

  void free() noexcept {
    typename std::allocator_traits<Allocator>::template rebind_alloc<suspended_op> allocator{allocator_};
    this->~suspended_op();
    allocator.deallocate(this, 1);
  }

  Handler handler_;
  canceller* canceller_ = nullptr;
  [[no_unique_address]] Work work_;
  [[no_unique_address]] Allocator allocator_;
};

/// Memory in a coroutine's frame for the one operation that the coroutine waits for.
template <std::size_t Size>
class frame_room {
 public:
  void* storage() noexcept { return storage_; }

 private:
  alignas(std::max_align_t) std::byte storage_[Size];
};

/// The allocator of an operation in a frame_room: deallocation does nothing.
template <class T>
struct frame_allocator {
  using value_type = T;
  frame_allocator() = default;
  template <class U>
  frame_allocator(const frame_allocator<U>&) noexcept {}
  void deallocate(T*, std::size_t) noexcept {}
};

/// Makes the operation for a handler of a completion token. Throws the exceptions of the handler's allocator.
template <class Base, class Handler, class... BaseArgs>
auto* make_suspended(Handler& handler, const net::any_io_executor& fallback, BaseArgs&&... args) {
  using allocator_type = decltype(allocator_of(handler));
  using op = suspended_op<Base, Handler, allocator_type, pending_work<Handler>>;
  typename std::allocator_traits<allocator_type>::template rebind_alloc<op> allocator{allocator_of(handler)};
  pending_work<Handler> work{handler, fallback};
  op* p = allocator.allocate(1);
  try {
    return ::new (static_cast<void*>(p))
        op(std::move(handler), allocator_type(allocator), std::move(work), std::forward<BaseArgs>(args)...);
  } catch (...) {
    allocator.deallocate(p, 1);
    throw;
  }
}

/// Makes the operation that a coroutine waits for, in memory of the coroutine's frame.
template <class Base, class Handler, std::size_t Size, class... BaseArgs>
auto* make_suspended_in(frame_room<Size>& room, Handler& handler, BaseArgs&&... args) {
  using op = suspended_op<Base, Handler, frame_allocator<void>, no_work>;
  static_assert(sizeof(op) <= Size && alignof(op) <= alignof(std::max_align_t));
  return ::new (room.storage())
      op(std::move(handler), frame_allocator<void>{}, no_work{}, std::forward<BaseArgs>(args)...);
}

/// Suspends the calling coroutine: `co_await park<Signature>(start)` must be the last step of the coroutine. `start` is
/// called with the completion handler once the coroutine is suspended, and must not throw.
#if ASIO_VERSION < 102300
template <class... Args>
inline constexpr bool park_returns = false;
#else
// From Asio 1.23 on, co_await of a deferred operation needs no further coroutine frame. But before Asio 1.28, such a
// co_await does not compile if the operation's signature has both an exception_ptr and a value (asio#1190).
template <class... Args>
inline constexpr bool park_returns =
    ASIO_VERSION >= 102800 || sizeof...(Args) < 2 || !(std::is_same_v<Args, std::exception_ptr> || ...);
template <class... Args, class Start>
  requires park_returns<Args...>
auto park(Start start) {
  return net::async_initiate<const net::deferred_t, void(Args...)>(std::move(start), net::deferred);
}
#endif
// This function is used if park_returns is false. Its handler ends the calling coroutine's frame, and the arguments of
// the handler become the coroutine's result. So no code after the co_await is run. With use_awaitable instead, a
// further coroutine would wait for the operation. Its frame would be one more than Asio recycles.
template <class... Args, class Start>
  requires(!park_returns<Args...>)
auto park(Start start) {
  return [start](auto* frame) mutable {
    using handler = asio_private::coroutine_handler<net::any_io_executor, Args...>;
    start(handler(frame->detach_thread()));
    return static_cast<handler*>(nullptr);
  };
}

/// Suspends the calling coroutine, which continues after the co_await. `start` is called with a completion handler when
/// the coroutine is suspended, and must not throw. `result` is constructed from the handler's arguments. The slot
/// `stop` cancels the wait, instead of the coroutine's own slot. `result` and `stop` must outlive the wait.
///
/// Unlike park(), this wait needs no coroutine frame of its own.
template <class Result, class Start>
auto park_here(Result& result, net::cancellation_slot stop, Start start) {
#if ASIO_VERSION < 102300
  return [&result, stop, start](auto* frame) mutable {
    using resume = asio_private::resuming_handler;
    start(result_handler<resume, Result>{&result, stop, resume{frame->detach_thread()}});
    return static_cast<asio_private::coroutine_thread*>(nullptr);
  };
#else
  const auto with_result = [&result, stop, start](auto resume) mutable {
    start(result_handler<decltype(resume), Result>{&result, stop, std::move(resume)});
  };
  return net::async_initiate<const net::deferred_t, void()>(with_result, net::deferred);
#endif
}

}  // namespace canigo::detail
