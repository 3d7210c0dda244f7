// The functions of pool_core that report statistics.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

#include <algorithm>
#include <mutex>
#include <string>

namespace canigo::detail {

bool pool_core::has_come(time_point t) const noexcept {
  const std::lock_guard lock{mutex_};
  return context_gone_ || time_->now() >= t;
}

/// Allocates memory and copies texts without the lock, because both take time. That is safe, because the texts never
/// change.
pool_stats pool_core::stats() const {
  pool_stats s;
  s.queued_by_class.resize(static_cast<std::size_t>(options_.priorities));
  std::vector<const std::string*> texts;
  std::unique_lock lock{mutex_};
  for (;;) {
    const std::size_t names = names_.size();
    const std::size_t workers = workers_.size();
    if (s.names.size() == names && s.overdue.capacity() >= workers) break;
    lock.unlock();
    s.names.resize(names);
    s.overdue.reserve(workers);
    texts.reserve(names + workers);
    lock.lock();
  }
  s.working = crew_.running();
  s.sleeping = crew_.idle();
  s.repairing = crew_.repairing();
  s.queued = backlog_.queued();
  s.delayed = backlog_.delayed();
  s.held_back = backlog_.held();
  s.resources = crew_.equipped();
  for (std::size_t i = 0; i < s.queued_by_class.size(); ++i)
    s.queued_by_class[i] = backlog_.queued(static_cast<int>(i));
  counts_.write(s);
  names_.write(s.names, texts);
  const time_point now = context_gone_ ? time_point::min() : time_->now();
  if (const pool_task* n = backlog_.oldest()) s.oldest_wait = time_between(n->since(), now);
  for (const auto& w : workers_) {
    const pool_task* t = w->current_;
    if (context_gone_ || t == nullptr || t->extras_ == nullptr || !t->extras_->is_late) continue;
    const task_extras& x = *t->extras_;
    s.overdue.push_back({t->id_, {}, time_between(x.started_at, now), w->index_});
    texts.push_back(x.name != nullptr ? &x.name->name : nullptr);
  }
  lock.unlock();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] != nullptr) (i < s.names.size() ? s.names[i].name : s.overdue[i - s.names.size()].name) = *texts[i];
  }
  return s;
}

}  // namespace canigo::detail
