#pragma once

#include "canigo/adaptive_limit.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/flow.hpp"
#include "canigo/keyed_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/loop_lag.hpp"
#include "canigo/policy.hpp"
#include "canigo/pool.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Collectable;
}

namespace canigo::metrics {

/// The statistics of a redis::scheduler, redis::semaphore or redis::limiter, with the fields of redis::limit_stats.
struct shared_limit_stats : queue_stats {
  std::uint64_t held = 0, idle = 0, held_by_all = 0, waiting_of_all = 0;
  std::uint64_t round_trips = 0, failed_calls = 0, lost_leases = 0, granted_ahead = 0, granted_locally = 0;
  wait_histogram round_trip;
  bool available = true;
  std::string cause;  // the message of the last error's code; a metric label, so it must have few different values
  duration quarantine{};
};

/// The statistics of a redis::client. The fields are those of redis::client_stats.
struct connection_stats {
  std::uint64_t waiting = 0, in_flight = 0, sent = 0, answered = 0, connects = 0, failures = 0;
};

/// The statistics of an http::client. The fields are those of http::client_stats.
struct http_stats {
  std::uint64_t waiting = 0, running = 0, finished = 0;
};

/// The statistics of a jobs::service. The fields are those of jobs::service_stats.
struct jobs_stats {
  /// The statistics of a queue. The fields are those of jobs::job_queue_stats.
  struct queue {
    std::string name;
    std::uint64_t running = 0, claimed = 0, done = 0, failed = 0, discarded = 0, snoozed = 0, given_back = 0, lost = 0;
    /// The number of jobs of all processes in each state, in the order of jobs::job_state. Empty: unknown.
    std::vector<std::uint64_t> by_state = {};
    duration oldest{};
    bool is_paused = false;
  };
  std::vector<queue> queues;
  std::uint64_t store_failures = 0;
  std::string cause = {};  // the message of the last error's code; a metric label, so it must have few different values
};

/// Exports statistics to Prometheus: of limits, flows, circuit breakers, pools, the lag of loops, HTTP clients,
/// services of durable jobs, and limits and connections in Redis.
///
/// The exporter has no counters of its own: for each request of Prometheus it calls stats() of each object. So the
/// export adds no cost to the hot path. Serve text() from your own HTTP server, or pass collectable() to a
/// prometheus::Exposer.
///
/// The labels of a series are the object's `name` and, depending on the metric, class, rate, outcome, state, or a
/// task's name. The number of series is bounded. All classes from the 16th on are counted together as "other", and so
/// are the names of tasks beyond the first 64 of a pool. Durations are histograms in seconds, with bounds at every
/// second power of two from 1 µs to 275 s.
///
///     metrics::exporter exporter;
///     const auto shown = exporter.add("db", db);      // `db` is exported while `shown` exists
///     std::string page = exporter.text();             // GET /metrics; Content-Type: exporter::content_type
///
/// Threads: any thread may call any member at any time.
class exporter {
 public:
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  /// Exports an object as long as this registration lives. Destroy the registration before the object. The registration
  /// may outlive the exporter.
  class [[nodiscard]] registration {
   public:
    registration(registration&&) noexcept;
    registration& operator=(registration&&) noexcept;
    ~registration();

   private:
    friend class exporter;
    struct state;
    explicit registration(std::unique_ptr<state> s) noexcept;
    std::unique_ptr<state> state_;
  };

  exporter();
  ~exporter();
  exporter(const exporter&) = delete;
  exporter& operator=(const exporter&) = delete;

  /// Exports the object under a unique name.
  ///
  /// Errors: errc::invalid_argument if the name is in use or empty, or if 1024 objects are already exported.
  registration add(const std::string& name, const scheduler& object);
  registration add(const std::string& name, const semaphore& object);
  registration add(const std::string& name, const limiter& object);
  registration add(const std::string& name, const flow& object);
  registration add(const std::string& name, const adaptive_limit& object);
  registration add(const std::string& name, const circuit_breaker& object);
  registration add(const std::string& name, const loop_lag& object);
  /// Exports a policy with all its parts. The name of the adaptive limit is the name of the policy with ".adaptive"
  /// appended.
  registration add(const std::string& name, const policy& object);
  /// Exports the statistics of a keyed limit.
  template <class Keyed>
    requires requires(const Keyed& k) {
      { k.stats() } -> std::same_as<keyed_stats>;
    }
  registration add(const std::string& name, const Keyed& object) {
    return add_keyed(name, [&object] { return object.stats(); });
  }
  /// Exports a strand_pool, a resource_pool, or another object whose stats() returns a pool_stats.
  template <class Pool>
    requires requires(const Pool& p) {
      { p.stats() } -> std::same_as<pool_stats>;
    }
  registration add(const std::string& name, const Pool& object) {
    return add_pool(name, [&object] { return object.stats(); });
  }

