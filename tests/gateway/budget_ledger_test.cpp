// The sums of budgets: what is reserved, settled and given back, and what a file keeps.

#include "gateway/policy/budget_ledger.hpp"

#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gateway = canigo::gateway;
using namespace std::chrono;
using namespace std::chrono_literals;
using gateway::budget_ledger;
using gateway::micro_usd;

namespace {

constexpr sys_seconds noon = sys_days{year{2026} / November / 29} + 12h;

std::string temporary(const std::string& name) { return (std::filesystem::temp_directory_path() / name).string(); }

/// A file that is removed at the end.
struct state_file {
  std::string path = temporary("canigo-state-" + std::to_string(::getpid()) + ".db");
  state_file() { remove(); }
  ~state_file() { remove(); }
  void remove() const {
    for (const char* more : {"", "-wal", "-shm"}) std::remove((path + more).c_str());
  }
  std::unique_ptr<gateway::spent_store> open() const { return std::make_unique<gateway::spent_store>(path); }
};

gateway::budget_options of(micro_usd most, gateway::calendar_unit per = gateway::calendar_unit::day,
                           std::string zone = "UTC", gateway::over_budget at = gateway::over_budget::refuse) {
  return {most, per, std::move(zone), at};
}

struct one_budget {
  budget_ledger ledger{nullptr};
  gateway::budget_options terms = of(100);

  budget_ledger::budget budget() const { return {"upstream", "chat", &terms}; }
  std::optional<budget_ledger::denial> reserve(micro_usd amount, budget_ledger::hold& to, sys_seconds at = noon) {
    const std::array all{budget()};
    return ledger.reserve(all, amount, at, to);
  }
  budget_ledger::look now(sys_seconds at = noon) { return ledger.look_at(budget(), at); }
};

}  // namespace

TEST_CASE("gateway: a budget counts what is reserved until a call settles it", "[gateway][budget]") {
  one_budget b;
  budget_ledger::hold first, second, third;
  REQUIRE_FALSE(b.reserve(60, first));
  const auto denied = b.reserve(50, second);
  REQUIRE(denied);
  CHECK_FALSE(second);
  CHECK_FALSE(denied->is_spent);  // the first call may cost less
  CHECK(denied->sums.reserved == 60);
  REQUIRE_FALSE(b.reserve(40, second));
  first.settle(20);
  CHECK(b.now().spent == 20);
  CHECK(b.now().reserved == 40);
  second = {};  // it was not sent
  CHECK(b.now().reserved == 0);
  const auto too_much = b.reserve(81, third);
  REQUIRE(too_much);
  CHECK(too_much->is_spent);
  CHECK(too_much->sums.window.end == sys_days{year{2026} / November / 30});
  CHECK_FALSE(b.reserve(80, third));
}

TEST_CASE("gateway: a call that costs nothing goes, and one that costs more than expected counts in full",
          "[gateway][budget]") {
  one_budget b;
  budget_ledger::hold h;
  REQUIRE_FALSE(b.reserve(100, h));
  h.settle(130);
  CHECK(b.now().spent == 130);
  CHECK_FALSE(b.reserve(0, h));
  h.settle(0);
  CHECK(b.reserve(1, h));
}

TEST_CASE("gateway: a look for money takes none, and a budget that lets calls wait denies them", "[gateway][budget]") {
  one_budget b;
  b.terms.at = gateway::over_budget::queue;
  const std::array all{b.budget()};
  budget_ledger::hold h;
  CHECK_FALSE(b.ledger.find_denial(all, 100, noon));
  CHECK(b.now().reserved == 0);
  REQUIRE_FALSE(b.reserve(60, h));
  const auto denied = b.ledger.find_denial(all, 41, noon);
  REQUIRE(denied);
  CHECK_FALSE(denied->is_spent);
  CHECK(b.ledger.find_denial(all, 101, noon)->is_spent);
  CHECK_FALSE(b.ledger.find_denial(all, 40, noon));
}

TEST_CASE("gateway: money that comes back is told with the names of its budgets", "[gateway][budget]") {
  budget_ledger ledger{nullptr};
  std::vector<std::string> freed;
  ledger.on_freed([&](const std::string& name) { freed.push_back(name); });
  const auto terms = of(100);
  const std::array all{budget_ledger::budget{"upstream", "chat", &terms},
                       budget_ledger::budget{"tenant", "reports", &terms}};
  {
    budget_ledger::hold h;
    REQUIRE_FALSE(ledger.reserve(all, 10, noon, h));
    CHECK(freed.empty());
    h.settle(5);
    CHECK(freed == std::vector<std::string>{"upstream chat", "tenant reports"});
    REQUIRE_FALSE(ledger.reserve(all, 10, noon, h));
  }
  CHECK(freed.size() == 4);  // it was not sent
}

