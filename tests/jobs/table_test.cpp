// The ends of what a store takes: each is taken, and what lies beyond it is refused by its name and range.
#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/job_info.hpp"
#include "canigo/jobs/store.hpp"

#include "../../lib/jobs/table.hpp"
#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace table_test {

/// What the check of a sound value with this change says; empty: nothing.
template <class T, class Change>
std::string refusal_of_changed(T sound, Change change) {
  change(sound);
  return reason_of([&] { jobs::detail::check(sound); });
}

/// A text from `least` to 255 bytes is taken.
template <class T>
void check_name(const T& sound, std::string T::* field, const std::string& name, std::size_t least = 1) {
  INFO(name);
  const auto said = [&](std::size_t size) {
    return refusal_of_changed(sound, [&](T& t) { t.*field = std::string(size, 'x'); });
  };
  CHECK(said(1).empty());
  CHECK(said(255).empty());
  const std::string range = "; allowed: " + std::to_string(least) + " to 255 bytes";
  CHECK(said(0) == (least == 0 ? "" : name + " is " + range));
  CHECK(said(256) == name + " is " + std::string(80, 'x') + "..." + range);
}

/// The good ones are taken, and the bad ones refused by the field's name and range.
template <class T, class Value>
void check_range(const T& sound, Value T::* field, const std::string& name, std::vector<Value> good,
                 std::vector<Value> bad, const std::string& range) {
  for (const Value& v : good) {
    const std::string said = refusal_of_changed(sound, [&](T& t) { t.*field = v; });
    INFO(name);
    CHECK(said.empty());
  }
  for (const Value& v : bad) {
    const std::string said = refusal_of_changed(sound, [&](T& t) { t.*field = v; });
    INFO(said);
    CHECK(said.starts_with(name + " is "));
    CHECK(said.ends_with("; allowed: " + range));
  }
}

const new_job plain{.kind = "kind"};

}  // namespace table_test

using namespace table_test;

TEST_CASE("a new job is taken up to the ends of its fields", "[jobs][ends]") {
  check_name(plain, &new_job::queue, "new_job.queue");
  check_name(plain, &new_job::kind, "new_job.kind");
  check_name(plain, &new_job::batch, "new_job.batch", 0);
  check_name(plain, &new_job::after_batch, "new_job.after_batch", 0);
  check_name(plain, &new_job::unique_key, "new_job.unique_key", 0);
  check_range(plain, &new_job::priority, "new_job.priority", {0, 15}, {-1, 16}, "0 to 15");
  check_range(plain, &new_job::delay, "new_job.delay", {0ns, 1ns, duration::max()}, {-1ns}, "0 or more");
  check_range(plain, &new_job::expires_in, "new_job.expires_in", {1ns, duration::max()}, {0ns, -1ns}, "more than 0");
  check_range(plain, &new_job::max_attempts, "new_job.max_attempts", {1u, 1'000'000u}, {0u, 1'000'001u},
              "1 to 1'000'000");
  check_range(plain, &new_job::scope, "new_job.scope", {unique_scope{}, unique_scope::for_a_time},
              {unique_scope(static_cast<int>(unique_scope::for_a_time) + 1)}, "a unique_scope");
  const instant past{std::chrono::sys_days{std::chrono::year{10000} / 1 / 1}};
  check_range(plain, &new_job::at, "new_job.at", {std::optional<instant>{}, instant{}, past - 1us},
              {std::optional{instant{-1us}}, std::optional{past}}, "microseconds since 1970, up to the year 9999");

  const new_job keyed{.kind = "kind", .unique_key = "k", .scope = unique_scope::for_a_time, .unique_for = 1s};
  check_range(keyed, &new_job::unique_for, "new_job.unique_for", {1ns, duration::max()}, {0ns, -1ns},
              "more than 0 for unique_scope::for_a_time");
  const auto with = [](auto change) { return refusal_of_changed(plain, change); };
  CHECK(with([](new_job& j) { j.scope = unique_scope::for_a_time; }).empty());  // without a key nothing is unique
  CHECK(with([](new_job& j) { j.at = instant{}, j.delay = 1ns; }) ==
        "new_job.delay is 1ns; allowed: 0 for a job with new_job.at");
  CHECK(with([](new_job& j) { j.batch = j.after_batch = "b"; }) ==
        "new_job.after_batch is b; allowed: another batch than its own");
  const std::string at_once = "new_job.after_batch is b; allowed: empty for a job with a delay, or with new_job.at";
  CHECK(with([](new_job& j) { j.after_batch = "b", j.delay = 1ns; }) == at_once);
  CHECK(with([](new_job& j) { j.after_batch = "b", j.at = instant{}; }) == at_once);
}

