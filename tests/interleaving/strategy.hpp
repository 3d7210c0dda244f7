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
  depth_first,  ///< every schedule within a bound on preemptions
  random,       ///< each step by any thread that can take it
  priorities,   ///< few changes, at places drawn by chance
};

/// Numbers by chance, the same everywhere.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class chance {
 public:
  explicit chance(std::uint64_t seed) noexcept : state_{seed} {}
  /// One of 0 … n - 1; n is 2^32 at most.
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
  /// depth_first: most times per run that a thread which could go on is made to wait for another.
  int preemptions = 2;
  /// The others: so many runs. depth_first: at most so many, 0 for all there are.
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  /// priorities: how many changes of priority a run has.
  std::size_t changes = 2;
  /// Not empty: this one schedule, as a verdict has it.
  std::string replay = {};
};

std::string describe(const search& how);

/// Who goes on, step by step, run after run. Threads go by their numbers, in the order in which the model made them.
class strategy {
 public:
  static std::unique_ptr<strategy> make(const search& how);
  virtual ~strategy() = default;

  virtual void begin_run() = 0;
  /// Whether choose() would make a thread wait that could go on. If not, it is not asked about the others.
  virtual bool may_preempt() const noexcept = 0;
  /// One of these, by its place. The running one comes first if it can go on.
  virtual std::size_t choose(std::span<const std::uint8_t> threads, bool first_is_running) = 0;
  /// False if there is no run left.
  virtual bool next_run() = 0;
  /// After the last run: whether there is no other schedule of the kind.
  virtual bool is_complete() const noexcept { return false; }
};

/// Source: M. Musuvathi, S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs",
/// PLDI 2007.
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

/// The thread with the highest priority goes on. Priorities are drawn for each run; at a few steps, drawn as well, the
/// running thread's falls below all others. A defect that takes d events in a certain order is found in a run of k
/// steps by n threads with a probability of 1/(n k^(d-1)) at least, if there are d-1 changes.
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
  std::vector<std::uint64_t> changes_;     // the steps at which there is one
  std::vector<std::uint64_t> priorities_;  // by thread; low ones are for those that have fallen
  std::uint64_t steps_ = 0;
  std::uint64_t longest_ = 1;  // run so far, in steps
};

/// One schedule that is known.
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

/// The threads that took the steps of a run, one after the other, as text that is short: b12 is the second thread,
/// twelve times.
std::string to_text(std::span<const std::uint8_t> turns);

}  // namespace interleaving
