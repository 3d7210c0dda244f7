#include "canigo/detail/stealing/stealing_service.hpp"

#include "canigo/detail/context/post.hpp"
#include "canigo/detail/stealing/posted.hpp"

#include <asio/post.hpp>

#include <memory>
#include <utility>

namespace canigo::detail {

namespace {

/// The pump (the work queue) that the calling thread serves, and its service. If a handler runs another loop, this is
/// the pump of the inner loop until that loop returns.
struct place {
  const stealing_service* service;
  pump* at;
};

constinit thread_local place innermost{nullptr, nullptr};

/// A handler of the io_context that runs one work item.
struct item_call {
  explicit item_call(work_item& i) noexcept : item{&i} {}
  item_call(item_call&& other) noexcept : item{std::exchange(other.item, nullptr)} {}
  item_call& operator=(item_call&&) = delete;
  ~item_call() {
    if (item != nullptr) item->destroy();
  }
  void operator()() { std::exchange(item, nullptr)->resume(); }
  work_item* item;
};

}  // namespace

net::execution_context::id stealing_service::id;

stealing_service::stealing_service(net::execution_context& context)
    : service{context}, io_{static_cast<net::io_context&>(context).get_executor()} {}

stealing_service& stealing_service::of(net::io_context& io) { return net::use_service<stealing_service>(io); }

bool stealing_service::runs_here() const noexcept { return innermost.service == this || io_.running_in_this_thread(); }

void stealing_service::push(work_item& item, bool is_continuation) noexcept {
  if (is_over_.load(std::memory_order_relaxed)) [[unlikely]]
    return push_to_loop(item);
  pump_crew::push(innermost.service == this ? innermost.at : nullptr, item, is_continuation);
}

void stealing_service::throw_from_run(std::exception_ptr e) {
  const auto rethrow = [e = std::move(e)] { std::rethrow_exception(e); };
  push(*make_posted(rethrow, std::allocator<void>{}), false);
}

void stealing_service::bring(pump& p) noexcept {
  struct call {
    using allocator_type = fixed_allocator<void, 160>;
    stealing_service* service;
    pump* p;
    allocator_type get_allocator() const noexcept { return allocator_type{p->memory()}; }
    void operator()() const { service->run(*p); }
  };
  net::post(io_, call{this, &p});
}

void stealing_service::run(pump& p) {
  struct back {
    place outer;
    ~back() { innermost = outer; }
  };
  const back at_the_end_or_a_throw{std::exchange(innermost, place{this, &p})};
  turn(p);
}

void stealing_service::push_to_loop(work_item& item) noexcept {
  try {
    net::post(io_, item_call{item});
  } catch (const std::bad_alloc&) {
    // The failed post has destroyed the handler, and the item with it.
  }
}

/// Destroys all items. Destroying an item may add other items. push() posts those items to the loop, and the context
/// destroys them with all posted functions.
void stealing_service::shutdown() {
  is_over_.store(true, std::memory_order_relaxed);
  item_list<work_item> lost = take_all();
  while (work_item* const item = lost.pop()) item->destroy();
}

}  // namespace canigo::detail
