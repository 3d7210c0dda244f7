#include "show.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace canigo::metrics {

namespace {

constexpr std::size_t most_classes = 16;
constexpr std::size_t most_task_names = 64;

using labels = families::labels;

double number(std::uint64_t n) { return static_cast<double>(n); }
double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

void show_ends(families& f, const char* name, const char* help, const std::string& object,
               std::initializer_list<std::pair<const char*, std::uint64_t>> ends) {
  for (const auto& [outcome, count] : ends)
    f.counter(name, help, {{"name", object}, {"outcome", outcome}}, number(count));
}

void show_class(families& f, const std::string& object, const std::string& label, const class_stats& c) {
  const labels l{{"name", object}, {"class", label}};
  f.gauge("canigo_waiting", "Waiting requests.", l, number(c.waiting));
  f.counter("canigo_granted_total", "Requests that were granted.", l, number(c.granted));
  f.histogram("canigo_wait_seconds", "How long the granted requests waited.", l, c.wait);
}

void show_queue(families& f, const std::string& object, const queue_stats& s) {
  show_ends(f, "canigo_requests_total", "Requests that ended, by the way in which they ended.", object,
            {{"granted", s.granted},
             {"cancelled", s.cancelled},
             {"timed_out", s.timed_out},
             {"evicted", s.evicted},
             {"rejected", s.rejected},
             {"stopped", s.stopped},
             {"shed", s.shed}});
  const rejection_stats& r = s.rejections;
  for (const auto& [cause, count] : {std::pair{"not_there", r.not_there},
                                     {"queue_full", r.queue_full},
                                     {"unreachable", r.unreachable},
                                     {"too_large", r.too_large},
                                     {"invalid", r.invalid},
                                     {"other", r.other}}) {
    f.counter("canigo_rejected_total", "Requests that were refused at once, by the cause.",
              {{"name", object}, {"cause", cause}}, number(count));
  }
  class_stats others;
  for (std::size_t i = 0; i < s.classes.size(); ++i) {
    const class_stats& c = s.classes[i];
    if (i < most_classes - 1 || s.classes.size() <= most_classes) {
      show_class(f, object, std::to_string(i), c);
    } else {
      others.waiting += c.waiting;
      others.granted += c.granted;
      others.wait.merge(c.wait);
    }
  }
  if (s.classes.size() > most_classes) show_class(f, object, "other", others);
}

void show_tokens(families& f, const std::string& object, std::size_t rate, std::int64_t tokens) {
  f.gauge("canigo_tokens", "Tokens available now. Below 0: more tokens were charged than the bucket had.",
          {{"name", object}, {"rate", std::to_string(rate)}}, static_cast<double>(tokens));
}

void show_shadow(families& f, const std::string& object, const shadow_stats& s) {
  show_ends(f, "canigo_shadow_total", "Requests granted in shadow mode, by how they would have ended.", object,
            {{"waited", s.waited}, {"refused", s.refused}, {"shed", s.shed}});
  f.histogram("canigo_shadow_wait_seconds", "How long requests granted in shadow mode would have waited.",
              {{"name", object}}, s.wait);
}

void show_places(families& f, const std::string& object, std::uint64_t held, std::uint64_t capacity) {
  f.gauge("canigo_permits_held", "Permits that are in use.", {{"name", object}}, number(held));
  if (capacity != unlimited) {
    f.gauge("canigo_permits_capacity", "The total number of permits.", {{"name", object}}, number(capacity));
  }
}

void show_binding(families& f, const std::string& object, const binding_stats& s) {
  const auto show = [&](const std::string& limit, duration d) {
    f.counter("canigo_binding_seconds_total", "Time for which the first waiter waited for the limit in the label.",
              {{"name", object}, {"limit", limit}}, seconds(d));
  };
  for (std::size_t i = 0; i < s.rates.size(); ++i) show("rate " + std::to_string(i), s.rates[i]);
  show("concurrency", s.concurrency);
  show("share", s.share);
  show("paused", s.paused);
  show("flow", s.flow);
  show("alternatives", s.alternatives);
  show("sublimit", s.sublimit);
}

void show_task_name(families& f, const std::string& pool, const name_stats& n) {
  const labels l{{"name", pool}, {"task", n.name}};
  for (const auto& [outcome, count] : {std::pair{"succeeded", n.succeeded}, std::pair{"failed", n.failed}}) {
    f.counter("canigo_pool_attempts_total", "Attempts by the task's name and how they ended.",
              {{"name", pool}, {"task", n.name}, {"outcome", outcome}}, number(count));
  }
  f.histogram("canigo_pool_wait_seconds", "How long attempts waited in the queue, by the task's name.", l, n.waited);
  f.histogram("canigo_pool_run_seconds", "How long attempts ran, by the task's name.", l, n.ran);
}

void show_task_names(families& f, const std::string& pool, const std::vector<name_stats>& names) {
  const std::size_t shown = std::min(names.size(), most_task_names);
  for (std::size_t i = 0; i < shown; ++i) show_task_name(f, pool, names[i]);
  if (shown == names.size()) return;
  name_stats others;
  others.name = "other";
  for (std::size_t i = shown; i < names.size(); ++i) {
    others.succeeded += names[i].succeeded;
    others.failed += names[i].failed;
    others.waited.merge(names[i].waited);
    others.ran.merge(names[i].ran);
  }
  show_task_name(f, pool, others);
}

}  // namespace

