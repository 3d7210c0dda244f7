// The sums of budgets that instances share: ledgers, the script, and a Redis between them.

#include "canigo/redis/client.hpp"
#include "canigo/redis/command.hpp"

#include "gateway/policy/budget_ledger.hpp"
#include "gateway/policy/budget_statement.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gateway = canigo::gateway;
namespace redis = canigo::redis;
using namespace std::chrono;
using namespace std::chrono_literals;
using gateway::budget_answer;
using gateway::budget_ledger;
using gateway::budget_statement;
using gateway::micro_usd;

namespace {

constexpr sys_seconds noon = sys_days{year{2100} / November / 29} + 12h;

/// The clock of the ledgers.
steady_clock::time_point virtual_now{1h};
steady_clock::time_point read_virtual_clock() { return virtual_now; }

/// A Redis, and a client that runs the script.
class store {
 public:
  std::optional<budget_answer> run(const budget_statement& s) { return run(s, arguments_of(s)); }

  /// Runs the script with other constants.
  std::optional<budget_answer> run(const budget_statement& s, milliseconds lease, milliseconds longest_step) {
    std::vector<std::string> arguments = arguments_of(s);
    arguments[1] = std::to_string(lease.count());
    arguments[2] = std::to_string(longest_step.count());
    return run(s, arguments);
  }

  /// Waits until the clock of Redis has advanced.
  void let_pass(milliseconds d) {
    const auto now = [this] {
      const redis::reply t = send(redis::command{"TIME"});
      return seconds{std::stoll(t.elements()[0].text())} + microseconds{std::stoll(t.elements()[1].text())};
    };
    for (const auto until = now() + d; now() < until;) {
    }
  }

  redis::reply send(redis::command c) { return redis_test::run(io_, client_.run(std::move(c))); }

 private:
  std::optional<budget_answer> run(const budget_statement& s, const std::vector<std::string>& arguments) {
    const auto keys = keys_of(s);
    redis::command c{"EVAL", gateway::budget_script(), keys.size()};
    for (const auto& key : keys) c.add(key);
    for (const auto& argument : arguments) c.add(argument);
    try {
      std::vector<std::string> texts;
      const redis::reply answer = send(std::move(c));
      for (const redis::reply& e : answer.elements()) texts.push_back(e.text());
      return read_answer(s, texts);
    } catch (const canigo::system_error&) {
      return std::nullopt;  // an older statement
    }
  }

  redis_test::redis_server server_;
  asio::io_context io_;
  redis::client client_{io_, server_.url()};
};

/// An instance of the gateway, as far as it concerns budgets.
struct instance {
  explicit instance(std::string name) : ledger{{std::move(name)}, &read_virtual_clock} {}
  ~instance() { ledger.stop(); }

  budget_ledger::budget chat() const { return {"upstream", "chat", &terms}; }
  budget_ledger::budget team() const { return {"tenant", "team", &team_terms}; }

  /// The outcome appears in `outcomes` once Redis has answered.
  std::uint64_t ask(micro_usd amount, bool of_team = false) {
    const std::array both{chat(), team()};
    const std::span<const budget_ledger::budget> all{both.data(), of_team ? 2U : 1U};
    return ledger.ask(all, amount, noon, [this](budget_ledger::outcome o) { outcomes.push_back(std::move(o)); });
  }
  budget_ledger::outcome answered(store& s, micro_usd amount, bool of_team = false) {
    ask(amount, of_team);
    talk(s);
    budget_ledger::outcome o = std::move(outcomes.back());
    outcomes.pop_back();
    return o;
  }
  void talk(store& s) {
    while (auto next = ledger.next_statement()) {
      const auto answer = s.run(*next);
      REQUIRE(answer);
      ledger.take(*next, *answer);
    }
  }
  /// Gives all reserved money back.
  void leave(store& s) {
    talk(s);  // answers what was asked
    outcomes.clear();
    talk(s);
  }
  gateway::budget_options terms{100, gateway::calendar_unit::day, "UTC", gateway::over_budget::refuse};
  gateway::budget_options team_terms{50, gateway::calendar_unit::month, "UTC", gateway::over_budget::refuse};
  budget_ledger ledger;
  std::vector<budget_ledger::outcome> outcomes;  // its money refers to the ledger
};

/// Returns the sums that a new instance sees.
budget_ledger::look look_at(store& s) {
  static int looks = 0;
  instance other{"look" + std::to_string(++looks)};
  other.ledger.look_at(other.chat(), noon);
  other.talk(s);
  return other.ledger.look_at(other.chat(), noon);
}

}  // namespace

