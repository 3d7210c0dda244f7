#include "canigo/detail/pool/pool_backlog.hpp"

#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>

namespace canigo::detail {

pool_backlog::pool_backlog(int priorities, std::size_t limit, overflow on_overflow)
    : queue_{priorities},
      delayed_{priorities},
      held_{priorities},
      limit_at_first_look_{limit},
      limit_{limit},
      on_overflow_{on_overflow} {}

pool_backlog::~pool_backlog() = default;

std::size_t pool_backlog::queued() const noexcept { return queue_.size() + (flows_ != nullptr ? flows_->size() : 0); }

std::size_t pool_backlog::queued(int priority) const noexcept {
  return queue_.size(priority) + (flows_ != nullptr ? flows_->size(priority) : 0);
}

pool_task* pool_backlog::oldest() const noexcept {
  return static_cast<pool_task*>(flows_ == nullptr ? queue_.oldest() : flows_->oldest());
}

bool pool_backlog::has_room(const pool_task& t, std::size_t free_workers, time_point now) const noexcept {
  const std::size_t all = queued() + 1 + delayed_.size();
  if (all <= limit_) return true;
  const std::size_t too_many = all - limit_;
  if (too_many > free_workers) return false;
  if (flows_ == nullptr) return too_many <= queued() + 1;
  return flows_->may_go(now, t.is_to_be_delayed() ? nullptr : &t, too_many) == too_many;
}

/// Returns whether a new task is accepted, and which task it evicts. If the flow of the new task is full, the new task
/// can only replace a task of the same flow. Such a replacement does not make the pool fuller, so the limit of the pool
/// is not checked then.
pool_backlog::entry pool_backlog::admit(pool_task& t, std::size_t free_workers, time_point now) noexcept {
  pool_task* v = nullptr;
  if (flows_ != nullptr) enter_flow(t);
  if (flows_ != nullptr && !has_room_in_flow(t, free_workers, now)) {
    v = victim_in_flow(t);
  } else {
    if (has_room(t, free_workers, now)) return {true, nullptr};
    v = victim(t);
  }
  return {v != nullptr, v};
}

pool_task* pool_backlog::victim(const pool_task& newcomer) const noexcept {
  wait_node* n = nullptr;
  if (on_overflow_ == overflow::evict_oldest) n = oldest();
  if (on_overflow_ == overflow::evict_least_important) {
    n = flows_ == nullptr ? queue_.displaced_by(newcomer.priority)
                          : flows_->displaced_by(newcomer.flow(), newcomer.priority);
  }
  return static_cast<pool_task*>(n);
}

void pool_backlog::queue(pool_task& t, time_point now) noexcept {
  t.state_.store(task_state::queued, std::memory_order_release);
  if (flows_ != nullptr) [[unlikely]]
    return queue_in_flows(t, now);
  queue_.push(t, now);
}

void pool_backlog::delay(pool_task& t, time_point now) noexcept {
  t.state_.store(task_state::delayed, std::memory_order_release);
  delayed_.push(t, now);
  if (is_of_flow(t)) flows_->note_coming(t.flow());
}

void pool_backlog::hold(pool_task& t, time_point now) noexcept {
  t.place_ = pool_task::place::held;
  held_.push(t, now);
}

pool_task& pool_backlog::take_held(time_point now) noexcept {
  auto& t = static_cast<pool_task&>(*held_.front(now));
  remove(t);
  return t;
}

void pool_backlog::remove(pool_task& t) noexcept {
  if (t.place_ == pool_task::place::held) {
    t.place_ = pool_task::place::queue;
    held_.remove(t);
  } else if (t.state() == task_state::delayed) {
    delayed_.remove(t);
    if (is_of_flow(t)) flows_->drop_coming(t.flow());
  } else if (t.place_ == pool_task::place::flow_queue) {
    flows_->count_failure(t.flow());
    flows_->remove(t);
  } else {
    queue_.remove(t);
  }
}

pool_task* pool_backlog::take_any_held() noexcept {
  auto* t = static_cast<pool_task*>(held_.oldest());
  if (t != nullptr) remove(*t);
  return t;
}

pool_task* pool_backlog::take_any() noexcept {
  wait_node* n = queue_.oldest();
  if (n == nullptr && flows_ != nullptr) n = has_ready_in_flows() ? flows_->front() : flows_->oldest();
  if (n == nullptr) n = delayed_.oldest();
  if (n == nullptr) n = held_.oldest();
  auto* t = static_cast<pool_task*>(n);
  if (t != nullptr) remove(*t);
  return t;
}

void pool_backlog::begin_flows(time_point now) {
  if (flows_ != nullptr) return;
  auto flows = std::make_unique<fair_queue>(queue_.priorities(), duration::max(), supplies::occupancy::one);
  flows->take_over(queue_, now);
  flows->for_each([](wait_node& n) { static_cast<pool_task&>(n).place_ = pool_task::place::flow_queue; });
  flows_ = std::move(flows);
  limit_at_first_look_ = 0;
}

void pool_backlog::enter_flow(pool_task& t) noexcept {
  t.place_ = pool_task::place::flow_queue;
  if (!flows_->is_open(t.flow())) fair_queue::choose(t, fair_queue::nameless);
}

/// Adds a task to the queue of its flow. Not inline: otherwise the code for tasks without flows would also save the
/// processor registers that only this function needs.
[[gnu::noinline]] void pool_backlog::queue_in_flows(pool_task& t, time_point now) noexcept {
  t.place_ = pool_task::place::flow_queue;
  flows_->advance(now);
  flows_->push(t, t.flow());
}

bool pool_backlog::is_of_flow(const pool_task& t) const noexcept {
  return flows_ != nullptr && t.flow() != fair_queue::nameless;
}

/// Whether a new task fits into the queue limit of its flow. Tasks of this flow that free workers will take immediately
/// do not count. Free workers may take tasks of other flows first, so only the workers that are left afterwards are
/// considered.
bool pool_backlog::has_room_in_flow(const pool_task& t, std::size_t free_workers, time_point now) const noexcept {
  const std::uint32_t flow = t.flow();
  const std::size_t queued = flows_->flow_size(flow), all = queued + flows_->coming(flow) + 1;
  if (all <= flows_->queue_limit(flow)) return true;
  const std::uint64_t allowed = flows_->ceiling(flow).allows(now);
  const std::size_t to_go = flows_->may_go(now, nullptr, flows_->size());
  const std::size_t of_others = to_go - static_cast<std::size_t>(std::min<std::uint64_t>(queued, allowed));
  const std::size_t left = free_workers - std::min(free_workers, of_others);
  const std::size_t could_go = std::min(left, t.is_to_be_delayed() ? queued : queued + 1);
  return all - flows_->queue_limit(flow) <= std::min<std::uint64_t>(could_go, allowed);
}

pool_task* pool_backlog::victim_in_flow(const pool_task& t) const noexcept {
  wait_node* n = nullptr;
  if (on_overflow_ == overflow::evict_oldest) n = flows_->oldest_of(t.flow());
  if (on_overflow_ == overflow::evict_least_important) {
    n = flows_->youngest_of_least_important_of(t.flow());
    if (n != nullptr && n->priority <= t.priority) n = nullptr;
  }
  return static_cast<pool_task*>(n);
}

pool_task* pool_backlog::take_from_flows(time_point now) noexcept {
  wait_node* n = flows_->front(now);
  if (n == nullptr) return nullptr;
  flows_->grant(*n, now);
  auto& t = static_cast<pool_task&>(*n);
  t.place_ = pool_task::place::queue;
  return &begun(t);
}

bool pool_backlog::has_ready_in_flows() const noexcept { return flows_->front() != nullptr; }

}  // namespace canigo::detail