void show(families& f, const std::string& object, const scheduler_stats& s) {
  show_queue(f, object, s);
  show_tokens(f, object, 0, s.tokens);
  show_shadow(f, object, s.shadow);
}

void show(families& f, const std::string& object, const semaphore_stats& s) {
  show_queue(f, object, s);
  show_places(f, object, s.held, s.capacity);
  show_shadow(f, object, s.shadow);
}

void show(families& f, const std::string& object, const flow_stats& s) {
  const labels l{{"name", object}};
  f.gauge("canigo_flow_waiting", "Waiting requests of a flow.", l, number(s.waiting));
  f.gauge("canigo_flow_held", "Places that a flow occupies: held permits or running tasks.", l, number(s.held));
  f.gauge("canigo_flow_weight", "The weight of a flow, relative to the other flows of its limit.", l, number(s.weight));
  f.gauge("canigo_flow_held_back", "1 while a flow waits for its own ceiling or pause, not for the limit.", l,
          s.is_held_back ? 1 : 0);
  f.counter("canigo_flow_granted_total", "Requests of a flow that were granted.", l, number(s.granted));
  f.counter("canigo_flow_tokens_total", "Tokens of the granted requests of a flow.", l, number(s.tokens));
  f.counter("canigo_flow_failed_total", "Requests of a flow that ended without a grant.", l, number(s.failed));
  for (std::size_t i = 0; i < s.available.size(); ++i) {
    f.gauge("canigo_flow_tokens", "Tokens of a flow's own rate. Below 0: more tokens were charged than the bucket had.",
            {{"name", object}, {"rate", std::to_string(i)}}, static_cast<double>(s.available[i]));
  }
  if (s.wait) f.histogram("canigo_flow_wait_seconds", "How long the granted requests of a flow waited.", l, *s.wait);
}

void show(families& f, const std::string& object, const adaptive_limit_stats& s) {
  show_queue(f, object, s);
  show_places(f, object, s.held, s.limit);
  const labels l{{"name", object}};
  f.gauge("canigo_adaptive_baseline_seconds", "The latency of a callee that is not overloaded. 0: not known yet.", l,
          seconds(s.baseline));
  f.gauge("canigo_adaptive_latency_seconds", "The median latency of the calls in the adaptive limit's last window.", l,
          seconds(s.latency));
  f.gauge("canigo_adaptive_decision", "1, with the reason of the adaptive limit's last decision in the label.",
          {{"name", object}, {"reason", std::string{to_string(s.last_decision.why)}}}, 1);
  show_ends(
      f, "canigo_adaptive_calls_total", "Calls by how they ended, as reported to an adaptive limit.", object,
      {{"succeeded", s.succeeded}, {"dropped", s.dropped}, {"given_up", s.given_up}, {"unreported", s.unreported}});
}

