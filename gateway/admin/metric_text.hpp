#pragma once

#include "canigo/algorithms/histogram.hpp"

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::gateway {

/// Writes metrics in the text format of Prometheus: one family after the other, each with its help and its type.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats
class metric_text {
 public:
  using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  /// Starts a family of metrics, of the type in the function's name. The samples of the family must follow. `name`: the
  /// family's name without the prefix "canigo_gateway_".
  void counter(std::string_view name, std::string_view help) { begin(name, "counter", help); }
  void gauge(std::string_view name, std::string_view help) { begin(name, "gauge", help); }
  void histogram(std::string_view name, std::string_view help) { begin(name, "histogram", help); }

  template <std::integral Number>
  void sample(labels l, Number value) {
    write("", l, "", std::to_string(value));
  }
  void sample(labels l, double value);
  void sample(labels l, const wait_histogram& times);

  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void write(std::string_view suffix, labels l, std::string_view edge, std::string_view value);

  std::string text_;
  std::string name_;
};

}  // namespace canigo::gateway