TEST_CASE("gateway: a call takes from all of its budgets or from none", "[gateway][budget]") {
  budget_ledger ledger{nullptr};
  const auto large = of(100), small = of(30),
             watched = of(1, gateway::calendar_unit::day, "UTC", gateway::over_budget::warn);
  const std::array all{budget_ledger::budget{"upstream", "chat", &large},
                       budget_ledger::budget{"tenant", "reports", &small}};
  budget_ledger::hold h;
  const auto denied = ledger.reserve(all, 40, noon, h);
  REQUIRE(denied);
  CHECK(denied->which == 1);
  CHECK(ledger.look_at(all[0], noon).reserved == 0);
  REQUIRE_FALSE(ledger.reserve(all, 30, noon, h));
  h.settle(25);
  CHECK(ledger.look_at(all[0], noon).spent == 25);
  CHECK(ledger.look_at(all[1], noon).spent == 25);
  // One that only warns denies nothing, and counts.
  const std::array warns{budget_ledger::budget{"upstream", "other", &watched}};
  REQUIRE_FALSE(ledger.reserve(warns, 50, noon, h));
  h.settle(50);
  CHECK(ledger.look_at(warns[0], noon).spent == 50);
  // Names of another kind are other budgets.
  const std::array other{budget_ledger::budget{"tenant", "chat", &large}};
  CHECK(ledger.look_at(other[0], noon).spent == 0);
}

TEST_CASE("gateway: a new window begins at 0, and a clock that steps back finds the old sum", "[gateway][budget]") {
  one_budget b;
  budget_ledger::hold h;
  REQUIRE_FALSE(b.reserve(100, h));
  h.settle(100);
  CHECK(b.reserve(1, h));
  CHECK_FALSE(b.reserve(70, h, noon + 24h));
  CHECK(b.reserve(1, h = {}, noon));  // the clock is a day back
  CHECK(b.reserve(101, h, noon + 24h));
  REQUIRE_FALSE(b.reserve(70, h, noon + 24h));
  CHECK(b.now(noon - 48h).spent == 0);
  h.settle(70);  // counts where it began, whatever the clock says now
  CHECK(b.now(noon).spent == 100);
  CHECK(b.now(noon + 24h).spent == 70);
}

TEST_CASE("gateway: a call that runs over the end of its window counts where it began", "[gateway][budget]") {
  one_budget b;
  budget_ledger::hold h;
  const auto midnight = sys_days{year{2026} / November / 30};
  REQUIRE_FALSE(b.reserve(90, h, midnight - 1s));
  CHECK(b.now(midnight).reserved == 0);
  h.settle(80);
  CHECK(b.now(midnight).spent == 0);
  CHECK(b.now(midnight - 1s).spent == 80);
}

TEST_CASE("gateway: other terms count for the same sum, and another calendar is another budget", "[gateway][budget]") {
  one_budget b;
  budget_ledger::hold h;
  REQUIRE_FALSE(b.reserve(100, h));
  h.settle(100);
  b.terms.most = 150;
  CHECK_FALSE(b.reserve(50, h));
  CHECK(b.now().spent == 100);
  b.terms.zone = "Europe/Paris";
  CHECK(b.now().spent == 0);
}

TEST_CASE("gateway: what is settled is in the file, and what is reserved is not", "[gateway][budget]") {
  const state_file file;
  const auto terms = of(100, gateway::calendar_unit::month, "Europe/Paris");
  const std::array all{budget_ledger::budget{"upstream", "chat", &terms}};
  {
    budget_ledger ledger{file.open()};
    budget_ledger::hold settled, running;
    REQUIRE_FALSE(ledger.reserve(all, 30, noon, settled));
    REQUIRE_FALSE(ledger.reserve(all, 60, noon, running));
    settled.settle(20);
    // Another process, such as the next one, sees it while this one is still there.
    budget_ledger other{file.open()};
    CHECK(other.look_at(all[0], noon).spent == 20);
    CHECK(other.look_at(all[0], noon).reserved == 0);
    budget_ledger::hold h;
    REQUIRE_FALSE(other.reserve(all, 5, noon, h));
    h.settle(5);
    running.settle(50);
    CHECK(ledger.look_at(all[0], noon).spent == 75);  // with what the other one has added
    CHECK(ledger.failures() == 0);
  }
  budget_ledger next{file.open()};
  CHECK(next.look_at(all[0], noon).spent == 75);
  CHECK(next.look_at(all[0], noon + 24h * 31).spent == 0);
}

