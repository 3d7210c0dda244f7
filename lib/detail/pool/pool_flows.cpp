#include "canigo/detail/pool/pool_flows.hpp"

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/error.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

pool_flows::pool_flows(pool_core& core) noexcept
    : core_{&core}, return_{core, [](delivery& d, engine_alarm&) noexcept {
                              auto& c = static_cast<pool_core&>(d);
                              c.backlog_.flows()->advance(c.flows_.now());
                              c.flows_.look_again();
                            }} {}

void pool_flows::check(const canigo::flow& f) const {
  if (f.host_ != this) throw_invalid("task_options.flow", "of another limit or pool", "a flow of this one, or none");
}

std::uint32_t pool_flows::open_flow(const flow_options& o) {
  const pool_core::change c{*core_};
  const pool_core_options& pool = core_->options_;
  const std::size_t workers = core_->crew_.wanted();
  if (o.concurrency != unlimited && (o.concurrency < 1 || o.concurrency > workers)) {
    throw_invalid("flow_options.concurrency", o.concurrency,
                  "1 to " + std::to_string(workers) + ", the workers of the pool, or unlimited");
  }
  if (pool.on_overflow == overflow::wait && o.queue_limit != flow_options{}.queue_limit) {
    throw_invalid("flow_options.queue_limit", o.queue_limit, "none, as the pool lets callers wait for room");
  }
  flow_terms terms = to_terms(o, nullptr, now());
  core_->backlog_.begin_flows(now());
  const std::uint32_t flow = core_->backlog_.flows()->add(std::move(terms));
  core_->add_ref();
  return flow;
}

void pool_flows::close_flow(std::uint32_t flow) noexcept {
  {
    const pool_core::change c{*core_};
    fair_queue& queue = *core_->backlog_.flows();
    const auto end = [this](pool_task& t) {
      core_->backlog_.remove(t);
      core_->end(t, task_state::stopped, pool_task::code_of(task_state::stopped));
    };
    queue.for_each_of(flow, [&](wait_node& n) { end(static_cast<pool_task&>(n)); });
    core_->backlog_.for_each_before_queue([&](pool_task& t) {
      if (t.flow() == flow) end(t);
    });
    for (const auto& w : core_->workers_) {
      pool_task* t = w->current_;
      if (t != nullptr && t->flow() == flow) t->has_lost_flow_ = true;
    }
    queue.forget(flow);
    core_->admit_held();
    core_->check_stop();
  }
  core_->release_ref();
}

void pool_flows::set_flow_weight(std::uint32_t flow, std::uint32_t weight) {
  check_flow_weight("flow.set_weight: weight", weight);
  const std::lock_guard lock{core_->mutex_};
  core_->backlog_.flows()->set_weight(flow, weight);
}

void pool_flows::set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) {
  const pool_core::change c{*core_};
  fair_queue& queue = *core_->backlog_.flows();
  const std::size_t rates = queue.ceiling(flow).rates().size();
  if (index >= rates) throw_invalid("flow.set_rate: index", index, "less than " + std::to_string(rates));
  queue.advance(now());
  queue.set_rate(flow, index, r);
  look_again();
}

void pool_flows::set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) {
  const pool_core::change c{*core_};
  const std::size_t workers = core_->crew_.wanted();
  if (concurrency != unlimited && (concurrency < 1 || concurrency > workers)) {
    throw_invalid("flow.set_concurrency: concurrency", concurrency,
                  "1 to " + std::to_string(workers) + ", the workers of the pool, or unlimited");
  }
  fair_queue& queue = *core_->backlog_.flows();
  queue.advance(now());
  queue.set_cap(flow, concurrency);
  look_again();
}

void pool_flows::pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept {
  const pool_core::change c{*core_};
  fair_queue& queue = *core_->backlog_.flows();
  queue.advance(now());
  queue.pause_until(flow, may_shorten ? t : std::max(t, queue.ceiling(flow).paused_until()));
  look_again();
}

flow_stats pool_flows::stats_of_flow(std::uint32_t flow) const {
  flow_stats s;
  s.available.reserve(most_rates_of_flow);  // this memory is allocated before the lock is taken
  const std::lock_guard lock{core_->mutex_};
  read_flow(*core_->backlog_.flows(), flow, now(), s);
  return s;
}

void pool_flows::choose(pool_task& t, const canigo::flow& f) noexcept { fair_queue::choose(t, f.number_); }

void pool_flows::count_refusal(const pool_task& t) noexcept {
  if (t.place_ == pool_task::place::flow_queue) core_->backlog_.flows()->count_failure(t.flow());
}

void pool_flows::release(const pool_task& t) noexcept {
  if (t.flow() == fair_queue::nameless) return;
  fair_queue& queue = *core_->backlog_.flows();
  queue.advance(now());
  queue.release(t.flow(), 1);
  look_again();
}

void pool_flows::watch() noexcept {
  const time_point at = core_->context_gone_ ? time_point::max() : core_->backlog_.flows()->next_change();
  if (at == time_point::max()) {
    return_.disarm();
  } else {
    return_.arm(at);
  }
}

void pool_flows::look_again() noexcept {
  if (core_->backlog_.has_ready()) {
    core_->wake_one();
  } else {
    watch();
  }
}

time_point pool_flows::now() const noexcept { return core_->context_gone_ ? time_point::min() : core_->time_->now(); }

}  // namespace canigo::detail
