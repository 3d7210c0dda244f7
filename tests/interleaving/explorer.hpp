#pragma once

#include "fiber.hpp"
#include "strategy.hpp"
#include "work.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace canigo::detail {
class context_visit;
}

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
///
/// A run takes a microsecond or two, so what it needs is kept for the next one: stacks, and the room for notes.
class explorer {
 public:
  static verdict explore(const search& how, const model& m);

  /// A thread of the model is about to do something that others may notice. Outside of a run it is nothing.
  static void step(const char* what) noexcept;
  /// It can't go on before `ready(object)`.
  static void wait(bool (*ready)(const void*), const void* object) noexcept;
  /// What the calling thread does between its wait, which is over, and its next step can't be noticed by others: there
  /// is no sense in preempting it before that step. So it is when a thread begins.
  static void is_unseen() noexcept;
  /// The number of the calling thread, from 0 on.
  static std::size_t this_thread() noexcept;
  /// What the library keeps for the calling thread.
  static canigo::detail::context_visit*& innermost_visit() noexcept;

  /// For the world of a run. A name is a literal.
  void add_thread(const char* name, work body);
  /// One that waits until `ready(object)` before it begins, for ever if need be; one of several has a number.
  void add_loop(const char* name, int of_several, bool (*ready)(const void*), const void* object, work body);
  /// Runs until no thread can go on.
  void run_threads();
  /// The same, in one order, after the end of a run.
  void let_threads_end();
  void fail(std::string text);
  bool has_failed() const noexcept { return !failure_.empty(); }

 private:
  static constexpr std::size_t most_threads = 16;

  struct thread {
    const char* name = nullptr;
    int of_several = -1;
    std::uint8_t number = 0;
    bool may_wait_for_ever = false;
    bool is_unseen = true;
    bool has_ended = false;
    bool (*ready)(const void*) = nullptr;
    const void* object = nullptr;
    canigo::detail::context_visit* innermost_visit = nullptr;
    work body;
    fiber stack;

    bool can_go_on() const { return !has_ended && (ready == nullptr || ready(object)); }
  };
  struct note {
    const char* what;
    std::uint8_t thread;
  };

  explicit explorer(const search& how) : strategy_{strategy::make(how)} {}
  void begin_run();
  void end_run();
  thread& add(const char* name, work body);
  thread* choose();
  void add_note(const thread& t, const char* what);
  std::string schedule() const;
  static fiber& run_body(void* of);

  std::unique_ptr<strategy> strategy_;
  fiber main_;
  std::array<thread, most_threads> threads_;
  std::size_t count_ = 0;  // of them in this run
  thread* running_ = nullptr;
  bool is_ending_ = false;
  bool is_looking_ = false;  // at who can go on, which is no step
  std::vector<std::uint8_t> turns_;
  std::vector<note> notes_;
  std::string failure_;
};

}  // namespace interleaving
