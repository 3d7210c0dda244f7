#include "memory_table.hpp"

#include "canigo/algorithms/backoff.hpp"

#include "history.hpp"

#include <algorithm>
#include <iterator>

namespace canigo::jobs::detail {
namespace {

bool waits_for_batch(const job_info& j) {
  return j.state == job_state::waiting && !j.after_batch.empty() && j.run_at == instant::max();
}

}  // namespace

/// Returns the running job whose last claim has this lease; null if there is none.
memory_table::row* memory_table::held(lease l) {
  const auto found = rows_.find(l.id);
  if (found == rows_.end()) return nullptr;
  row& r = found->second;
  return r.state == job_state::running && r.token == l.token ? &r : nullptr;
}

/// Adds the job to the indexes of its state.
void memory_table::enter(row& r) {
  if (!r.batch.empty() && !has_ended(r.state)) ++unended_[r.batch];
  if (waits_for_batch(r)) after_batches_[r.after_batch].insert(r.id);
  switch (r.state) {
    case job_state::waiting:
      ready_.emplace(r.queue, r.priority, r.run_at, r.id);
      if (r.deadline) deadlines_.emplace(*r.deadline, r.id);
      break;
    case job_state::running:
      leases_.emplace(*r.lease_until, r.id);
      break;
    default:
      ended_.emplace(r.queue, *r.finished_at, r.state, r.id);
  }
}

void memory_table::leave(row& r) {
  if (!r.batch.empty() && !has_ended(r.state) && --unended_[r.batch] == 0) unended_.erase(r.batch);
  if (waits_for_batch(r)) wait_no_longer(r);
  switch (r.state) {
    case job_state::waiting:
      ready_.erase({r.queue, r.priority, r.run_at, r.id});
      if (r.deadline) deadlines_.erase({*r.deadline, r.id});
      break;
    case job_state::running:
      leases_.erase({*r.lease_until, r.id});
      break;
    default:
      ended_.erase({r.queue, *r.finished_at, r.state, r.id});
  }
}

void memory_table::wait_no_longer(const row& r) {
  const auto found = after_batches_.find(r.after_batch);
  if (found == after_batches_.end()) return;
  found->second.erase(r.id);
  // an empty entry is removed, because otherwise the names of old batches would stay in memory for ever
  if (found->second.empty()) after_batches_.erase(found);
}

void memory_table::drop_key(row& r) {
  if (!r.unique_key.empty()) keys_.erase(r.unique_key);
  r.unique_key.clear();
}

/// Returns the job that has the unique key at this time; nothing if the key is free.
std::optional<job_id> memory_table::holder_of(const std::string& key, instant now) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  row& r = rows_.at(found->second);
  if (r.unique_until > now) return r.id;
  drop_key(r);
  return std::nullopt;
}

/// Ends a job. Precondition: the job is in no index.
void memory_table::end(row& r, job_state s, instant now) {
  r.state = s;
  r.finished_at = now;
  r.lease_until.reset();
  if (s != job_state::done) r.result.clear();
  if (r.scope != unique_scope::for_a_time || r.unique_until <= now) drop_key(r);
  enter(r);
  settle(r.batch, now);
  note_news();
}

/// If the last job of the batch has ended, makes the jobs that wait for the batch claimable.
void memory_table::settle(const std::string& batch, instant now) {
  if (unended_.contains(batch)) return;
  const auto found = after_batches_.find(batch);
  if (found == after_batches_.end()) return;
  const std::set<job_id> ready = found->second;
  for (const job_id id : ready) {
    row& r = rows_.at(id);
    leave(r);
    r.run_at = now;
    enter(r);
  }
}

/// Ends a run. The job itself may continue with another run.
void memory_table::end_run(row& r, job_state s, instant run_at, instant now) {
  if (r.cancel_at) s = job_state::cancelled;
  if (s != job_state::waiting) return end(r, s, now);
  r.state = s;
  r.run_at = run_at;
  r.lease_until.reset();
  r.result.clear();
  enter(r);
  note_news();
}

void memory_table::note(row& r, event::type what, const std::string& text, instant now) {
  add_event(r.history, {.at = now, .what = what, .attempt = r.attempt, .text = text});
}

void memory_table::reap(instant now) {
  for (std::size_t n = 0; n < reap_limit && !leases_.empty() && leases_.begin()->first <= now; ++n) {
    row& r = rows_.at(leases_.begin()->second);
    leave(r);
    note(r, event::type::crashed, {}, now);
    --r.attempt;
    ++r.crashes;
    const bool is_poison = r.crashes >= policy_.most_crashes;
    end_run(r, is_poison ? job_state::dead : job_state::waiting,
            later(now, policy_.after_crash.delay(r.crashes, random_ *= 0x5851F42D4C957F2D)), now);
  }
  for (std::size_t n = 0; n < reap_limit && !deadlines_.empty() && deadlines_.begin()->first <= now; ++n) {
    row& r = rows_.at(deadlines_.begin()->second);
    leave(r);
    note(r, event::type::expired, {}, now);
    end(r, job_state::dead, now);
  }
}