void show(families& f, const std::string& object, const circuit_breaker_stats& s) {
  for (const circuit_state state : {circuit_state::closed, circuit_state::open, circuit_state::half_open,
                                    circuit_state::forced_open, circuit_state::forced_closed}) {
    f.gauge("canigo_circuit_state", "1 for the state that the circuit breaker is in.",
            {{"name", object}, {"state", std::string{to_string(state)}}}, s.state == state ? 1 : 0);
  }
  const labels l{{"name", object}};
  for (const auto& [kind, count] :
       {std::pair{"all", s.counted.calls}, std::pair{"failed", s.counted.failed}, std::pair{"slow", s.counted.slow}}) {
    f.gauge("canigo_circuit_counted", "Calls that count now: those of the window, or the probes that have reported.",
            {{"name", object}, {"kind", kind}}, number(count));
  }
  show_ends(f, "canigo_circuit_calls_total",
            "Calls by how they ended. unreported: without a result, such as cancelled calls.", object,
            {{"succeeded", s.succeeded}, {"failed", s.failed}, {"unreported", s.unreported}, {"refused", s.refused}});
  f.counter("canigo_circuit_slow_total",
            "Calls that took longer than the breaker's option slow, whether they failed or not.", l, number(s.slow));
  f.counter("canigo_circuit_would_refuse_total",
            "Calls that the breaker let pass in shadow mode, and would otherwise have refused.", l,
            number(s.would_refuse));
  f.counter("canigo_circuit_opened_total", "How often the circuit breaker opened.", l, number(s.opened));
}

void show(families& f, const std::string& object, const limiter_stats& s) {
  show_queue(f, object, s);
  for (std::size_t i = 0; i < s.tokens.size(); ++i) show_tokens(f, object, i, s.tokens[i]);
  show_places(f, object, s.held, s.concurrency);
  show_binding(f, object, s.binding);
  show_shadow(f, object, s.shadow);
}

static void show(families& f, const std::string& object, const policy_stats& s) {
  const labels l{{"name", object}};
  show_ends(f, "canigo_policy_calls_total", "Calls of a policy by how they ended.", object,
            {{"succeeded", s.succeeded},
             {"failed", s.failed},
             {"timed_out", s.timed_out},
             {"cancelled", s.cancelled},
             {"refused", s.refused},
             {"circuit_open", s.circuit_open}});
  f.gauge("canigo_policy_under_way", "Calls of a policy that have not ended.", l, number(s.under_way));
  f.counter("canigo_policy_operations_total", "Operations that a policy started, with retries and copies.", l,
            number(s.operations));
  f.histogram("canigo_policy_call_seconds", "Time from the start of a call to its result, including waits and retries.",
              l, s.took);
}

void show(families& f, const std::string& pool, const pool_stats& s) {
  for (const auto& [state, count] :
       {std::pair{"working", s.working}, std::pair{"sleeping", s.sleeping}, std::pair{"repairing", s.repairing}}) {
    f.gauge("canigo_pool_workers", "Workers by their state.", {{"name", pool}, {"state", state}}, number(count));
  }
  for (const auto& [state, count] :
       {std::pair{"queued", s.queued}, std::pair{"delayed", s.delayed}, std::pair{"held_back", s.held_back}}) {
    f.gauge("canigo_pool_tasks", "Tasks that wait to run, by state.",
            {{"name", pool}, {"state", state}}, number(count));
  }
  const labels l{{"name", pool}};
  f.gauge("canigo_pool_oldest_wait_seconds", "How long the oldest queued task has been queued.", l,
          seconds(s.oldest_wait));
  f.gauge("canigo_pool_resources", "Resources that workers own.", l, number(s.resources));
  f.gauge("canigo_pool_overdue", "Operations that still run after the end of their time limit.", l,
          number(s.overdue.size()));
  f.counter("canigo_pool_submitted_total", "Tasks that the pool accepted.", l, number(s.submitted));
  f.counter("canigo_pool_rejected_total", "Tasks refused: the queue was full, or the pool stopped.", l,
            number(s.rejected));
  f.counter("canigo_pool_evicted_total", "Tasks that were evicted from a full queue.", l, number(s.evicted));
  f.counter("canigo_pool_retries_total", "Attempts of tasks after their first attempt.", l, number(s.retries));
  f.counter("canigo_pool_restarts_total",
            "Restarts of workers, including the restart that exceeded the limit and stopped the pool.", l,
            number(s.restarts));
  f.counter("canigo_pool_overdue_total", "Tasks whose caller got timed_out before the operation had ended.", l,
            number(s.overdue_total));
  show_ends(f, "canigo_pool_processed_total", "Tasks that ended, by the way in which they ended.", pool,
            {{"succeeded", s.succeeded},
             {"failed", s.failed},
             {"cancelled", s.cancelled},
             {"timed_out", s.timed_out},
             {"stopped", s.stopped}});
  show_task_names(f, pool, s.names);
}

