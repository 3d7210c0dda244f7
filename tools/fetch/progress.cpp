#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace fetch {

namespace {

using namespace std::chrono_literals;

constexpr auto lately = 10s;
constexpr std::size_t least_looks = 10;
constexpr double longest_in_hours = 1000 * 3600.0;

std::string time_left(double seconds) {
  if (seconds >= longest_in_hours) return fmt::format("{:.0f}d left", seconds / 86400);
  const auto s = static_cast<unsigned>(seconds);
  if (s < 3600) return fmt::format("{}:{:02} left", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02} left", s / 3600, s / 60 % 60, s % 60);
}

std::string done_of(const progress& p, std::size_t left) {
  if (!p.unread) return fmt::format("{} done", p.done);
  return fmt::format("{}/{}{}", p.done, *p.unread > 0 ? "~" : "", p.done + left);
}

bool understands(const char* terminal) { return terminal != nullptr && std::string_view{terminal} != "dumb"; }

std::size_t columns_of_terminal() {
  constexpr std::size_t usual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

}  // namespace

std::string to_line(const progress& p, std::size_t columns) {
  const std::size_t left = std::accumulate(p.waiting.begin(), p.waiting.end(), p.running + p.unread.value_or(0));
  std::vector<std::string> parts{done_of(p, left)};
  const bool has_rate = p.per_second > 0;
  if (has_rate && p.unread) parts.push_back(time_left(static_cast<double>(left) / p.per_second));
  if (has_rate) parts.push_back(fmt::format("{:.3g}/s", p.per_second));
  if (p.failed > 0) parts.push_back(fmt::format("{} failed", p.failed));
  parts.push_back(fmt::format("{} running", p.running));
  for (std::size_t i = 0; i < p.waiting.size(); ++i) {
    if (p.waiting[i] > 0) parts.push_back(fmt::format("{} in class {}", p.waiting[i], i));
  }
  std::string line;
  for (const std::string& part : parts) {
    const std::string_view gap = line.empty() ? "" : "  ";
    if (line.size() + gap.size() + part.size() > columns) break;
    line.append(gap).append(part);
  }
  return line;
}

double recent_rate::per_second(std::size_t done, canigo::time_point now) {
  if (done > looks_.back().done) looks_.push_back({now, done});
  while (looks_.size() > least_looks && now - looks_.front().at > lately) looks_.pop_front();
  const double took = std::chrono::duration<double>(now - looks_.front().at).count();
  return took > 0 ? static_cast<double>(done - looks_.front().done) / took : 0;
}

status_line::status_line(std::optional<bool> is_wanted)
    : is_on_{is_wanted.value_or(::isatty(STDERR_FILENO) != 0 && understands(std::getenv("TERM")))} {}

void status_line::show(const progress& p) {
  if (!is_on_) return;
  // The last column of the terminal stays empty, because some terminals begin a new line when the column is written.
  std::fputs(fmt::format("\r\033[K{}", to_line(p, columns_of_terminal() - 1)).c_str(), stderr);
  std::fflush(stderr);
  is_there_ = true;
}

void status_line::clear() {
  if (is_there_) std::fputs("\r\033[K", stderr);
  is_there_ = false;
}

}  // namespace fetch
