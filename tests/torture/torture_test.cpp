// Every scenario under every torment: whichever allocation fails, whoever is cancelled at whichever point and in
// whichever way, wherever it is stopped or left behind: everybody is told how it ended, once; nothing that was granted
// is lost; nothing leaks. A program of its own, as it replaces the heap.

#include "stage.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace torture;

namespace {

std::vector<scenario> all_scenarios() {
  std::vector<scenario> all;
  for (const auto& some : {scenarios_of_limits(), scenarios_of_handlers(), scenarios_of_time(), scenarios_of_pools(),
                           scenarios_of_resources(), scenarios_of_what_is_around(), scenarios_of_channels()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// With TORTURE='text' in the environment only those whose names hold that text.
std::vector<scenario> chosen_scenarios() {
  std::vector<scenario> chosen = all_scenarios();
  const char* text = std::getenv("TORTURE");
  if (text != nullptr) std::erase_if(chosen, [=](const scenario& s) { return !std::strstr(s.name, text); });
  return chosen;
}
/// The k-th allocation fails; with -1, none.
class failing_allocation : public torment {
 public:
  explicit failing_allocation(std::int64_t k) noexcept : k_{k} {}
  void begin(stage& t) override {
    using allocations::victims;
    failing_ = std::make_unique<allocations::failing>(t.spares_memory() ? -1 : k_,
                                                      t.spares_aligned() ? victims::unaligned : victims::all);
  }
  void end(stage& t) override {
    has_failed_ = !t.spares_memory() && failing_->stop();
    failing_.reset();
  }
  bool has_failed() const noexcept { return has_failed_; }

 private:
  std::int64_t k_;
  std::unique_ptr<allocations::failing> failing_;
  bool has_failed_ = false;
};

/// Something is done at one of the moments of a play.
class at_one_moment : public torment {
 public:
  explicit at_one_moment(int n) noexcept : left_{n} {}
  void at_moment(stage& t) override {
    if (left_-- == 0) strike(t);
  }
  bool was_reached() const noexcept { return left_ < 0; }

 private:
  virtual void strike(stage& t) = 0;
  int left_;
};

/// Of one caller, or of all.
class cancellation final : public at_one_moment {
 public:
  static constexpr std::size_t all = 1000;
  cancellation(int n, net::cancellation_type type, std::size_t victim) noexcept
      : at_one_moment{n}, type_{type}, victim_{victim} {}
  bool had_a_victim() const noexcept { return had_a_victim_; }

 private:
  void strike(stage& t) override {
    for (std::size_t i = 0; i < t.signals(); ++i) {
      if (victim_ != all && victim_ != i) continue;
      t.cancel(i, type_);
      had_a_victim_ = true;
    }
  }
  net::cancellation_type type_;
  std::size_t victim_;
  bool had_a_victim_ = false;
};

class stop final : public at_one_moment {
 public:
  stop(int n, canigo::stop_mode mode) noexcept : at_one_moment{n}, mode_{mode} {}

 private:
  void strike(stage& t) override { t.stop(mode_); }
  canigo::stop_mode mode_;
};

class abandonment final : public at_one_moment {
 public:
  abandonment(int n, bool context_first) noexcept : at_one_moment{n}, context_first_{context_first} {}

 private:
  void strike(stage& t) override {
    if (context_first_ && t.can_lose_context()) t.destroy_context();
    throw abandoned{};
  }
  bool context_first_;
};

/// Plays a scenario to its end, with a leak looked for; what went wrong.
std::string play(const scenario& s, torment& by) {
  tally counts;
  std::string wrong;
  {
    stage t{counts, by};
    try {
      s.play(t);
    } catch (const abandoned&) {
    }
    wrong = t.wrong();
  }
  if (counts.ended != counts.started) wrong += " somebody is left behind";
  if (counts.called_twice > 0) wrong += " somebody was called twice";
  return wrong;
}

/// Plays it twice if it leaves memory behind: what is made once is made the first time.
template <class MakeTorment>
auto play_without_leak(const scenario& s, MakeTorment make, const std::string& where, bool on_a_new_thread = false) {
  std::int64_t kept = 0;
  for (int round = 0; round < 3; ++round) {
    const std::int64_t before = allocations::live;
    auto by = make();
    {
      // A thread that has done nothing yet has no freed blocks to use again, and needs all that there is to need.
      std::string wrong;
      if (on_a_new_thread) {
        std::thread{[&] { wrong = play(s, by); }}.join();
      } else {
        wrong = play(s, by);
      }
      if (!wrong.empty()) FAIL(s.name << ", " << where << ": " << wrong);
    }
    kept = allocations::live - before;
    if (kept <= 0) return by;
  }
  FAIL(s.name << ", " << where << ": " << kept << " blocks leak");
  return make();
}

std::uint64_t plays = 0;

template <class MakeTorment, class Note>
int at_every_moment(const scenario& s, MakeTorment make, const std::string& what, Note note) {
  for (int n = 0;; ++n) {
    ++plays;
    const auto by = play_without_leak(s, [&] { return make(n); }, what + " at moment " + std::to_string(n));
    note(by);
    if (!by.was_reached()) return n;
    if (n > 10'000) FAIL(s.name << " does not end");
  }
}

template <class MakeTorment>
int at_every_moment(const scenario& s, MakeTorment make, const std::string& what) {
  return at_every_moment(s, make, what, [](const auto&) {});
}

}  // namespace

TEST_CASE("there are many scenarios, each with a name of its own", "[torture]") {
  std::set<std::string> names;
  for (const scenario& s : all_scenarios()) names.insert(s.name);
  CHECK(names.size() == all_scenarios().size());
  CHECK(names.size() >= 75);
}

TEST_CASE("whichever allocation fails, everybody ends, nothing is lost and nothing leaks", "[torture]") {
  std::uint64_t points = 0;
  for (const scenario& s : chosen_scenarios()) {
    for (std::int64_t k = -1;; ++k) {
      const auto by =
          play_without_leak(s, [k] { return failing_allocation{k}; }, "allocation " + std::to_string(k), true);
      if (k >= 0 && !by.has_failed()) break;
      if (k >= 0) ++points;
      if (k > 10'000) FAIL(s.name << " does not end");
    }
  }
  CHECK(points > 500);
  std::printf("%llu allocations failed\n", static_cast<unsigned long long>(points));
}

TEST_CASE("whoever is cancelled, wherever and however, everybody ends and nothing is lost", "[torture]") {
  plays = 0;
  for (const scenario& s : chosen_scenarios()) {
    for (const auto type :
         {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
      const auto everywhere = [&](std::size_t victim, const std::string& what) {
        bool had_a_victim = false;
        const int moments = at_every_moment(
            s, [&](int n) { return cancellation{n, type, victim}; }, what,
            [&](const cancellation& by) { had_a_victim = had_a_victim || by.had_a_victim(); });
        CHECK(moments > 2);
        return had_a_victim;
      };
      everywhere(cancellation::all, "all cancelled");
      for (std::size_t victim = 0; everywhere(victim, "number " + std::to_string(victim) + " cancelled");) ++victim;
    }
  }
  std::printf("cancelled in %llu plays\n", static_cast<unsigned long long>(plays));
}

TEST_CASE("wherever it is stopped, in whichever mode, everybody ends", "[torture]") {
  plays = 0;
  for (const scenario& s : chosen_scenarios()) {
    for (const auto mode :
         {canigo::stop_mode::drain, canigo::stop_mode::finish_running, canigo::stop_mode::cancel_all}) {
      at_every_moment(s, [&](int n) { return stop{n, mode}; }, "stopped");
    }
  }
  std::printf("stopped in %llu plays\n", static_cast<unsigned long long>(plays));
}

TEST_CASE("wherever it is left, with the context first or last, everybody goes and nothing leaks", "[torture]") {
  plays = 0;
  for (const scenario& s : chosen_scenarios()) {
    for (const bool context_first : {false, true}) {
      at_every_moment(
          s, [&](int n) { return abandonment{n, context_first}; }, context_first ? "context gone" : "abandoned");
    }
  }
  std::printf("left in %llu plays\n", static_cast<unsigned long long>(plays));
}
