#include "gateway/admin/metric_text.hpp"

#include <fmt/format.h>

#include <chrono>

namespace canigo::gateway {
namespace {

/// Appends the value of a label, and escapes it. The value may hold any bytes. Without escapes, a line feed would start
/// another sample.
void append_escaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

}  // namespace

void metric_text::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = fmt::format("canigo_gateway_{}", name);
  text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type);
}

void metric_text::write(std::string_view suffix, labels l, std::string_view edge, std::string_view value) {
  text_.append(name_).append(suffix);
  char before = '{';
  const auto label = [&](std::string_view name, std::string_view of) {
    text_ += before;
    text_.append(name).append("=\"");
    append_escaped(text_, of);
    text_ += '"';
    before = ',';
  };
  for (const auto& [name, of] : l) label(name, of);
  if (!edge.empty()) label("le", edge);
  if (before == ',') text_ += '}';
  text_.append(" ").append(value).append("\n");
}

void metric_text::sample(labels l, double value) { write("", l, "", fmt::format("{}", value)); }

void metric_text::sample(labels l, const wait_histogram& times) {
  // The edges of the buckets are 256 ns times a power of two, because the histogram counts the times below such an edge
  // exactly. The edges go from 33 µs to 37 minutes, and each edge is four times the previous edge.
  constexpr int first = 7;
  constexpr int last = 33;
  for (int power = first; power <= last; power += 2) {
    const duration edge{std::int64_t{256} << power};
    const double seconds = std::chrono::duration<double>(edge).count();
    write("_bucket", l, fmt::format("{:.6g}", seconds), std::to_string(times.count_below(edge)));
  }
  write("_bucket", l, "+Inf", std::to_string(times.count()));
  write("_sum", l, "", fmt::format("{}", times.sum().count()));
  write("_count", l, "", std::to_string(times.count()));
}

}  // namespace canigo::gateway
