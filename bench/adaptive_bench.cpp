// Compares adaptive limits for a service whose capacity changes (B19). It measures goodput, as a share of the goodput
// with the best fixed limits. The service is the model of tests/adaptive, in virtual time. All limits run the same
// twelve traces.
//
// Netflix' and failsafe-go's limits are the original libraries, each in a process of its own language. The model tells
// such a process, through a pipe, which calls begin and end, and when. The process answers with its limit. The
// environment variables BENCH_LIMITS_JAVA and BENCH_LIMITS_GO contain the commands that start the processes. A limit
// without a command is left out.

#include "adaptive/ours.hpp"
#include "adaptive/peers.hpp"
#include "adaptive/service.hpp"
#include "adaptive/traces.hpp"
#include "harness.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

extern char** environ;

namespace {

using adaptive::algorithm;
using adaptive::row;

/// A process that is controlled through pipes: it reads lines, and writes numbers.
class follower {
 public:
  explicit follower(const std::string& command) : command_{command} {
    std::array<int, 2> to{}, from{};
    if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0) fail(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    std::string shell = "sh", option = "-c", exec = "exec " + command;
    std::array<char*, 4> arguments{shell.data(), option.data(), exec.data(), nullptr};
    const int error = posix_spawn(&process_, "/bin/sh", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    if (error != 0) fail(error);
  }
  follower(const follower&) = delete;
  follower& operator=(const follower&) = delete;
  ~follower() {
    ::close(to_);
    ::close(from_);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
  }

  /// Adds a line to a buffer, which ask() sends.
  template <class... Arguments>
  void tell(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(said_), format, std::forward<Arguments>(arguments)...);
    said_ += '\n';
  }
  std::uint64_t ask() {
    for (std::string_view left = said_; !left.empty();) {
      const auto n = ::write(to_, left.data(), left.size());
      if (n < 0) fail(errno);
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    said_.clear();
    std::array<char, 32> line{};
    for (std::size_t size = 0; size < line.size();) {
      const auto n = ::read(from_, line.data() + size, line.size() - size);
      if (n <= 0) fail(n < 0 ? errno : EPIPE);
      size += static_cast<std::size_t>(n);
      if (line[size - 1] == '\n') return std::stoull(std::string{line.data(), size});
    }
    throw std::runtime_error{command_ + ": answers with something else than a limit"};
  }

 private:
  [[noreturn]] void fail(int error) const { throw std::system_error{error, std::generic_category(), command_}; }

  std::string command_, said_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

/// A limit in another process.
class remote final : public algorithm {
 public:
  remote(follower& f, const std::string& name) : follower_{f} {
    f.tell("new {}", name);
    limit_ = f.ask();
  }
  std::uint64_t limit() const override { return limit_; }
  void begin(std::uint32_t call, canigo::time_point now) override {
    follower_.tell("+ {} {}", now.time_since_epoch().count(), call);
  }
  void record(const adaptive::call_end& e, canigo::time_point now, std::uint64_t) override {
    follower_.tell("- {} {} {}", now.time_since_epoch().count(), e.call, word_for(e.outcome));
    limit_ = follower_.ask();
  }

 private:
  static std::string_view word_for(canigo::sample_outcome how) {
    if (how == canigo::sample_outcome::ok) return "ok";
    return how == canigo::sample_outcome::dropped ? "dropped" : "cancelled";
  }

  follower& follower_;
  std::uint64_t limit_;
};

/// The traces, and the goodput with the best fixed limits, which is computed once.
struct task {
  row r;
  std::vector<adaptive::best> bests;
};
const std::vector<task>& tasks() {
  static const std::vector<task> all = [] {
    std::vector<task> found;
    for (row& r : adaptive::rows()) {
      auto bests = adaptive::best_fixed(r.t);
      found.push_back({std::move(r), std::move(bests)});
    }
    return found;
  }();
  return all;
}

constexpr std::uint64_t seeds = 2;

/// Runs the algorithms that `make(seed)` returns on all traces.
template <class Make>
bench::sample play(Make make) {
  bench::sample s;
  for (const task& t : tasks()) {
    double goodput = 0, p99 = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const std::unique_ptr<algorithm> a = make(seed);
      const adaptive::score got = adaptive::judge(t.r.t, t.bests, adaptive::run(t.r.t, *a, seed));
      goodput += got.goodput / 100 / seeds;
      p99 += got.p99 / seeds;
    }
    s.goodput.emplace_back(t.r.t.name, goodput);
    s.p99 = std::max(s.p99, p99);
  }
  return s;
}

void add_remote(bench::match& m, const char* variable, const std::string& title, const std::string& name) {
  const char* const command = std::getenv(variable);
  if (command == nullptr) return;
  m.add(title, [=, c = std::string{command}] {
    follower f{c};
    return play([&](std::uint64_t) { return std::make_unique<remote>(f, name); });
  });
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  bench::match m{"B19", "goodput in twelve traces, as a share of the best fixed limits'"};
  m.without_warm_up();
  const auto add = [&](const std::string& title, const adaptive::contender& c) {
    m.add(title, [&c] { return play(c.make); });
  };
  add("adaptive_limit, knee", adaptive::ours().at(0));
  add("adaptive_limit, aimd with a target of 100 ms", adaptive::ours().at(1));
  add_remote(m, "BENCH_LIMITS_JAVA", "Java: concurrency-limits, gradient2", "gradient2");
  add_remote(m, "BENCH_LIMITS_JAVA", "Java: concurrency-limits, vegas", "vegas");
  add_remote(m, "BENCH_LIMITS_GO", "Go: failsafe-go", "failsafe");
  // Envoy has no library for its limit, so the algorithm was written again from Envoy's source.
  for (const adaptive::contender& c : adaptive::peers()) {
    if (c.name == "Envoy") add("C++: Envoy's algorithm", c);
  }
  m.run(1);
}
