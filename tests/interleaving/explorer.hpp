#pragma once

#include "fiber.hpp"
#include "strategy.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace interleaving {

class world;
using model = std::function<void(world&)>;

struct verdict {
  std::uint64_t runs = 0;
  std::string failure;       ///< empty: none; else what failed first
  std::string schedule;      ///< of the run that failed: who did what, a line each
  std::string replay;        ///< the same, for search::replay
  bool is_complete = false;  ///< depth first: all schedules within the bound were run
  bool ok() const noexcept { return failure.empty(); }
};

/// Runs a model under one schedule after the other. Threads of the model are fibers, and change only where the library
/// would touch what threads share: before it takes its lock and before each atomic step.
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
    std::uint8_t number = 0;
    std::unique_ptr<fiber> stack;
    bool (*ready)(const void*) = nullptr;
    const void* object = nullptr;
    bool may_wait_for_ever = false;
    bool has_ended = false;

    bool can_go_on() const { return !has_ended && (ready == nullptr || ready(object)); }
  };
  explicit explorer(const search& how) : strategy_{strategy::make(how)} {}
  void begin_run();
  thread* choose();
  void note(const thread& t, const char* what);
  std::string schedule() const;

  std::unique_ptr<strategy> strategy_;
  fiber main_;
  std::deque<thread> threads_;
  thread* running_ = nullptr;
  std::vector<std::uint8_t> turns_;
  std::vector<std::pair<const thread*, const char*>> steps_;
  std::string failure_;
};

}  // namespace interleaving
