#include "canigo/jobs/memory_store.hpp"

#include "canigo/detail/base/mutex.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include "changes.hpp"
#include "memory_table.hpp"

#include <chrono>
#include <mutex>
#include <system_error>

namespace canigo::jobs {

struct memory_store::state {
  state(const net::any_io_executor& executor, const store_policy& policy)
      : time{time_source::of(executor)}, news{std::make_shared<detail::changes>(executor)}, table{policy} {}

  instant now() const noexcept {
    return instant{std::chrono::floor<std::chrono::microseconds>(time.now().time_since_epoch())};
  }

  time_source& time;
  const std::shared_ptr<detail::changes> news;
  canigo::detail::mutex mutex;
  detail::memory_table table;
  bool is_stopped = false;
};

memory_store::memory_store(const net::any_io_executor& executor, const store_policy& policy) {
  detail::check(policy);
  state_ = std::make_shared<state>(executor, policy);
}

memory_store::~memory_store() { stop(); }

net::awaitable<void> memory_store::perform(weight, step s) {
  bool has_news = false;
  {
    const std::lock_guard lock{state_->mutex};
    if (state_->is_stopped) throw std::system_error{make_error_code(errc::stopped)};
    s(state_->table, state_->now());
    has_news = state_->table.take_news();
  }
  if (has_news) state_->news->bump();
  co_return;
}

net::awaitable<std::uint64_t> memory_store::changed(std::uint64_t seen) {
  return detail::changes::after(state_->news, seen);
}

void memory_store::stop() noexcept {
  {
    const std::lock_guard lock{state_->mutex};
    state_->is_stopped = true;
  }
  state_->news->stop();
}

}  // namespace canigo::jobs