TEST_CASE("gateway: instances together reserve no more than a shared budget", "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  auto first = a.answered(s, 60);
  REQUIRE_FALSE(first.denied);
  auto second = b.answered(s, 50);
  REQUIRE(second.denied);
  CHECK_FALSE(second.denied->is_spent);
  CHECK(second.denied->is_known);
  CHECK(second.denied->sums.reserved == 60);
  CHECK_FALSE(second.money);
  auto third = b.answered(s, 40);
  REQUIRE_FALSE(third.denied);
  CHECK(third.money.amount() == 40);
  CHECK(look_at(s).reserved == 100);

  first.money.settle(20);
  a.talk(s);
  CHECK(look_at(s).spent == 20);
  CHECK(look_at(s).reserved == 40);
  third.money.settle(95);
  b.talk(s);
  auto refused = a.answered(s, 1);
  REQUIRE(refused.denied);
  CHECK(refused.denied->is_spent);
  CHECK(refused.denied->sums.spent == 115);
}

TEST_CASE("gateway: a call reserves in all of its shared budgets or in none", "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  auto first = a.answered(s, 30, true);
  REQUIRE_FALSE(first.denied);
  auto second = b.answered(s, 30, true);
  REQUIRE(second.denied);
  CHECK(second.denied->which == 1);
  CHECK(second.denied->sums.window.end - second.denied->sums.window.begin == days{30});
  CHECK(look_at(s).reserved == 30);
  CHECK_FALSE(b.answered(s, 70).denied);
}

TEST_CASE("gateway: money that many calls ask for at once is one statement", "[gateway][budget][redis]") {
  store s;
  instance a{"a"};
  for (int i = 0; i < 12; ++i) a.ask(10);
  const auto statement = a.ledger.next_statement();
  REQUIRE(statement);
  CHECK(statement->windows.size() == 1);
  CHECK(statement->asks.size() == 12);
  CHECK(a.outcomes.empty());
  a.ledger.take(*statement, s.run(*statement).value());
  REQUIRE(a.outcomes.size() == 12);
  CHECK(std::ranges::count_if(a.outcomes, [](const auto& o) { return o.denied.has_value(); }) == 2);
  CHECK_FALSE(a.ledger.has_news());
}

TEST_CASE("gateway: a statement whose answer is lost is not counted twice", "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  auto first = a.answered(s, 30);
  first.money.settle(25);
  a.ask(10);
  const auto lost = a.ledger.next_statement();
  REQUIRE(lost);
  REQUIRE(s.run(*lost));
  a.ledger.fail();
  CHECK(a.outcomes.empty());  // the money is asked for again
  CHECK(look_at(s).reserved == 10);
  a.talk(s);
  REQUIRE(a.outcomes.size() == 1);
  CHECK_FALSE(a.outcomes[0].denied);
  CHECK(look_at(s).spent == 25);
  CHECK(look_at(s).reserved == 10);

  // It comes once more, after a later one.
  a.outcomes.clear();
  a.talk(s);
  CHECK_FALSE(s.run(*lost));
  CHECK(look_at(s).reserved == 0);
}