void show(families& f, const std::string& object, const shared_limit_stats& s) {
  const labels l{{"name", object}};
  show_queue(f, object, s);
  f.gauge("canigo_permits_held", "Permits that are in use.", l, number(s.held));
  f.gauge("canigo_shared_idle", "Unused permits that this process keeps, or tokens that it has taken in advance.", l,
          number(s.idle));
  f.gauge("canigo_shared_held", "Permits that all processes hold, by the last answer of Redis.", l,
          number(s.held_by_all));
  f.gauge("canigo_shared_waiting", "Waiting requests of all processes, by the last answer of Redis.", l,
          number(s.waiting_of_all));
  f.gauge("canigo_shared_available", "1 if Redis answered the last call.", l, s.available ? 1 : 0);
  if (!s.cause.empty()) {
    f.gauge("canigo_shared_error",
            "1, with the cause in the label, while Redis does not answer or its messages do not arrive.",
            {{"name", object}, {"cause", s.cause}}, 1);
  }
  f.gauge("canigo_shared_quarantine_seconds", "For how long Redis will still grant no request, by its last answer.", l,
          seconds(s.quarantine));
  f.counter("canigo_shared_round_trips_total", "Calls that Redis answered.", l, number(s.round_trips));
  f.histogram("canigo_shared_round_trip_seconds", "Duration of the calls that Redis answered.", l, s.round_trip);
  f.counter("canigo_shared_failed_calls_total", "Calls that Redis did not answer.", l, number(s.failed_calls));
  f.counter("canigo_shared_lost_leases_total", "Permits whose lease ended while they were held.", l,
            number(s.lost_leases));
  for (const auto& [how, count] : {std::pair{"ahead", s.granted_ahead}, std::pair{"alone", s.granted_locally}}) {
    f.counter("canigo_shared_granted_here_total",
              "Requests granted without a round trip: from a reserve, or during an outage of Redis.",
              {{"name", object}, {"how", how}}, number(count));
  }
}

void show(families& f, const std::string& object, const keyed_stats& s) {
  const labels l{{"name", object}};
  f.gauge("canigo_keyed_keys", "Keys in the table of a keyed limit.", l, number(s.keys));
  f.gauge("canigo_keyed_capacity", "The maximum number of keys.", l, number(s.most_keys));
  f.gauge("canigo_keyed_keys_with_waiters", "Keys whose limit has waiting requests.", l, number(s.keys_with_waiters));
  f.gauge("canigo_keyed_waiting", "Waiting requests of all keys.", l, number(s.waiting));
  f.gauge("canigo_keyed_bytes", "Memory of the tables of keys, in bytes.", l, number(s.bytes));
  show_ends(f, "canigo_keyed_requests_total", "Requests of all keys by how they ended.", object,
            {{"granted", s.granted}, {"refused", s.refused}, {"given_up", s.given_up}});
  f.counter("canigo_keyed_beyond_total", "Requests of new keys that arrived while the table of keys was full.", l,
            number(s.beyond));
  f.counter("canigo_keyed_forgotten_total",
            "Keys that were dropped from the table, because their limits were in the state of a new key's limit.", l,
            number(s.forgotten));
}