std::vector<put_answer> memory_table::put_all(const std::vector<new_job>& list, instant now) {
  std::vector<put_answer> answers;
  for (const new_job& j : list) {
    if (!j.unique_key.empty()) {
      if (const auto holder = holder_of(j.unique_key, now)) {
        answers.push_back({.id = *holder, .is_new = false});
        continue;
      }
    }
    row r;
    r.id = ++last_id_;
    r.queue = j.queue;
    r.kind = j.kind;
    r.payload = j.payload;
    r.priority = j.priority;
    r.max_attempts = j.max_attempts;
    r.created_at = now;
    r.run_at = due_of(j, now);
    r.batch = j.batch;
    r.after_batch = j.after_batch;
    if (j.expires_in != duration::max()) r.deadline = later(now, j.expires_in);
    r.unique_key = r.key_as_put = j.unique_key;
    r.scope = j.scope;
    if (j.scope == unique_scope::for_a_time) r.unique_until = later(now, j.unique_for);
    queues_.try_emplace(j.queue, false);
    if (!j.unique_key.empty()) keys_.emplace(j.unique_key, r.id);
    row& kept = rows_.emplace(r.id, std::move(r)).first->second;
    enter(kept);
    note_news();
    answers.push_back({.id = kept.id, .is_new = true});
  }
  for (const new_job& j : list) {
    if (!j.after_batch.empty()) settle(j.after_batch, now);
  }
  return answers;
}

/// Moves a waiting job to the running ones. First stores the lease, because this step may fail for lack of memory. A
/// failure after leave() would lose the job: it would not wait, and no expired lease would bring it back.
void memory_table::begin(row& r, instant lease_until) {
  leases_.emplace(lease_until, r.id);
  const auto batch = unended_.find(r.batch);
  if (batch != unended_.end()) ++batch->second;
  leave(r);
  r.state = job_state::running;
  ++r.attempt;
  ++r.token;
  r.lease_until = lease_until;
  if (r.scope == unique_scope::until_begun) drop_key(r);
}

std::vector<claimed_job> memory_table::claim(const claim_request& request, instant now) {
  reap(now);
  std::vector<claimed_job> claimed;
  const auto queue = queues_.find(request.queue);
  if (queue == queues_.end() || queue->second) return claimed;
  for (int priority = 0; priority < most_priorities; ++priority) {
    while (claimed.size() < request.limit) {
      const auto first = ready_.lower_bound({request.queue, priority, instant::min(), 0});
      if (first == ready_.end() || std::get<0>(*first) != request.queue || std::get<1>(*first) != priority ||
          std::get<2>(*first) > now) {
        break;
      }
      row& r = rows_.at(std::get<3>(*first));
      if (r.deadline && *r.deadline <= now) {
        leave(r);
        note(r, event::type::expired, {}, now);
        end(r, job_state::dead, now);
        continue;
      }
      claimed.push_back({.lease = {r.id, r.token + 1},
                         .queue = r.queue,
                         .kind = r.kind,
                         .payload = r.payload,
                         .priority = r.priority,
                         .attempt = r.attempt + 1,
                         .max_attempts = r.max_attempts,
                         .crashes = r.crashes,
                         .snoozes = r.snoozes,
                         .run_at = r.run_at,
                         .expires_in = r.deadline ? until(now, *r.deadline) : duration::max()});
      begin(r, later(now, request.lease));
    }
  }
  return claimed;
}

verdict memory_table::complete(lease l, const std::string& result, instant now) {
  row* r = held(l);
  if (r == nullptr) return verdict::superseded;
  leave(*r);
  r->result = result;
  end(*r, job_state::done, now);
  return verdict::accepted;
}

verdict memory_table::fail(lease l, const std::string& text, duration retry_in, instant now) {
  row* r = held(l);
  if (r == nullptr) return verdict::superseded;
  leave(*r);
  note(*r, event::type::failed, text, now);
  const bool is_last = r->attempt >= r->max_attempts || retry_in == duration::max();
  end_run(*r, is_last ? job_state::dead : job_state::waiting, later(now, retry_in), now);
  return verdict::accepted;
}

verdict memory_table::snooze(lease l, duration d, instant now) {
  row* r = held(l);
  if (r == nullptr) return verdict::superseded;
  leave(*r);
  --r->attempt;
  ++r->snoozes;
  end_run(*r, job_state::waiting, later(now, d), now);
  return verdict::accepted;
}

verdict memory_table::give_back(lease l, instant now) {
  row* r = held(l);
  if (r == nullptr) return verdict::superseded;
  leave(*r);
  --r->attempt;
  end_run(*r, job_state::waiting, r->run_at, now);
  return verdict::accepted;
}

extension memory_table::extend(lease l, duration d, const std::optional<std::string>& progress, instant now) {
  row* r = held(l);
  if (r == nullptr) return {};
  leave(*r);
  r->lease_until = later(now, d);
  if (progress) r->result = *progress;
  enter(*r);
  return {.verdict = verdict::accepted,
          .is_cancelled = r->cancel_at.has_value(),
          .expires_in = r->deadline ? until(now, *r->deadline) : duration::max()};
}

