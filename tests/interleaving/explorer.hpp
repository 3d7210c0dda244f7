#pragma once

#include "fiber.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace interleaving {

class world;
using model = std::function<void(world&)>;

/// How schedules are chosen.
struct search {
  /// Most times per run that a thread which could go on is made to wait for another.
  int preemptions = 2;
  /// 0: every schedule within the bound, depth first. Else so many at random, without a bound.
  std::uint64_t random_runs = 0;
  std::uint64_t seed = 1;
};

struct verdict {
  std::uint64_t runs = 0;
  std::string failure;   ///< empty: none; else what failed first
  std::string schedule;  ///< of the run that failed: who did what, a line each
  bool ok() const noexcept { return failure.empty(); }
};

/// Runs a model under one schedule after the other. Threads of the model are fibers, and change only where the library
/// would touch what threads share: before it takes its lock and before each atomic step.
///
/// Source: M. Musuvathi, S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs",
/// PLDI 2007.
class explorer {
 public:
  static verdict explore(const search& how, const model& m);

  /// A thread of the model is about to do something that others may notice. Outside of a run it is nothing.
  static void step(const char* what) noexcept;
  /// It can't go on before `ready(object)`.
  static void wait(bool (*ready)(const void*), const void* object) noexcept;

  /// For the world of a run.
  void add_thread(std::string name, std::function<void()> body, bool may_wait_for_ever);
  /// Runs until no thread can go on.
  void run_threads();
  void fail(std::string text);
  bool has_failed() const noexcept { return !failure_.empty(); }

 private:
  struct thread {
    std::string name;
    std::unique_ptr<fiber> stack;
    bool (*ready)(const void*) = nullptr;
    const void* object = nullptr;
    bool may_wait_for_ever = false;
    bool has_ended = false;

    bool can_go_on() const { return !has_ended && (ready == nullptr || ready(object)); }
  };
  struct choice {
    std::size_t taken;
    std::size_t count;
  };

  explicit explorer(const search& how) : how_{how}, random_{how.seed} {}
  void begin_run();
  bool next_schedule();
  thread* choose();
  std::size_t decide(std::size_t count);
  void note(const thread& t, const char* what);
  std::string schedule() const;

  search how_;
  std::mt19937_64 random_;
  fiber main_;
  std::deque<thread> threads_;
  thread* running_ = nullptr;
  int preemptions_left_ = 0;
  std::vector<choice> trail_;
  std::size_t depth_ = 0;
  std::vector<std::pair<const thread*, const char*>> steps_;
  std::string failure_;
};

}  // namespace interleaving