TEST_CASE("gateway: a question that is withdrawn keeps no money, and delays no other", "[gateway][budget][redis]") {
  store s;
  instance a{"a"};
  const auto is_withdrawn = [&](std::uint64_t question) {
    const auto denied = a.ledger.withdraw(question);
    if (!denied) return false;
    CHECK_FALSE(denied->is_known);
    CHECK_FALSE(denied->is_spent);
    CHECK(denied->which == 0);
    return true;
  };
  SECTION("before it is sent") {
    const std::array<std::uint64_t, 3> all{a.ask(60), a.ask(70), a.ask(30)};
    CHECK(is_withdrawn(all[1]));
    CHECK(is_withdrawn(all[0]));
    CHECK_FALSE(a.ledger.withdraw(all[2] + 1));
    const auto statement = a.ledger.next_statement();
    REQUIRE(statement);
    REQUIRE(statement->asks.size() == 1);
    CHECK(statement->asks[0].amount == 30);
    a.ledger.take(*statement, s.run(*statement).value());
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].money.amount() == 30);
    CHECK_FALSE(a.ledger.withdraw(all[2]));
  }
  SECTION("before its answer comes") {
    const auto first = a.ask(60);
    a.ask(10);
    const auto statement = a.ledger.next_statement();
    const auto answer = s.run(statement.value());
    CHECK(look_at(s).reserved == 70);
    CHECK(is_withdrawn(first));
    a.ledger.take(*statement, answer.value());
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].money.amount() == 10);
    CHECK(a.ledger.has_news());
    a.talk(s);
    CHECK(look_at(s).reserved == 10);
  }
  SECTION("before its answer is lost") {
    const auto only = a.ask(60);
    const auto statement = a.ledger.next_statement();
    REQUIRE(s.run(statement.value()));
    CHECK(is_withdrawn(only));
    a.ledger.fail();
    a.talk(s);
    CHECK(look_at(s).reserved == 0);
    CHECK(a.outcomes.empty());
  }
  SECTION("while it waits to be sent again") {
    const std::array<std::uint64_t, 2> all{a.ask(60), a.ask(10)};
    const auto lost = a.ledger.next_statement();
    REQUIRE(s.run(lost.value()));
    const auto later = a.ask(20);
    a.ledger.fail();
    CHECK(is_withdrawn(all[0]));
    CHECK_FALSE(a.ledger.withdraw(all[0]));  // only once
    CHECK(is_withdrawn(later));
    a.talk(s);
    REQUIRE(a.outcomes.size() == 1);
    CHECK(a.outcomes[0].money.amount() == 10);
    CHECK(look_at(s).reserved == 10);
  }
  SECTION("before Redis is silent for too long, or the ledger stops") {
    const auto sent = a.ask(60);
    REQUIRE(a.ledger.next_statement());
    const auto unsent = a.ask(60);
    CHECK(is_withdrawn(sent));
    CHECK(is_withdrawn(unsent));
    virtual_now += 2s;
    a.ledger.fail();
    a.ledger.stop();
    CHECK(a.outcomes.empty());
    CHECK_FALSE(a.ledger.withdraw(sent));
  }
  a.leave(s);
  CHECK(look_at(s).reserved == 0);
}

TEST_CASE("gateway: after questions that failed for two seconds, further ones are denied at once for a second",
          "[gateway][budget][redis]") {
  store s;
  instance a{"a"};
  a.ask(10);
  const auto denied = [&] { return std::ranges::count_if(a.outcomes, [](const auto& o) { return !!o.denied; }); };
  for (int i = 0; i < 20; ++i) {
    REQUIRE(a.ledger.next_statement());
    a.ledger.fail();
    virtual_now += 100ms;
  }
  CHECK(denied() == 0);
  CHECK(a.ledger.is_slow());
  if (a.ledger.next_statement()) a.ledger.fail();
  CHECK(denied() == 1);
  a.ask(10);
  CHECK(denied() == 2);
  virtual_now += 1s;
  a.ask(10);
  CHECK(denied() == 2);
  int answering = 0;
  a.ledger.on_answering([&] { ++answering; });
  a.talk(s);
  CHECK(a.outcomes.size() == 3);
  CHECK(denied() == 2);
  CHECK(answering == 1);
  CHECK_FALSE(a.ledger.is_slow());
}

TEST_CASE("gateway: a dead instance's reservations end after the lease, and its spending stays",
          "[gateway][budget][redis]") {
  store s;
  instance b{"b"};
  {
    instance a{"a"};
    auto first = a.answered(s, 30);
    first.money.settle(30);
    a.talk(s);
    a.ask(40);
    const auto unanswered = a.ledger.next_statement();
    REQUIRE(s.run(*unanswered));
    a.ledger.fail();
  }
  const auto denied = [&](milliseconds lease, milliseconds longest_step) {
    b.ask(50);
    const auto next = b.ledger.next_statement();
    b.ledger.take(*next, s.run(*next, lease, longest_step).value());
    const bool is_denied = b.outcomes.back().denied.has_value();
    b.outcomes.clear();
    return is_denied;
  };
  CHECK(denied(2min, 0ms));
  s.let_pass(30ms);
  CHECK(denied(1ms, 0ms));  // Redis was away: no statement came in this time
  s.let_pass(30ms);
  CHECK_FALSE(denied(20ms, 20s));
  b.talk(s);
  CHECK(look_at(s).spent == 30);
  CHECK(look_at(s).reserved == 0);
}