cancel_answer memory_table::cancel(job_id id, instant now) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return cancel_answer::unknown;
  row& r = found->second;
  if (has_ended(r.state)) return cancel_answer::ended;
  if (!r.cancel_at) r.cancel_at = now;
  note_news();
  if (r.state == job_state::running) return cancel_answer::marked;
  leave(r);
  end(r, job_state::cancelled, now);
  return cancel_answer::cancelled;
}

requeue_answer memory_table::requeue(job_id id, instant now) {
  using type = requeue_answer::type;
  const auto found = rows_.find(id);
  if (found == rows_.end()) return {.what = type::unknown};
  row& r = found->second;
  if (!has_ended(r.state)) return {.what = type::unended};
  if (!r.key_as_put.empty()) {
    if (const auto holder = holder_of(r.key_as_put, now); holder && *holder != id) {
      return {.what = type::key_taken, .holder = *holder};
    }
    if (r.scope != unique_scope::for_a_time && r.unique_key.empty()) {
      r.unique_key = r.key_as_put;
      keys_.emplace(r.unique_key, id);
    }
  }
  leave(r);
  r.state = job_state::waiting;
  r.run_at = now;
  r.max_attempts = std::max(r.max_attempts, r.attempt + 1);
  r.crashes = 0;
  r.cancel_at.reset();
  r.finished_at.reset();
  r.result.clear();
  if (r.deadline && *r.deadline <= now) r.deadline.reset();
  enter(r);
  note_news();
  return {.what = type::requeued};
}

void memory_table::forget(rows::iterator r) {
  leave(r->second);
  drop_key(r->second);
  rows_.erase(r);
}

remove_answer memory_table::remove(job_id id, instant now) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return remove_answer::unknown;
  if (found->second.state == job_state::running) return remove_answer::running;
  const std::string batch = found->second.batch;
  forget(found);
  settle(batch, now);
  note_news();
  return remove_answer::removed;
}

std::size_t memory_table::trim(const trim_request& request, instant now) {
  std::size_t removed = 0;
  const auto first = [&] { return ended_.lower_bound({request.queue, instant::min(), {}, 0}); };
  const auto past = [&] { return ended_.lower_bound({request.queue + '\0', instant::min(), {}, 0}); };
  std::size_t there = request.keep == SIZE_MAX ? 0 : static_cast<std::size_t>(std::distance(first(), past()));
  for (auto i = first(); i != past() && removed < request.limit; i = first(), ++removed) {
    const bool is_old = request.older_than != duration::max() && later(std::get<1>(*i), request.older_than) <= now;
    if (!is_old && (request.keep == SIZE_MAX || there <= request.keep)) break;
    --there;
    forget(rows_.find(std::get<3>(*i)));
  }
  return removed;
}

void memory_table::pause(const std::string& queue, bool is_paused, instant) {
  queues_[queue] = is_paused;
  note_news();
}

instant memory_table::next_due(const std::string& queue) {
  instant first = instant::max();
  if (!leases_.empty()) first = std::min(first, leases_.begin()->first);
  if (!deadlines_.empty()) first = std::min(first, deadlines_.begin()->first);
  const auto known = queues_.find(queue);
  if (known == queues_.end() || known->second) return first;
  for (int priority = 0; priority < most_priorities; ++priority) {
    const auto i = ready_.lower_bound({queue, priority, instant::min(), 0});
    if (i != ready_.end() && std::get<0>(*i) == queue && std::get<1>(*i) == priority) {
      first = std::min(first, std::get<2>(*i));
    }
  }
  return first;
}

std::optional<job_info> memory_table::look(job_id id) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return std::nullopt;
  return found->second;
}

std::vector<job_info> memory_table::list(const list_request& r) {
  std::vector<job_info> jobs;
  for (auto next = rows_.upper_bound(r.after); next != rows_.end() && jobs.size() < r.limit; ++next) {
    const row& found = next->second;
    if ((!r.queue.empty() && found.queue != r.queue) || (r.state && found.state != *r.state) ||
        (!r.batch.empty() && found.batch != r.batch)) {
      continue;
    }
    job_info& info = jobs.emplace_back(found);
    info.payload.clear();
    info.result.clear();
    info.history.clear();
  }
  return jobs;
}

std::vector<queue_count> memory_table::count(instant now) {
  std::vector<queue_count> counts;
  for (const auto& [name, is_paused] : queues_) {
    queue_count c{.queue = name, .is_paused = is_paused};
    for (const auto& [id, r] : rows_) {
      if (r.queue != name) continue;
      ++c.by_state[static_cast<std::size_t>(r.state)];
      if (r.state == job_state::waiting) c.oldest = std::max(c.oldest, until(r.run_at, now));
    }
    counts.push_back(std::move(c));
  }
  return counts;
}

}  // namespace canigo::jobs::detail
