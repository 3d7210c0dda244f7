#include "canigo/detail/context/shared_alarm.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <memory>
#include <new>
#include <tuple>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Notes when its alarm calls. The call itself brings the news.
struct alarm_owner : std::enable_shared_from_this<alarm_owner> {
  explicit alarm_owner(limits_run& r) : run{r}, alarm{time_source::of(r.io.get_executor()), &alarm_owner::called} {}

  static void called(alarm_owner& o) {
    o.calls.push_back(o.run.ms());
    if (o.failures > 0) {
      --o.failures;
      throw std::bad_alloc{};
    }
    if (o.is_told_at_once) o.alarm.was_called();
  }
  void set(duration after) { alarm.set(time_source::of(run.io.get_executor()).now() + after, *this); }

  limits_run& run;
  std::vector<std::int64_t> calls;
  int failures = 0;
  bool is_told_at_once = true;
  detail::shared_alarm<alarm_owner> alarm;
};

}  // namespace

TEST_CASE("an alarm keeps its object until the call, and not longer", "[shared_alarm]") {
  limits_run run;
  auto owner = std::make_shared<alarm_owner>(run);
  const std::weak_ptr<alarm_owner> watch = owner;
  owner->set(5ms);
  owner.reset();
  run.time.run_for(4ms);
  CHECK_FALSE(watch.expired());
  run.time.run();
  CHECK(watch.expired());
}

TEST_CASE("an alarm that is moved calls once, at the last instant that was set", "[shared_alarm]") {
  limits_run run;
  const auto owner = std::make_shared<alarm_owner>(run);
  owner->set(5ms);
  owner->set(9ms);
  owner->set(7ms);
  CHECK(owner.use_count() == 2);
  run.time.run();
  CHECK(owner->calls == std::vector<std::int64_t>{7});
  CHECK(owner.use_count() == 1);
  owner->set(1ms);
  run.time.run();
  CHECK(owner->calls == std::vector<std::int64_t>{7, 8});
}

TEST_CASE("an alarm that is taken back calls never, and keeps nothing", "[shared_alarm]") {
  limits_run run;
  const auto owner = std::make_shared<alarm_owner>(run);
  owner->set(5ms);
  SECTION("to be set again") { owner->alarm.set(time_point::max(), *owner); }
  SECTION("for good") { CHECK(owner->alarm.disarm() == owner); }
  CHECK(owner.use_count() == 1);
  CHECK(owner->alarm.disarm() == nullptr);
  run.time.run();
  CHECK(owner->calls.empty());
}

TEST_CASE("an alarm whose call has no memory calls again a millisecond later", "[shared_alarm]") {
  limits_run run;
  auto owner = std::make_shared<alarm_owner>(run);
  owner->failures = 2;
  owner->set(5ms);
  run.time.run();
  CHECK(owner->calls == std::vector<std::int64_t>{5, 6, 7});
  CHECK(owner.use_count() == 1);
}

TEST_CASE("an alarm is not set again before its owner knows of the call", "[shared_alarm]") {
  limits_run run;
  const auto owner = std::make_shared<alarm_owner>(run);
  owner->is_told_at_once = false;
  owner->set(5ms);
  run.time.run();
  owner->set(1ms);
  run.time.run();
  CHECK(owner->calls == std::vector<std::int64_t>{5});
  owner->alarm.was_called();
  owner->set(1ms);
  run.time.run();
  CHECK(owner->calls == std::vector<std::int64_t>{5, 6});
}

TEST_CASE("a context that ends takes its alarms along, and calls none", "[shared_alarm]") {
  std::shared_ptr<alarm_owner> owner;
  {
    limits_run run;
    owner = std::make_shared<alarm_owner>(run);
    owner->set(5ms);
  }
  CHECK(owner->calls.empty());
  CHECK(owner.use_count() == 1);
}