TEST_CASE("gateway: an instance that comes back restores what Redis has lost", "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  auto first = a.answered(s, 30);
  first.money.settle(20);
  a.talk(s);
  auto second = b.answered(s, 30);
  second.money.settle(25);
  b.talk(s);
  auto held = a.answered(s, 5);
  s.send(redis::command{"FLUSHALL"});
  auto third = a.answered(s, 51);
  REQUIRE(third.denied);  // 45 are spent, and 5 are reserved
  CHECK(third.denied->sums.spent == 45);
  auto fourth = b.answered(s, 10);
  REQUIRE_FALSE(fourth.denied);
  fourth.money.settle(7);
  b.talk(s);
  held.money.settle(5);
  a.talk(s);
  auto refused = a.answered(s, 44);
  REQUIRE(refused.denied);
  CHECK(refused.denied->sums.spent == 57);
  CHECK(refused.denied->sums.reserved == 0);
}

TEST_CASE("gateway: a Redis that goes back to older data gets the sums again", "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"}, c{"c"};
  const auto spend = [&](instance& i, micro_usd cost) {
    auto o = i.answered(s, cost);
    REQUIRE_FALSE(o.denied);
    o.money.settle(cost);
    i.talk(s);
  };
  spend(b, 5);
  const auto key = "{canigo:canigo-gateway}:budget:upstream chat:day UTC:" +
                   std::to_string(noon.time_since_epoch().count() - seconds{12h}.count());
  const std::string older = s.send(redis::command{"DUMP", key}).text();
  REQUIRE_FALSE(older.empty());
  spend(a, 50);
  spend(c, 30);  // this instance sends nothing any more
  spend(b, 1);
  virtual_now += 1s;
  a.ledger.look_at(a.chat(), noon);
  a.talk(s);
  s.send(redis::command{"RESTORE", key, 0, older, "REPLACE"});
  virtual_now += 1s;
  for (instance* i : {&a, &b}) {
    i->ledger.look_at(i->chat(), noon);
    i->talk(s);
  }
  CHECK(look_at(s).spent == 86);
}

TEST_CASE("gateway: an instance with reserved money, its own or others', sends statements",
          "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  auto held = a.answered(s, 60);
  auto denied = b.answered(s, 50);
  REQUIRE(denied.denied);
  for (instance* i : {&a, &b}) {
    i->talk(s);
    CHECK_FALSE(i->ledger.next_statement());
    virtual_now += 11s;
    CHECK(i->ledger.next_statement());
    i->ledger.fail();
  }
}

TEST_CASE("gateway: money that Redis has not confirmed is shown as reserved", "[gateway][budget][redis]") {
  store s;
  instance a{"a"};
  auto o = a.answered(s, 30);
  o.money.settle(20);
  const auto before = a.ledger.look_at(a.chat(), noon);
  CHECK(before.spent == 0);
  CHECK(before.reserved == 20);
  a.talk(s);
  const auto after = a.ledger.look_at(a.chat(), noon);
  CHECK(after.spent == 20);
  CHECK(after.reserved == 0);
}

TEST_CASE("gateway: money that waits too long for a slow Redis is denied", "[gateway][budget][redis]") {
  store s;
  instance a{"a"};
  a.ask(1);
  const auto first = a.ledger.next_statement();
  REQUIRE(first);
  a.ask(2);  // comes into the next statement
  virtual_now += 3s;
  a.ledger.take(*first, s.run(*first).value());
  REQUIRE(a.outcomes.size() == 1);
  CHECK_FALSE(a.outcomes[0].denied);
  a.talk(s);
  REQUIRE(a.outcomes.size() == 2);
  REQUIRE(a.outcomes[1].denied);
  CHECK_FALSE(a.outcomes[1].denied->is_known);
}

TEST_CASE("gateway: without an answer, a budget that refuses is named, not one that warns", "[gateway][budget]") {
  instance a{"a"};
  a.terms.at = gateway::over_budget::warn;
  a.ask(10, true);
  a.ledger.stop();
  REQUIRE(a.outcomes.size() == 1);
  CHECK(a.outcomes[0].denied->which == 1);
}

