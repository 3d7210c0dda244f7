#pragma once

#include "canigo/algorithms/histogram.hpp"

#include <prometheus/metric_family.h>

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace canigo::metrics {

/// Builds metric families. Series with the same name are gathered in one family, which has one entry for each series.
class families {
 public:
  using labels = std::vector<prometheus::ClientMetric::Label>;

  /// The following functions add one series. `name` and `help`: string literals, which identify the family.
  void counter(const char* name, const char* help, labels l, double value);
  void gauge(const char* name, const char* help, labels l, double value);
  void histogram(const char* name, const char* help, labels l, const wait_histogram& h);

  std::vector<prometheus::MetricFamily> take();

 private:
  prometheus::ClientMetric& series(const char* name, const char* help, prometheus::MetricType type, labels l);

  std::map<std::string, prometheus::MetricFamily> families_;
};

}  // namespace canigo::metrics