TEST_CASE("what a store is asked for is taken up to the ends of its fields", "[jobs][ends]") {
  check_name(claim_request{}, &claim_request::queue, "claim_request.queue");
  check_range<claim_request, std::size_t>({}, &claim_request::limit, "claim_request.limit", {1, SIZE_MAX}, {0},
                                          "1 or more");
  check_range<claim_request, duration>({}, &claim_request::lease, "claim_request.lease", {1ns, duration::max()},
                                       {0ns, -1ns}, "more than 0");
  check_name(trim_request{}, &trim_request::queue, "trim_request.queue");
  check_range<trim_request, duration>({}, &trim_request::older_than, "trim_request.older_than", {0ns, duration::max()},
                                      {-1ns}, "0 or more");
  check_range<trim_request, std::size_t>({}, &trim_request::keep, "trim_request.keep", {0, 100'000, SIZE_MAX},
                                         {100'001, SIZE_MAX - 1}, "0 to 100'000, or SIZE_MAX");
  check_range<trim_request, std::size_t>({}, &trim_request::limit, "trim_request.limit", {1, SIZE_MAX}, {0},
                                         "1 or more");
  check_name(list_request{}, &list_request::queue, "list_request.queue", 0);
  check_name(list_request{}, &list_request::batch, "list_request.batch", 0);
  check_range<list_request, std::size_t>({}, &list_request::limit, "list_request.limit", {1, 1000}, {0, 1001},
                                         "1 to 1000");
  check_range<store_policy, std::uint32_t>({}, &store_policy::most_crashes, "store_policy.most_crashes", {1}, {0},
                                           "1 or more");
  const auto said = [](auto f) { return reason_of(f); };
  CHECK(said([] { jobs::detail::check_queue("q"); }).empty());
  CHECK(said([] { jobs::detail::check_queue(""); }) == "store.queue is ; allowed: 1 to 255 bytes");
  CHECK(said([] { jobs::detail::check_retry(0ns); }).empty());
  CHECK(said([] { jobs::detail::check_retry(-1ns); }) == "store.retry_in is -1ns; allowed: 0 or more");
  CHECK(said([] { jobs::detail::check_snooze(0ns); }).empty());
  CHECK(said([] { jobs::detail::check_snooze(-1ns); }) == "store.snooze is -1ns; allowed: 0 or more");
  CHECK(said([] { jobs::detail::check_extension(1ns, "half"); }).empty());
  CHECK(said([] { jobs::detail::check_extension(0ns, {}); }) == "store.extend is 0s; allowed: more than 0");
}

TEST_CASE("a payload and a progress have 64 MiB at most", "[jobs][ends]") {
  std::string bytes(most_bytes, 'x');
  new_job j = plain;
  const auto put = [&] { return reason_of([&] { jobs::detail::check(j); }); };
  const auto extend = [&] { return reason_of([&] { jobs::detail::check_extension(1s, bytes); }); };
  j.payload = bytes;
  CHECK(put().empty());
  CHECK(extend().empty());
  bytes += 'x';
  j.payload = bytes;
  CHECK(put() == "new_job.payload is 67108865; allowed: 0 to 67108864 bytes");
  CHECK(extend() == "store.progress is 67108865; allowed: 0 to 67108864 bytes");
}

TEST_CASE("a value of a row is taken up to its ends", "[jobs][ends]") {
  for (const std::int64_t v : {2, 3, 5}) CHECK(jobs::detail::checked(v, 2, 5, "job 7", "attempt") == v);
  for (const std::int64_t v : {1, 6}) {
    const std::string said = reason_of([&] { jobs::detail::checked(v, 2, 5, "job 7", "attempt"); });
    CHECK(said.starts_with("job 7: attempt is " + std::to_string(v) + " in canigo_job, not 2 to 5;"));
  }
}

TEST_CASE("the text of a failure is kept up to 1000 bytes, in one line", "[jobs][ends]") {
  CHECK(jobs::detail::kept_text(std::string(1000, 'x')) == std::string(1000, 'x'));
  CHECK(jobs::detail::kept_text(std::string(1001, 'x')) == std::string(1000, 'x'));
  CHECK(jobs::detail::kept_text("a\nb\x1f" "c d\x80") == "a b c d\x80");
}

TEST_CASE("spans of a store's clock end with its last instant", "[jobs][ends]") {
  using jobs::detail::later;
  using jobs::detail::until;
  const instant now{1s};
  CHECK(later(now, 0ns) == now);
  CHECK(later(now, 1ns) == now + 1us);
  CHECK(later(now, duration::max()) == instant::max());
  CHECK(later(instant::max() - 1us, 1us) == instant::max());
  CHECK(later(instant::max() - 1us, 2us) == instant::max());
  CHECK(until(now, now) == 0s);
  CHECK(until(now, now + 3s) == 3s);
  CHECK(until(now, instant{}) == -1s);
  CHECK(until(now, instant::max()) == duration::max());
  // The longest spans that there are, and those beyond them.
  const auto most = std::chrono::duration_cast<std::chrono::microseconds>(duration::max());
  CHECK(until(now, now + most) == duration{most});
  CHECK(until(now, now + most + 1us) == duration::max());
  CHECK(until(now + most, now) == -duration{most});
  CHECK(until(now + most + 1us, now) == -duration::max());
  CHECK(until(instant{}, instant::max() - 1us) == duration::max());
  CHECK(until(instant::max() - 1us, instant::min()) == -duration::max());
}