void show(families& f, const std::string& object, const loop_lag_stats& s) {
  const labels l{{"name", object}};
  f.histogram("canigo_loop_lag_seconds", "How much later than scheduled the event loop ran a handler.", l, s.lag);
  f.gauge("canigo_loop_overloaded", "1 while the lag of the event loop is at or above the threshold.", l,
          s.overloaded ? 1 : 0);
  f.counter("canigo_loop_overloads_total", "How often the lag of the event loop reached the threshold.", l,
            number(s.overloads));
}

void show(families& f, const std::string& object, const connection_stats& s) {
  const labels l{{"name", object}};
  f.gauge("canigo_client_waiting", "Commands that wait for a connection.", l, number(s.waiting));
  f.gauge("canigo_client_in_flight", "Commands that were sent and are not answered yet.", l, number(s.in_flight));
  f.counter("canigo_client_sent_total", "Commands that were sent to Redis.", l, number(s.sent));
  f.counter("canigo_client_answered_total", "Commands that Redis has answered.", l, number(s.answered));
  f.counter("canigo_client_connects_total", "Connections to Redis that were made, including the first.", l,
            number(s.connects));
  f.counter("canigo_client_failures_total", "Connections to Redis that were lost, and attempts to connect that failed.",
            l, number(s.failures));
}

void show(families& f, const std::string& object, const http_stats& s) {
  const labels l{{"name", object}};
  f.gauge("canigo_http_waiting", "HTTP requests that wait for a connection.", l, number(s.waiting));
  f.gauge("canigo_http_running", "Running HTTP requests.", l, number(s.running));
  f.counter("canigo_http_finished_total", "HTTP requests that ended, with a response or an error.", l,
            number(s.finished));
}

void show(families& f, const std::string& object, const jobs_stats& s) {
  f.counter("canigo_jobs_store_failures_total", "Calls to the job store that failed.", {{"name", object}},
            number(s.store_failures));
  if (!s.cause.empty()) {
    f.gauge("canigo_jobs_store_error",
            "1, with the cause in the label, while calls to the job store fail or the store reports a problem.",
            {{"name", object}, {"cause", s.cause}}, 1);
  }
  for (const auto& q : s.queues) {
    const labels l{{"name", object}, {"queue", q.name}};
    f.gauge("canigo_jobs_running", "Jobs that run in this process.", l, number(q.running));
    f.counter("canigo_jobs_attempts_total", "Attempts that were begun in this process.", l, number(q.claimed));
    const std::pair<const char*, std::uint64_t> ends[] = {
        {"done", q.done},       {"failed", q.failed},         {"discarded", q.discarded},
        {"snoozed", q.snoozed}, {"given_back", q.given_back}, {"lost", q.lost}};
    for (const auto& [outcome, n] : ends) {
      f.counter("canigo_jobs_runs_total",
                "Runs by how they ended. discarded: the last attempt failed. lost: the run lost its lease.",
                {{"name", object}, {"queue", q.name}, {"outcome", outcome}}, number(n));
    }
    if (q.by_state.empty()) continue;
    auto n = q.by_state.begin();
    for (const char* state : {"waiting", "running", "done", "dead", "cancelled"}) {
      if (n == q.by_state.end()) break;
      f.gauge("canigo_jobs", "Jobs in the store by state, of all processes. 100000 means 100000 or more.",
              {{"name", object}, {"queue", q.name}, {"state", state}}, number(*n++));
    }
    f.gauge("canigo_jobs_oldest_seconds", "For how long the first waiting job of the queue has been due.", l,
            std::chrono::duration<double>(q.oldest).count());
    f.gauge("canigo_jobs_paused", "1 while the queue is paused and hands out no jobs.", l, q.is_paused ? 1 : 0);
  }
}

void show(families& f, const std::string& object, const policy& p) {
  show(f, object, p.stats());
  if (p.breaker() != nullptr) show(f, object, p.breaker()->stats());
  if (p.adaptive() != nullptr) show(f, object + ".adaptive", p.adaptive()->stats());
  if (p.limits() != nullptr) show(f, object, p.limits()->stats());
}

}  // namespace canigo::metrics