TEST_CASE("gateway: while Redis does not answer, shared money is denied without a wait", "[gateway][budget]") {
  instance a{"a"};
  a.ask(10);
  const auto statement = a.ledger.next_statement();
  REQUIRE(statement);
  virtual_now += 2s;
  a.ledger.fail();
  REQUIRE(a.outcomes.size() == 1);
  REQUIRE(a.outcomes[0].denied);
  CHECK_FALSE(a.outcomes[0].denied->is_known);
  a.ask(10);
  REQUIRE(a.outcomes.size() == 2);
  CHECK_FALSE(a.outcomes[1].denied->is_known);
  CHECK(a.ledger.failures() == 1);
  virtual_now += 1s;
  a.ask(10);
  CHECK(a.outcomes.size() == 2);  // it asks Redis again
  a.ledger.stop();
  REQUIRE(a.outcomes.size() == 3);
  CHECK_FALSE(a.outcomes[2].denied->is_known);
}

TEST_CASE("gateway: a shared budget that only warns is counted without an answer of Redis",
          "[gateway][budget][redis]") {
  store s;
  instance a{"a"}, b{"b"};
  a.terms.at = gateway::over_budget::warn;
  const std::array one{a.chat()};
  CHECK_FALSE(a.ledger.must_ask(one, 500));
  budget_ledger::hold money;
  REQUIRE_FALSE(a.ledger.reserve(one, 500, noon, money));
  a.talk(s);
  CHECK(look_at(s).reserved == 500);
  money.settle(400);
  a.talk(s);
  CHECK(look_at(s).spent == 400);
}

// Statements are lost, answered without the answer arriving, and delayed; instances die and others come. The calls cost
// what was expected, so that the budget is never passed.
TEST_CASE("gateway: no loss of statements or instances makes a shared budget be passed", "[gateway][budget][redis]") {
  const auto seed = GENERATE(take(8, random(1U, 1'000'000U)));
  CAPTURE(seed);
  std::mt19937 random{seed};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  store s;
  constexpr micro_usd most = 10'000;
  std::vector<std::unique_ptr<instance>> all;
  int made = 0;
  const auto join = [&] {
    all.push_back(std::make_unique<instance>("i" + std::to_string(++made)));
    all.back()->terms.most = most;
    all.back()->team_terms.most = most;
  };
  for (int i = 0; i < 3; ++i) join();
  micro_usd settled_by_gone = 0;
  std::vector<micro_usd> settled(all.size());
  std::vector<budget_statement> delayed;
  for (int step = 0; step < 400; ++step) {
    const std::size_t who = below(all.size());
    instance& i = *all[who];
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        i.ask(1 + below(400), below(2) == 0);
        break;
      case 3:
        if (!i.outcomes.empty()) {
          const std::size_t which = below(i.outcomes.size());
          auto o = std::move(i.outcomes[which]);
          i.outcomes.erase(i.outcomes.begin() + static_cast<std::ptrdiff_t>(which));
          const micro_usd cost = below(3) == 0 ? 0 : 1 + below(o.money.amount() + 1) / 4;
          if (o.money) settled[who] += std::min(cost, o.money.amount());
          o.money.settle(std::min(cost, o.money.amount()));
        }
        break;
      default:
        if (const auto next = i.ledger.next_statement()) {
          const std::size_t luck = below(6);
          if (luck == 0) {
            i.ledger.fail();  // it is lost
          } else if (luck == 1) {
            delayed.push_back(*next);
            i.ledger.fail();
          } else if (const auto answer = s.run(*next); answer && luck != 2) {
            i.ledger.take(*next, *answer);
          } else {
            i.ledger.fail();
          }
        }
        break;
      case 7:
        if (!delayed.empty()) {
          s.run(delayed.back());
          delayed.pop_back();
        }
        if (below(20) == 0) {
          // It ends, and another instance begins.
          i.leave(s);
          settled_by_gone += settled[who];
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(who));
          settled.erase(settled.begin() + static_cast<std::ptrdiff_t>(who));
          join();
          settled.push_back(0);
        }
        break;
    }
    micro_usd used = settled_by_gone;
    for (std::size_t n = 0; n < all.size(); ++n) {
      used += settled[n];
      for (const auto& o : all[n]->outcomes) used += o.money.amount();
    }
    REQUIRE(used <= most);
  }
  for (const auto& i : all) i->leave(s);
  micro_usd truth = settled_by_gone;
  for (const micro_usd n : settled) truth += n;
  auto refused = all[0]->answered(s, most + 1);
  REQUIRE(refused.denied);
  CHECK(refused.denied->sums.spent == truth);
  CHECK(refused.denied->sums.reserved == 0);
}
