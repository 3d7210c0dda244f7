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
  std::string cause;  // the message of the last error's code: one of few texts
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

/// The statistics of a jobs::service.
struct jobs_stats {
  /// The fields are those of jobs::job_queue_stats.
  struct queue {
    std::string name;
    std::uint64_t running = 0, claimed = 0, done = 0, failed = 0, discarded = 0, snoozed = 0, given_back = 0, lost = 0;
    /// The jobs of all processes by state, in the order of jobs::job_state. Empty: unknown.
    std::vector<std::uint64_t> by_state = {};
    duration oldest{};
    bool is_paused = false;
  };
  std::vector<queue> queues;
  std::uint64_t store_failures = 0;
  std::string cause = {};  // the message of the last error's code: one of few texts
};

/// Shows limits, flows, circuit breakers, pools and the lag of loops to Prometheus, and also HTTP clients, services of
/// durable jobs, and the limits and connections in Redis.
///
/// Nothing is counted twice, and nothing runs on the hot path: Prometheus' request reads the stats() of each object.
/// Serve text() from the server that the program has, or hand collectable() to a prometheus::Exposer.
///
/// The labels of a series are the object's `name` and, where it makes sense, class, rate, outcome, state, or a task's
/// name. Their number is bounded. Classes from the 16th on are counted together as "other", and so are the names of
/// tasks beyond the first 64 of a pool. Durations are histograms in seconds, with an edge at every second power of two
/// from 1 µs to 275 s.
///
///     metrics::exporter exporter;
///     const auto shown = exporter.add("db", db);      // until it goes out of scope
///     std::string page = exporter.text();             // GET /metrics; Content-Type: exporter::content_type
///
/// Threads: any, all members, at once.
class exporter {
 public:
  static constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

  /// Shows an object for as long as it lives. It must be destroyed before the object, and may outlive the exporter.
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

  /// Shows the object under a name that no other object has.
  ///
  /// Errors: errc::invalid_argument if the name is taken or empty, or if 1024 objects are shown already.
  registration add(const std::string& name, const scheduler& object);
  registration add(const std::string& name, const semaphore& object);
  registration add(const std::string& name, const limiter& object);
  registration add(const std::string& name, const flow& object);
  registration add(const std::string& name, const adaptive_limit& object);
  registration add(const std::string& name, const circuit_breaker& object);
  registration add(const std::string& name, const loop_lag& object);
  /// A policy with all its parts. Its adaptive limit has the name with ".adaptive" after it.
  registration add(const std::string& name, const policy& object);
  /// A keyed limit.
  template <class Keyed>
    requires requires(const Keyed& k) {
      { k.stats() } -> std::same_as<keyed_stats>;
    }
  registration add(const std::string& name, const Keyed& object) {
    return add_keyed(name, [&object] { return object.stats(); });
  }
  /// A strand_pool, a resource_pool, or another object with the stats of a pool.
  template <class Pool>
    requires requires(const Pool& p) {
      { p.stats() } -> std::same_as<pool_stats>;
    }
  registration add(const std::string& name, const Pool& object) {
    return add_pool(name, [&object] { return object.stats(); });
  }

  /// A redis::scheduler, redis::semaphore or redis::limiter. This library does not need the library for Redis.
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
  /// A redis::client.
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
  /// A jobs::service.
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
  /// An http::client.
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

  /// Everything that is shown, as it is now, in Prometheus' text format.
  std::string text() const;

  /// For a prometheus::Exposer or Registry. It may outlive the exporter, and then shows nothing.
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