  /// Exports a redis::scheduler, redis::semaphore or redis::limiter. It is a template, because the metrics library does
  /// not link the Redis library.
  template <class Limit>
    requires requires(const Limit& l) {
      { l.stats().round_trips } -> std::convertible_to<std::uint64_t>;
      { l.stats().lost_leases } -> std::convertible_to<std::uint64_t>;
    }
  registration add(const std::string& name, const Limit& object) {
    return add_shared(name, [&object] {
      const auto s = object.stats();
      shared_limit_stats shown;
      static_cast<queue_stats&>(shown) = s;
      shown.held = s.held;
      shown.idle = s.idle;
      shown.held_by_all = s.held_by_all;
      shown.waiting_of_all = s.waiting_of_all;
      shown.round_trips = s.round_trips;
      shown.failed_calls = s.failed_calls;
      shown.lost_leases = s.lost_leases;
      shown.granted_ahead = s.granted_ahead;
      shown.granted_locally = s.granted_locally;
      shown.round_trip = s.round_trip;
      shown.available = s.available;
      if constexpr (requires { s.last_error_code; }) {
        if (s.last_error_code) shown.cause = s.last_error_code.message();
      }
      shown.quarantine = s.quarantine;
      return shown;
    });
  }
  /// Exports the statistics of a redis::client.
  template <class Client>
    requires requires(const Client& c) {
      { c.stats().connects } -> std::convertible_to<std::uint64_t>;
      { c.stats().in_flight } -> std::convertible_to<std::uint64_t>;
    }
  registration add(const std::string& name, const Client& object) {
    return add_connection(name, [&object] {
      const auto s = object.stats();
      return connection_stats{s.waiting, s.in_flight, s.sent, s.answered, s.connects, s.failures};
    });
  }
  /// Exports the statistics of a jobs::service.
  template <class Service>
    requires requires(const Service& s) {
      { s.stats().store_failures } -> std::convertible_to<std::uint64_t>;
      { s.stats().queues.front().discarded } -> std::convertible_to<std::uint64_t>;
    }
  registration add(const std::string& name, const Service& object) {
    return add_jobs(name, [&object] {
      const auto s = object.stats();
      jobs_stats shown{.queues = {}, .store_failures = s.store_failures};
      if constexpr (requires { s.last_error_code; }) {
        if (s.last_error_code) {
          shown.cause = s.last_error_code.message();
        } else if (!s.last_error.empty()) {
          shown.cause = "unknown";
        }
      }
      for (const auto& q : s.queues) {
        auto& to = shown.queues.emplace_back(jobs_stats::queue{q.queue, q.running, q.claimed, q.done, q.failed,
                                                               q.discarded, q.snoozed, q.given_back, q.lost});
        if (!q.in_store) continue;
        to.by_state.assign(std::begin(q.in_store->by_state), std::end(q.in_store->by_state));
        to.oldest = q.in_store->oldest;
        to.is_paused = q.in_store->is_paused;
      }
      return shown;
    });
  }
  /// Exports the statistics of an http::client.
  template <class Client>
    requires requires(const Client& c) {
      { c.stats().running } -> std::convertible_to<std::uint64_t>;
      { c.stats().finished } -> std::convertible_to<std::uint64_t>;
    }
  registration add(const std::string& name, const Client& object) {
    return add_http(name, [&object] {
      const auto s = object.stats();
      return http_stats{s.waiting, s.running, s.finished};
    });
  }

  /// The current values of all exported objects, in the text format of Prometheus.
  std::string text() const;

  /// The metrics for a prometheus::Exposer or Registry. The collectable may outlive the exporter, and has no metrics
  /// then.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  class objects;
  registration add_keyed(const std::string& name, std::function<keyed_stats()> read);
  registration add_pool(const std::string& name, std::function<pool_stats()> read);
  registration add_shared(const std::string& name, std::function<shared_limit_stats()> read);
  registration add_connection(const std::string& name, std::function<connection_stats()> read);
  registration add_jobs(const std::string& name, std::function<jobs_stats()> read);
  registration add_http(const std::string& name, std::function<http_stats()> read);

  std::shared_ptr<objects> objects_;
};

}  // namespace canigo::metrics
