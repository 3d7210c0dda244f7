#include "report.hpp"

#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <utility>

namespace fetch {

namespace {

using namespace std::chrono_literals;

auto ms(canigo::duration d) { return d / 1ms; }
// The times of a summary are upper bounds, so they are rounded up.
auto ms_at_most(canigo::duration d) { return std::chrono::ceil<std::chrono::milliseconds>(d).count(); }

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::ferror(stdout) != 0) {
    throw std::system_error{errno, std::system_category(), "standard output"};
  }
}

void tell(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

report::report(const options& o)
    : common_{o.common},
      format_{o.format},
      begin_{std::chrono::steady_clock::now()},
      rows_share_terminal_{::isatty(STDOUT_FILENO) != 0},
      status_{o.shows_progress},
      rate_{begin_},
      classes_(static_cast<std::size_t>(o.priorities)) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

void report::sent(const call& c) {
  of_class& k = classes_[static_cast<std::size_t>(c.priority)];
  ++k.requests;
  k.first_start = std::min(k.first_start, c.started);
  k.last_start = std::max(k.last_start, c.started);
}

void report::sent_again(const call& c, int times) {
  classes_[static_cast<std::size_t>(c.priority)].requests += static_cast<std::size_t>(times);
}

void report::finished(const call& c) {
  of_class& k = classes_[static_cast<std::size_t>(c.priority)];
  ++k.count;
  if (!c.ok()) ++k.failures;
  if (c.was_sent()) k.wait.record(c.waited);
  clear_for_row();
  if (!c.was_sent()) ++not_made_;
  if (format_ == output::text && c.was_sent()) print_row(c);
  if (format_ == output::json) print_object(c);
}

void report::print_row(const call& c) {
  if (!std::exchange(has_head_, true)) {
    print(fmt::format("{:>5} {:>6} {:>10} {:>10} {:>6} {:>9}  {}\n", "class", "order", "started", "wait", "status",
                      "bytes", "url"));
  }
  const auto method = method_of(c, common_);
  std::string row =
      fmt::format("{:>5} {:>6} {:>7} ms {:>7} ms {:>6} {:>9}  {}", c.priority, c.order, ms(c.started - begin_),
                  ms(c.waited), c.status != 0 ? fmt::to_string(c.status) : "-", c.bytes, printable_url(c.url));
  if (c.id) row += "  " + c.id_as_json();
  if (method != "GET") row += fmt::format("  ({})", method);
  if (c.attempts > 1) row += fmt::format("  ({} attempts)", c.attempts);
  if (c.redirects > 0) row += fmt::format("  (redirected to {})", printable_url(c.target()));
  if (c.error) row += "  " + printable(c.why());
  print(row + '\n');
}

void report::print_object(const call& c) {
  const auto time = [&](canigo::duration d) { return c.was_sent() ? fmt::to_string(ms(d)) : "null"; };
  print(fmt::format(
      R"({{"id":{},"class":{},"order":{},"started_ms":{},"wait_ms":{},"status":{},"bytes":{},"attempts":{},)"
      R"("redirects":{},"method":{},"url":{},"redirected_to":{},"file":{},"error":{}}})"
      "\n",
      c.id_as_json(), c.priority, c.order, time(c.started - begin_), time(c.waited), c.status, c.bytes, c.attempts,
      c.redirects, json_text(method_of(c, common_)), json_url(c.url), c.place.empty() ? "null" : json_url(c.place),
      c.is_saved ? json_text(c.file) : "null", c.error ? json_text(c.why()) : "null"));
}

void report::bad_line(std::size_t number, std::string_view problem) {
  ++bad_lines_;
  note(fmt::format("line {}: {}; skipped", number, problem));
}

void report::input_failed(std::string_view name, std::error_code why) {
  input_failed_ = true;
  note(fmt::format("canigo-fetch: {}: {}", name == "-" ? "standard input" : printable(name), why.message()));
}

void report::note(std::string_view text) {
  status_.clear();
  tell(fmt::format("{}\n", text));
}

void report::show(progress p) {
  for (const of_class& c : classes_) {
    p.done += c.count;
    p.failed += c.failures;
  }
  p.per_second = rate_.per_second(p.done, std::chrono::steady_clock::now());
  status_.show(p);
}

void report::clear_for_row() {
  if (rows_share_terminal_) status_.clear();
}

void report::of_class::merge(const of_class& other) {
  count += other.count;
  failures += other.failures;
  requests += other.requests;
  wait.merge(other.wait);
  first_start = std::min(first_start, other.first_start);
  last_start = std::max(last_start, other.last_start);
}

// Returns the rate of requests: their number after the first one, divided by the time from the first start to the last
// one.
double report::of_class::rate() const noexcept {
  if (requests < 2 || last_start <= first_start) return 0;
  return static_cast<double>(requests - 1) / std::chrono::duration<double>(last_start - first_start).count();
}

void report::summary(int signal) {
  status_.clear();
  of_class all;
  for (const of_class& c : classes_) all.merge(c);
  if (format_ == output::json) {
    print_summary_object(all, signal);
  } else {
    print_summary(all, signal);
  }
  if (std::fflush(stdout) != 0) throw std::system_error{errno, std::system_category(), "standard output"};
}

void report::print_summary_object(const of_class& all, int signal) {
  const auto members = [](const of_class& c) {
    return fmt::format(R"("calls":{},"requests":{},"failures":{},"wait_p50_ms_at_most":{},"wait_p99_ms_at_most":{},)"
                       R"("rate_per_s":{:.3f})",
                       c.count, c.requests, c.failures, ms_at_most(c.wait.quantile(0.5)),
                       ms_at_most(c.wait.quantile(0.99)), c.rate());
  };
  std::string list;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].count > 0)
      list += fmt::format(R"({}{{"class":{},{}}})", list.empty() ? "" : ",", i, members(classes_[i]));
  }
  print(fmt::format(R"({{"summary":{{{},"bad_lines":{},"done_before":{},"interrupted":{},"classes":[{}]}}}})"
                    "\n",
                    members(all), bad_lines_, done_before_, signal != 0, list));
}

