#pragma once

#include "canigo/limiter.hpp"
#include "canigo/pool_stats.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace prometheus {
class Collectable;
}

namespace canigo::metrics {

/// Shows schedulers, semaphores, limiters and pools to Prometheus.
///
/// Nothing is counted twice and nothing runs on the hot path: their stats() are read when Prometheus asks. Serve text()
/// from the server that the program has, or hand collectable() to a prometheus::Exposer.
///
/// The labels of a series are the object's `name`, and where it makes sense class, rate, outcome, state, or a task's
/// name. Their number is bounded: classes from the 16th on are counted together as "other", and so are the names of
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

  /// Shows an object for as long as it lives; must go before the object does, and may outlive the exporter.
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

  /// Shows the object under a name of its own.
  ///
  /// Errors: errc::invalid_argument if the name is taken or empty, or 1024 objects are shown already.
  registration add(const std::string& name, const scheduler& object);
  registration add(const std::string& name, const semaphore& object);
  registration add(const std::string& name, const limiter& object);
  /// A strand_pool, a resource_pool, or whatever else has the stats of one.
  template <class Pool>
    requires requires(const Pool& p) {
      { p.stats() } -> std::same_as<pool_stats>;
    }
  registration add(const std::string& name, const Pool& object) {
    return add_pool(name, [&object] { return object.stats(); });
  }

  /// All of it, now, in Prometheus' text format.
  std::string text() const;

  /// For a prometheus::Exposer or Registry; works on, with nothing to show, when the exporter is gone.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  class objects;
  registration add_pool(const std::string& name, std::function<pool_stats()> read);

  std::shared_ptr<objects> objects_;
};

}  // namespace canigo::metrics