TEST_CASE("gateway: while the file can't be used, sums are kept in memory, and an unknown sum is spent",
          "[gateway][budget]") {
  const state_file file;
  const auto terms = of(100);
  const std::array all{budget_ledger::budget{"upstream", "chat", &terms}};
  budget_ledger ledger{file.open()};
  budget_ledger::hold first, second, third;
  REQUIRE_FALSE(ledger.reserve(all, 10, noon, first));
  sqlite3* db = nullptr;
  REQUIRE(::sqlite3_open(file.path.c_str(), &db) == SQLITE_OK);
  REQUIRE(::sqlite3_exec(db, "DROP TABLE canigo_spent", nullptr, nullptr, nullptr) == SQLITE_OK);
  ::sqlite3_close(db);
  first.settle(10);
  CHECK(ledger.failures() == 1);
  CHECK(ledger.look_at(all[0], noon).spent == 10);
  const auto denied = ledger.reserve(all, 10, noon + 24h, second);  // a window whose sum was not read yet
  REQUIRE(denied);
  CHECK_FALSE((denied->is_known || denied->is_spent));
  CHECK(ledger.failures() == 2);
  std::ignore = file.open();  // makes the table anew
  REQUIRE_FALSE(ledger.reserve(all, 10, noon + 24h, second));
  REQUIRE_FALSE(ledger.reserve(all, 5, noon, third));
  third.settle(5);
  CHECK(ledger.failures() == 2);
  auto store = file.open();
  const std::string calendar = "day UTC", name = "upstream chat";
  while (store->spent({name, calendar, noon - 12h}) != 15) std::this_thread::yield();  // a thread saves it
  CHECK(ledger.look_at(all[0], noon).spent == 15);
}

TEST_CASE("gateway: a sum that the file does not take is written at the end", "[gateway][budget]") {
  const state_file file;
  const auto terms = of(100);
  const std::array all{budget_ledger::budget{"upstream", "chat", &terms}};
  sqlite3* other = nullptr;
  REQUIRE(::sqlite3_open(file.path.c_str(), &other) == SQLITE_OK);
  {
    budget_ledger ledger{file.open()};
    budget_ledger::hold h, next;
    REQUIRE_FALSE(ledger.reserve(all, 10, noon, h));
    REQUIRE(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    h.settle(10);
    REQUIRE_FALSE(ledger.reserve(all, 10, noon, next));
    next.settle(10);
    CHECK(ledger.failures() == 1);  // the second one did not try
    REQUIRE(::sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  ::sqlite3_close(other);
  budget_ledger restarted{file.open()};
  CHECK(restarted.look_at(all[0], noon).spent == 20);
}

TEST_CASE("gateway: the file keeps the last windows of a budget", "[gateway][budget]") {
  const state_file file;
  const auto terms = of(100, gateway::calendar_unit::hour);
  const std::array all{budget_ledger::budget{"upstream", "chat", &terms}};
  for (int i = 0; i < 100; ++i) {
    budget_ledger ledger{file.open()};
    budget_ledger::hold h;
    REQUIRE_FALSE(ledger.reserve(all, 10, noon + i * 1h, h));
    h.settle(10);
  }
  auto store = file.open();
  const std::string calendar = "hour UTC", name = "upstream chat";
  CHECK(store->spent({name, calendar, noon}) == 0);
  CHECK(store->spent({name, calendar, noon + 40h}) == 10);
  CHECK(store->spent({name, calendar, noon + 99h}) == 10);
}

TEST_CASE("gateway: a file that can't be opened is refused with the reason", "[gateway][budget]") {
  CHECK_THROWS_AS(gateway::spent_store{"/no/such/folder/state.db"}, std::runtime_error);
  CHECK_THROWS_AS(gateway::spent_store::check("/no/such/folder/state.db"), std::runtime_error);
  CHECK_THROWS_AS(gateway::spent_store::check(std::filesystem::temp_directory_path().string()), std::runtime_error);
  CHECK_NOTHROW(gateway::spent_store::check(temporary("canigo-no-state.db")));
  CHECK_THROWS_AS(gateway::spent_store{"/etc/passwd"}, std::runtime_error);
}

TEST_CASE("gateway: calls of many threads pass a budget by no more than they cost above what they reserved",
          "[gateway][budget]") {
  constexpr micro_usd most = 10'000, reserved = 7, above = 2;
  one_budget b;
  b.terms.most = most;
  constexpr int threads = 4, calls = 2'000;
  std::vector<std::thread> all;
  std::atomic<micro_usd> granted{0};
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < calls; ++i) {
        budget_ledger::hold h;
        if (b.reserve(reserved, h)) continue;
        h.settle(reserved + above);
        granted.fetch_add(1);
      }
    });
  }
  for (auto& t : all) t.join();
  CHECK(b.now().reserved == 0);
  CHECK(b.now().spent == granted.load() * (reserved + above));
  CHECK(b.now().spent >= most - reserved);
  CHECK(b.now().spent <= most + threads * above);
}
