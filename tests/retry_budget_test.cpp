#include "canigo/retry_budget.hpp"

#include "catch.hpp"

#include <system_error>

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
  CHECK_THROWS_AS(retry_budget({.percent = 1001}), std::system_error);
}
