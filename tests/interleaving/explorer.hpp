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
  std::string failure;       ///< the first failure; empty: no run has failed
  std::string schedule;      ///< the schedule of the failed run, one step per line
  std::string replay;        ///< the same schedule, for search::replay
  bool is_complete = false;  ///< whether all schedules within the bound were run; only for depth first
  bool ok() const noexcept { return failure.empty(); }
};

/// Runs a model under many schedules. The threads of a model are fibers. A switch can happen only where the library
/// would access shared state: before it takes its lock, and before each atomic step.
///
/// A run takes a microsecond or two, so its resources are reused for the next run: stacks, and memory for notes.
class explorer {
 public:
  static verdict explore(const search& how, const model& m);

  /// Call it before a thread of the model does something that other threads can observe. Outside of a run it has no
  /// effect.
  static void step(const char* what) noexcept;
  /// Suspends the thread until `ready(object)` is true.
  static void wait(bool (*ready)(const void*), const void* object) noexcept;
  /// Declares that other threads can't observe what the calling thread does between its completed wait and its next
  /// step. So no preemption is tried before that step. The same holds at the beginning of a thread.
  static void is_unseen() noexcept;
  /// The number of the calling thread, from 0 on.
  static std::size_t this_thread() noexcept;
  /// The thread-local state of the library for the calling thread.
  static canigo::detail::context_visit*& innermost_visit() noexcept;

  /// Adds a thread to the run. `name`: a string literal.
  void add_thread(const char* name, work body);
  /// Adds a loop thread that starts when `ready(object)` is true, which may never happen. `of_several`: its number
  /// among the threads of one loop.
  void add_loop(const char* name, int of_several, bool (*ready)(const void*), const void* object, work body);
  /// Runs until no thread can continue.
  void run_threads();
  /// After the end of a run, lets all threads finish in one fixed order.
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
  std::size_t count_ = 0;  // the number of threads in the present run
  thread* running_ = nullptr;
  bool is_ending_ = false;
  // whether a check of which threads can continue is running; its accesses to shared state are no steps
  bool is_looking_ = false;
  std::vector<std::uint8_t> turns_;
  std::vector<note> notes_;
  std::string failure_;
};

}  // namespace interleaving
