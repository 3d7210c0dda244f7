#include "families.hpp"

namespace canigo::metrics {

namespace {

// The number of bounds between the buckets of an exported histogram. The first bound is first_edge, and each further
// bound is four times the one before. wait_histogram has exact counts at these bounds, because they are powers of two.
// With so few bounds, a metric has only a few series, which can be stored for years.
constexpr int edges = 15;
constexpr duration first_edge{1024};

}  // namespace

prometheus::ClientMetric& families::series(const char* name, const char* help, prometheus::MetricType type, labels l) {
  auto& family = families_[name];
  family.name = name;
  family.help = help;
  family.type = type;
  auto& metric = family.metric.emplace_back();
  metric.label = std::move(l);
  return metric;
}

void families::counter(const char* name, const char* help, labels l, double value) {
  series(name, help, prometheus::MetricType::Counter, std::move(l)).counter.value = value;
}

void families::gauge(const char* name, const char* help, labels l, double value) {
  series(name, help, prometheus::MetricType::Gauge, std::move(l)).gauge.value = value;
}

void families::histogram(const char* name, const char* help, labels l, const wait_histogram& h) {
  auto& shown = series(name, help, prometheus::MetricType::Histogram, std::move(l)).histogram;
  shown.sample_count = h.count();
  shown.sample_sum = h.sum().count();
  for (int i = 0; i < edges; ++i) {
    const duration edge = first_edge * (std::int64_t{1} << (2 * i));
    shown.bucket.push_back({h.count_below(edge), std::chrono::duration<double>(edge).count()});
  }
}

std::vector<prometheus::MetricFamily> families::take() {
  std::vector<prometheus::MetricFamily> all;
  for (auto& [name, family] : families_) all.push_back(std::move(family));
  return all;
}

}  // namespace canigo::metrics
