#include "canigo/metrics/exporter.hpp"

#include "canigo/error.hpp"

#include "families.hpp"
#include "show.hpp"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>

namespace canigo::metrics {

namespace {

constexpr std::size_t most_objects = 1024;

}  // namespace

/// The objects that are exported. The lock is held while statistics are read, so that an object can't be destroyed
/// meanwhile. Reading takes too long for a detail::mutex, so the lock is a std::mutex.
class exporter::objects : public prometheus::Collectable {
 public:
  using reader = std::function<void(families&, const std::string&)>;

  void add(const std::string& name, reader read) {
    if (name.empty()) detail::throw_invalid("exporter.add: name", "empty", "a name of its own");
    const std::lock_guard lock{mutex_};
    if (readers_.size() >= most_objects) {
      detail::throw_invalid("exporter.add: objects", readers_.size() + 1, "up to 1024");
    }
    if (!readers_.emplace(name, std::move(read)).second) {
      detail::throw_invalid("exporter.add: name", name, "a name that is not taken");
    }
  }

  void remove(const std::string& name) noexcept {
    const std::lock_guard lock{mutex_};
    readers_.erase(name);
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    families f;
    const std::lock_guard lock{mutex_};
    for (const auto& [name, read] : readers_) read(f, name);
    return f.take();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, reader> readers_;
};

struct exporter::registration::state {
  /// `read`: returns the statistics of the object.
  template <class Read>
  state(std::shared_ptr<objects> o, const std::string& n, Read read) : shown_in{std::move(o)}, name{n} {
    shown_in->add(name, [r = std::move(read)](families& f, const std::string& object) { show(f, object, r()); });
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { shown_in->remove(name); }

  std::shared_ptr<objects> shown_in;
  std::string name;
};

exporter::registration::registration(std::unique_ptr<state> s) noexcept : state_{std::move(s)} {}
exporter::registration::registration(registration&&) noexcept = default;
exporter::registration::~registration() = default;
exporter::registration& exporter::registration::operator=(registration&&) noexcept = default;

exporter::exporter() : objects_{std::make_shared<objects>()} {}
exporter::~exporter() = default;

exporter::registration exporter::add(const std::string& name, const scheduler& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const semaphore& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const limiter& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const flow& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const adaptive_limit& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const circuit_breaker& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const loop_lag& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object] { return object.stats(); })};
}

exporter::registration exporter::add(const std::string& name, const policy& object) {
  return registration{std::make_unique<registration::state>(objects_, name, [&object]() -> auto& { return object; })};
}

exporter::registration exporter::add_keyed(const std::string& name, std::function<keyed_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

exporter::registration exporter::add_pool(const std::string& name, std::function<pool_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

exporter::registration exporter::add_shared(const std::string& name, std::function<shared_limit_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

exporter::registration exporter::add_connection(const std::string& name, std::function<connection_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

exporter::registration exporter::add_jobs(const std::string& name, std::function<jobs_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

exporter::registration exporter::add_http(const std::string& name, std::function<http_stats()> read) {
  return registration{std::make_unique<registration::state>(objects_, name, std::move(read))};
}

std::string exporter::text() const { return prometheus::TextSerializer{}.Serialize(objects_->Collect()); }

std::shared_ptr<prometheus::Collectable> exporter::collectable() const { return objects_; }

}  // namespace canigo::metrics