void report::print_summary(const of_class& all, int signal) {
  const auto row = [](std::string_view name, const of_class& c) {
    print(fmt::format("{:>5} {:>8} {:>9} {:>9} {:>11} ms {:>11} ms {:>9.2f}/s\n", name, c.count, c.requests, c.failures,
                      ms_at_most(c.wait.quantile(0.5)), ms_at_most(c.wait.quantile(0.99)), c.rate()));
  };
  print(fmt::format("{}{:>5} {:>8} {:>9} {:>9} {:>14} {:>14} {:>11}\n", has_head_ ? "\n" : "", "class", "calls",
                    "requests", "failures", "p50 wait <=", "p99 wait <=", "rate"));
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].count > 0) row(fmt::to_string(i), classes_[i]);
  }
  row("all", all);
  const auto were = [](std::size_t n, std::string_view what) {
    return n == 1 ? fmt::format("1 {} was", what) : fmt::format("{} {}s were", n, what);
  };
  if (bad_lines_ > 0) print(were(bad_lines_, "line") + " not understood\n");
  if (done_before_ > 0) print(were(done_before_, "call") + " done before\n");
  if (not_made_ > 0) print(were(not_made_, "call") + " not made\n");
  if (signal != 0) print("interrupted\n");
}

int report::exit_code(int signal) const noexcept {
  if (signal != 0) return interrupted + signal;
  if (input_failed_) return bad_usage;
  if (std::any_of(classes_.begin(), classes_.end(), [](const of_class& c) { return c.failures > 0; }))
    return some_failed;
  return bad_lines_ > 0 ? bad_input : all_ok;
}

}  // namespace fetch
