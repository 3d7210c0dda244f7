#include "canigo/retry_policy.hpp"

#include "support/catch.hpp"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

using namespace canigo;

TEST_CASE("a retry budget lets a share of the first attempts be tried again") {
  retry_budget budget{{.percent = 20, .reserve = 1, .most = 3}};
  CHECK(budget.try_take());
  CHECK_FALSE(budget.try_take());
  for (int i = 0; i < 4; ++i) budget.pay_in();
  CHECK_FALSE(budget.try_take());
  budget.pay_in();
  CHECK(budget.try_take());
  for (int i = 0; i < 1000; ++i) budget.pay_in();
  CHECK(budget.left() == 3);
  CHECK_THROWS_AS(retry_budget({.percent = 20, .reserve = 5, .most = 3}), std::system_error);
  CHECK_THROWS_AS(retry_budget({.percent = 20, .reserve = 0, .most = 0}), std::system_error);
  CHECK_THROWS_AS(retry_budget({.percent = 1001}), std::system_error);
}

TEST_CASE("a retry budget as it comes lets its reserve be tried again") {
  retry_budget budget;
  const auto reserve = retry_budget::options{}.reserve;
  CHECK(budget.left() == reserve);
  for (unsigned i = 0; i < reserve; ++i) CHECK(budget.try_take());
  CHECK_FALSE(budget.try_take());
}

TEST_CASE("a retry budget that many draw on pays out what was paid in") {
  retry_budget budget{{.percent = 100, .reserve = 0, .most = 1'000'000}};
  constexpr int times = 50'000;
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < times; ++i) {
        budget.pay_in();
        taken += budget.try_take();
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(taken + static_cast<int>(budget.left()) == 4 * times);
}
