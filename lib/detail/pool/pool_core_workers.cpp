// The functions of pool_core that start, wake and end workers.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

/// Wakes one idle worker, if there is one. That worker leaves the list of idle workers now, so that the next call wakes
/// another worker.
void pool_core::wake_one() noexcept {
  if (crew_member* m = crew_.first_idle()) {
    crew_.wake(*m);
    static_cast<pool_worker&>(*m).wake();
  }
}

void pool_core::wake_all() noexcept {
  while (crew_member* m = crew_.first_idle()) {
    static_cast<pool_worker&>(*m).rest_.disarm();
    wake_one();
  }
  for (const auto& w : workers_) {
    if (w->is(pool_worker::state::resting)) w->end_rest();
  }
}

void pool_core::resize(std::size_t concurrency) {
  check_concurrency(concurrency, options_.type, ".resize: concurrency");
  const context_visit here = visit();
  if (!here.lasts()) return;
  std::vector<std::unique_ptr<pool_worker>> made;
  std::size_t first = 0;
  {
    const std::lock_guard lock{mutex_};
    first = workers_.size();
  }
  for (std::size_t i = first; i < concurrency; ++i) made.push_back(std::make_unique<pool_worker>(*this, i));

  std::vector<pool_worker*> to_spawn;
  to_spawn.reserve(concurrency);
  {
    const change c{*this};
    if (stop_.is_asked()) return;
    workers_.reserve(concurrency);
    for (auto& w : made) {
      if (w->index_ != workers_.size()) continue;
      crew_.add(*w);
      workers_.push_back(std::move(w));
    }
    crew_.want(concurrency);
    // The idle workers that must leave are chosen now. So they leave even if other workers become free before the
    // chosen workers are woken.
    while (crew_member* m = crew_.to_leave()) {
      auto& w = static_cast<pool_worker&>(*m);
      w.rest_.disarm();
      crew_.wake(w);
      crew_.leave(w);
      w.wake();
    }
    while (crew_member* m = crew_.to_stay()) crew_.stay(*m);
    while (crew_member* m = crew_.to_join()) {
      crew_.join(*m);
      to_spawn.push_back(static_cast<pool_worker*>(m));
    }
    admit_held();
    end_hopeless_wait();
  }
  for (std::size_t i = 0; i < to_spawn.size(); ++i) {
    try {
      to_spawn[i]->spawn();
    } catch (...) {
      while (++i < to_spawn.size()) const worker_life has_not_begun = to_spawn[i]->live();
      throw;
    }
  }
}

/// Whether the pool has fewer workers than it wants, and may start new workers. A pool that is being stopped may not
/// start any.
bool pool_core::is_short_of_workers() const noexcept {
  return crew_.is_short() && !context_gone_ && stop_.replaces_workers(backlog_.size());
}

void pool_core::replace_workers() noexcept {
  for (;;) {
    crew_member* m = nullptr;
    {
      const std::lock_guard lock{mutex_};
      if (is_short_of_workers()) m = crew_.to_join();
      if (m == nullptr) return;
      crew_.join(*m);
    }
    try {
      static_cast<pool_worker&>(*m).spawn();
    } catch (...) {
      return;  // the worker has not started; the destructor of its worker_life has recorded that a worker is missing
    }
  }
}

/// Called when the coroutine of a worker has ended, or its frame was destroyed. Releases the coroutine's reference to
/// the pool.
void pool_core::gone(pool_worker& w) noexcept {
  pool_task* cut_off = nullptr;
  {
    const change c{*this};
    if (w.is(pool_worker::state::running)) {
      cut_off = w.current_;
      w.end_.error = nullptr;
      self_waits_.disown(w);
    }
    if (cut_off != nullptr || w.care_ != worker_resource::function::none) release_loop();
    w.care_ = worker_resource::function::none;
    w.rest_.disarm();
    w.current_ = nullptr;
    w.parked_ = nullptr;
    crew_.lose(w);
    if (cut_off != nullptr) flows_.release(*cut_off);
    // If the pool is now short of workers, this coroutine has ended unintentionally: the operation that it awaited has
    // dropped it, or Asio had no memory to resume it.
    const bool is_missed = is_short_of_workers();
    if (is_missed) retry_soon();
    if (cut_off != nullptr && !cut_off->is_told_) {
      cut_off->add_ref();
      if (is_missed) {
        end(*cut_off, task_state::failed, pool_task::abandoned);
      } else {
        end(*cut_off, task_state::stopped, pool_task::code_of(task_state::stopped));
      }
    }
    check_stop();
    if (context_gone_) w.signal_.slot().clear();
  }
  if (cut_off != nullptr) cut_off->release_ref();
  void* resource = w.resource_.take();
  w.resource_ = {};
  if (resource != nullptr) resources_->discard(resource);
  release_ref();
}

}  // namespace canigo::detail
