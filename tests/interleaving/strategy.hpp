#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace interleaving {

enum class by {
  depth_first,  ///< runs every schedule within a bound on preemptions
  random,       ///< lets a random thread take each step, among those that can continue
  priorities,   ///< lets the thread with the highest priority continue, with few changes of priority at random steps
};

/// Generates random numbers that are the same on all platforms.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class chance {
 public:
  explicit chance(std::uint64_t seed) noexcept : state_{seed} {}
  /// Returns a number from 0 to n - 1; n is at most 2^32.
  std::uint64_t below(std::uint64_t n) noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return ((z ^ (z >> 31)) >> 32) * n >> 32;
  }

 private:
  std::uint64_t state_;
};

/// How schedules are chosen.
struct search {
  by how = by::depth_first;
  /// With depth_first: the max number of times per run that a thread is preempted although it could continue.
  int preemptions = 2;
  /// With random and priorities: the number of runs. With depth_first: the max number of runs; 0: all.
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  /// With priorities: the number of priority changes in a run.
  std::size_t changes = 2;
  /// If it is not empty, only this schedule is run. It has the format of a verdict.
  std::string replay = {};
};

std::string describe(const search& how);

/// Chooses the thread that continues at each step of each run. Threads are numbered in the order in which the model
/// made them.
class strategy {
 public:
  static std::unique_ptr<strategy> make(const search& how);
  virtual ~strategy() = default;

  virtual void begin_run() = 0;
  /// Whether choose() may preempt a thread that could continue. If not, it is called only when the running thread
  /// can't.
  virtual bool may_preempt() const noexcept = 0;
  /// Returns the index in `threads` of the thread that continues. The running thread is the first one if it can
  /// continue.
  virtual std::size_t choose(std::span<const std::uint8_t> threads, bool first_is_running) = 0;
  /// Prepares the next run. Returns false if there is none.
  virtual bool next_run() = 0;
  /// After the last run: whether all schedules of this kind were run.
  virtual bool is_complete() const noexcept { return false; }
};

/// Runs all schedules within a bound on preemptions, depth first.
///
/// Source: M. Musuvathi, S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", PLDI
/// 2007.
class depth_first final : public strategy {
 public:
  explicit depth_first(const search& how) noexcept : preemptions_{how.preemptions}, most_{how.runs} {}
  void begin_run() override;
  bool may_preempt() const noexcept override { return left_ > 0; }
  std::size_t choose(std::span<const std::uint8_t> threads, bool first_is_running) override;
  bool next_run() override;
  bool is_complete() const noexcept override { return trail_.empty(); }

 private:
  struct choice {
    std::uint8_t taken;
    std::uint8_t count;
  };
  int preemptions_;
  int left_ = 0;
  std::uint64_t most_;
  std::uint64_t runs_ = 0;
  std::vector<choice> trail_;
  std::size_t depth_ = 0;
};

class at_random final : public strategy {
 public:
  explicit at_random(const search& how) : random_{how.seed}, left_{how.runs} {}
  void begin_run() override {}
  bool may_preempt() const noexcept override { return true; }
  std::size_t choose(std::span<const std::uint8_t> threads, bool) override {
    return threads.size() == 1 ? 0 : random_.below(threads.size());
  }
  bool next_run() override { return --left_ > 0; }

 private:
  chance random_;
  std::uint64_t left_;
};

/// Continues the thread with the highest priority. Priorities are random in each run. At a few random steps the running
/// thread's priority falls below all others. A defect that needs d events in a certain order is found in a run of k
/// steps by n threads with a probability of at least 1/(n k^(d-1)), if there are d-1 changes.
///
/// Source: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte, "A randomized scheduler with probabilistic
/// guarantees of finding bugs", ASPLOS 2010.
class by_priorities final : public strategy {
 public:
  explicit by_priorities(const search& how) : random_{how.seed}, left_{how.runs}, changes_(how.changes) {}
  void begin_run() override;
  bool may_preempt() const noexcept override { return true; }
  std::size_t choose(std::span<const std::uint8_t> threads, bool first_is_running) override;
  bool next_run() override { return --left_ > 0; }

 private:
  std::uint64_t priority_of(std::size_t thread);

  chance random_;
  std::uint64_t left_;
  std::vector<std::uint64_t> changes_;  // the steps at which a priority changes
  // the priority of each thread; low values are for threads whose priority has fallen
  std::vector<std::uint64_t> priorities_;
  std::uint64_t steps_ = 0;
  std::uint64_t longest_ = 1;  // the number of steps of the longest run so far
};

/// Repeats one known schedule.
class replayed final : public strategy {
 public:
  explicit replayed(const std::string& schedule);
  void begin_run() override { next_ = 0; }
  bool may_preempt() const noexcept override { return true; }
  std::size_t choose(std::span<const std::uint8_t> threads, bool first_is_running) override;
  bool next_run() override { return false; }

 private:
  std::vector<std::uint8_t> turns_;
  std::size_t next_ = 0;
};

/// Encodes which thread took each step of a run as a short text: b12 means the second thread, twelve times.
std::string to_text(std::span<const std::uint8_t> turns);

}  // namespace interleaving
