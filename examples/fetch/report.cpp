#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <unistd.h>

namespace fetch {

namespace {

using namespace std::chrono_literals;

auto ms(canigo::duration d) { return d / 1ms; }

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      // Bytes of a URL need not be UTF-8, and JSON must be.
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

report::report(const options& o)
    : format_{o.format},
      begin_{std::chrono::steady_clock::now()},
      shows_progress_{isatty(STDERR_FILENO) != 0},
      classes_(static_cast<std::size_t>(o.priorities)) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

void report::finished(const call& c) {
  of_class& k = classes_[static_cast<std::size_t>(c.priority)];
  ++k.count;
  if (!c.ok()) ++k.failures;
  if (c.attempts > 0) {
    k.wait.record(c.started - c.read);
    k.first_start = std::min(k.first_start, c.started);
    k.last_start = std::max(k.last_start, c.started);
  }
  clear_progress();
  if (format_ == output::text) print_row(c);
  if (format_ == output::json) print_object(c);
}

void report::print_row(const call& c) {
  if (calls() == 1) {
    fmt::print("{:>5} {:>6} {:>10} {:>10} {:>6} {:>9}  {}\n", "class", "order", "started", "wait", "status", "bytes",
               "url");
  }
  const bool was_sent = c.attempts > 0;
  const auto time = [&](canigo::duration d) { return was_sent ? fmt::format("{} ms", ms(d)) : "-"; };
  fmt::print("{:>5} {:>6} {:>10} {:>10} {:>6} {:>9}  {}", c.priority, c.order, time(c.started - begin_),
             time(c.started - c.read), c.status != 0 ? fmt::to_string(c.status) : "-", c.bytes, c.url);
  if (c.attempts > 1) fmt::print("  ({} attempts)", c.attempts);
  if (c.error) fmt::print("  {}", c.error.message());
  fmt::print("\n");
}

void report::print_object(const call& c) {
  const bool was_sent = c.attempts > 0;
  const auto time = [&](canigo::duration d) { return was_sent ? fmt::to_string(ms(d)) : "null"; };
  fmt::print(R"({{"class":{},"order":{},"started_ms":{},"wait_ms":{},"status":{},)"
             R"("bytes":{},"attempts":{},"url":{},"error":{}}})"
             "\n",
             c.priority, c.order, time(c.started - begin_), time(c.started - c.read), c.status, c.bytes, c.attempts,
             json_text(c.url), c.error ? json_text(c.error.message()) : "null");
}

void report::bad_line(std::size_t number, std::string_view problem) {
  ++bad_lines_;
  clear_progress();
  fmt::print(stderr, "line {}: {}; skipped\n", number, problem);
}

void report::note(std::string_view text) {
  clear_progress();
  fmt::print(stderr, "{}\n", text);
}

void report::progress(std::size_t running, std::size_t waiting) {
  if (!shows_progress_) return;
  fmt::print(stderr, "\r\033[K{} finished, {} running, {} waiting", calls(), running, waiting);
  std::fflush(stderr);
  progress_shown_ = true;
}

void report::clear_progress() {
  if (progress_shown_) fmt::print(stderr, "\r\033[K");
  progress_shown_ = false;
}

// Calls between the first start and the last, over the time between them.
double report::rate_of(const of_class& c) const noexcept {
  const auto sent = c.wait.count();
  if (sent < 2 || c.last_start <= c.first_start) return 0;
  return static_cast<double>(sent - 1) / std::chrono::duration<double>(c.last_start - c.first_start).count();
}

void report::summary(bool was_interrupted) {
  clear_progress();
  of_class all;
  for (const of_class& c : classes_) {
    all.count += c.count;
    all.failures += c.failures;
    all.wait.merge(c.wait);
    all.first_start = std::min(all.first_start, c.first_start);
    all.last_start = std::max(all.last_start, c.last_start);
  }
  if (format_ == output::json) {
    const auto object = [this](const of_class& c) {
      return fmt::format(R"("calls":{},"failures":{},"wait_p50_ms":{},"wait_p99_ms":{},"rate_per_s":{:.3f})", c.count,
                         c.failures, ms(c.wait.quantile(0.5)), ms(c.wait.quantile(0.99)), rate_of(c));
    };
    std::string list;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].count > 0)
        list += fmt::format(R"({}{{"class":{},{}}})", list.empty() ? "" : ",", i, object(classes_[i]));
    }
    fmt::print(R"({{"summary":{{{},"bad_lines":{},"interrupted":{},"classes":[{}]}}}})"
               "\n",
               object(all), bad_lines_, was_interrupted, list);
    return;
  }
  const auto row = [this](std::string_view name, const of_class& c) {
    fmt::print("{:>5} {:>8} {:>9} {:>10} ms {:>10} ms {:>9.2f}/s\n", name, c.count, c.failures,
               ms(c.wait.quantile(0.5)), ms(c.wait.quantile(0.99)), rate_of(c));
  };
  fmt::print("\n{:>5} {:>8} {:>9} {:>13} {:>13} {:>11}\n", "class", "calls", "failures", "wait p50", "wait p99",
             "rate");
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].count > 0) row(fmt::to_string(i), classes_[i]);
  }
  row("all", all);
  if (bad_lines_ > 0) fmt::print("{} lines were not understood\n", bad_lines_);
  if (was_interrupted) fmt::print("interrupted\n");
}

std::size_t report::calls() const noexcept {
  std::size_t sum = 0;
  for (const of_class& c : classes_) sum += c.count;
  return sum;
}

int report::exit_code(bool was_interrupted) const noexcept {
  if (was_interrupted) return interrupted;
  if (std::any_of(classes_.begin(), classes_.end(), [](const of_class& c) { return c.failures > 0; }))
    return some_failed;
  return bad_lines_ > 0 ? bad_input : all_ok;
}

}  // namespace fetch
