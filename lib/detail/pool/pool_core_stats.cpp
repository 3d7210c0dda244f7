// What a pool tells of itself.

#include "canigo/detail/pool/pool_core.hpp"

#include <algorithm>
#include <mutex>
#include <string>

namespace canigo::detail {

stop_report pool_core::report() const {
  const std::lock_guard lock{mutex_};
  return counts_.report;
}

/// What can take its time (memory, texts) is done before and after the lock.
pool_stats pool_core::stats() const {
  pool_stats s;
  s.queued_by_class.resize(static_cast<std::size_t>(options_.priorities));
  std::vector<const std::string*> texts;
  std::size_t names = 0;
  std::size_t workers = 0;
  do {
    {
      const std::lock_guard lock{mutex_};
      names = names_.size();
      workers = workers_.size();
    }
    s.names.resize(names);
    s.overdue.reserve(workers);
    texts.reserve(names + workers);
  } while (!look(s, texts));
  for (std::size_t i = 0; i < names; ++i) s.names[i].name = *texts[i];
  for (std::size_t i = names; i < texts.size(); ++i) {
    if (texts[i] != nullptr) s.overdue[i - names].name = *texts[i];
  }
  return s;
}

/// Fills in all but the texts, which never change; false if there is not room for all of it.
bool pool_core::look(pool_stats& s, std::vector<const std::string*>& texts) const noexcept {
  const std::lock_guard lock{mutex_};
  if (names_.size() != s.names.size() || workers_.size() > s.overdue.capacity()) return false;
  s.working = crew_.running();
  s.sleeping = crew_.idle();
  s.repairing = crew_.repairing();
  const wait_queue& queue = backlog_.queued();
  s.queued = queue.size();
  s.delayed = backlog_.delayed();
  s.held_back = backlog_.held();
  s.resources = made_;
  for (std::size_t i = 0; i < s.queued_by_class.size(); ++i) s.queued_by_class[i] = queue.size(static_cast<int>(i));
  counts_.write(s);
  names_.write(s.names, texts);
  if (context_gone_) return true;
  const time_point now = time_->now();
  if (const wait_node* n = queue.oldest()) s.oldest_wait = std::max(now - n->since(), duration::zero());
  for (const auto& w : workers_) {
    const pool_task* t = w->current_;
    if (t == nullptr || t->extras_ == nullptr || !t->extras_->is_late) continue;
    const task_extras& x = *t->extras_;
    s.overdue.push_back({t->id_, {}, now - x.started_at, w->index_});
    texts.push_back(x.name != nullptr ? &x.name->name : nullptr);
  }
  return true;
}

task_event pool_core::event_of(const pool_task& t) const noexcept {
  const task_extras& x = *t.extras_;  // which each task has where there is an observer
  task_event e;
  e.id = t.id_;
  e.priority = t.priority;
  e.state = t.state();
  if (x.name != nullptr) e.name = x.name->name;
  e.group = x.group();
  e.attempt = x.attempts.load(std::memory_order_relaxed);
  if (e.attempt > 0) e.waited = x.started_at - x.queued_at;
  e.ran = x.ran;
  return e;
}

}  // namespace canigo::detail
