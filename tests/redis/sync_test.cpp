// What the script's answers are read as, whoever wrote them.
#include "../lib/redis/sync.hpp"

#include "canigo/redis/reply.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace redis = canigo::redis;
using redis::detail::packed;
using redis::detail::sync_answer;

namespace {

redis::reply text(std::string t) { return redis::reply{redis::reply::kind::string, std::move(t)}; }

/// An answer with these runs, of which so many are no news.
sync_answer with_runs(std::string runs, std::int64_t told = 0, std::string settings = {}) {
  std::vector<redis::reply> parts;
  parts.push_back(text("OK"));
  for (const std::int64_t n : {-1, 3, 7, 0, 5, -20, 0}) parts.emplace_back(n);
  parts.push_back(text(std::move(settings)));
  parts.emplace_back(told);
  parts.push_back(text(std::move(runs)));
  parts.emplace_back(std::int64_t{99});
  return sync_answer{redis::reply{std::move(parts)}};
}

std::string run_text(double first, double count, double weight, double token) {
  return packed(std::vector<double>{first, count, weight, token});
}

}  // namespace

TEST_CASE("an answer of the script is read, with the waiters that stand together") {
  const auto a = with_runs(run_text(5, 3, 1, 1000) + run_text(9, 1, 2, 0), 1);
  CHECK(a.what == sync_answer::status::ok);
  CHECK_FALSE(a.next);
  CHECK(a.queue == 3);
  CHECK(a.held_by_all == 7);
  CHECK(a.epoch == 5);
  CHECK(a.now == 99);
  CHECK(a.empty[0].count() == -20'000);
  REQUIRE(a.grants.size() == 2);
  CHECK(a.grants[0].first == 5);
  CHECK(a.grants[0].count == 3);
  CHECK(a.grants[0].token == 1000);
  CHECK_FALSE(a.grants[0].is_news);
  CHECK(a.grants[1].first == 9);
  CHECK(a.grants[1].token == 0);
  CHECK(a.grants[1].is_news);
  CHECK(with_runs("").grants.empty());
}

TEST_CASE("waiters that follow each other stand together where they ask for the same") {
  const std::vector<std::uint64_t> acknowledged;
  const std::vector<redis::detail::sync_call::withdrawal> cancels;
  redis::detail::sync_call call;
  call.acknowledged = &acknowledged;
  call.cancels = &cancels;
  call.wanted = {{5, 0, 1}, {6, 0, 1}, {7, 1, 1}, {8, 1, 2}, {10, 1, 2}};
  const std::vector<std::string> words = call.encoded(false).arguments();
  const std::string lists = run_text(5, 2, 0, 1) + run_text(7, 1, 1, 1) + run_text(8, 1, 1, 2) + run_text(10, 1, 1, 2);
  const std::string counts = packed(std::vector<double>{0, 0, 4});
  CHECK(words.at(8).ends_with(counts + lists));
}

TEST_CASE("what is no answer of the script is none") {
  const auto is_refused = [](const sync_answer& a) { return a.what == sync_answer::status::other && a.grants.empty(); };
  const double huge = std::numeric_limits<double>::infinity();
  CHECK(is_refused(with_runs("half a run")));
  CHECK(is_refused(with_runs(run_text(1, 1, 1, 1) + "x")));
  CHECK(is_refused(with_runs(run_text(-1, 1, 1, 1))));
  CHECK(is_refused(with_runs(run_text(1, -1, 1, 1))));
  CHECK(is_refused(with_runs(run_text(huge, 1, 1, 1))));
  CHECK(is_refused(with_runs(run_text(1, 1e300, 1, 1))));
  CHECK(is_refused(with_runs(run_text(1, 1, 1, std::numeric_limits<double>::quiet_NaN()))));
  CHECK(is_refused(sync_answer{redis::reply{}}));
  CHECK(is_refused(sync_answer{redis::reply{std::vector<redis::reply>{text("OK")}}}));
  CHECK(is_refused(sync_answer{redis::reply{std::vector<redis::reply>{text("STALE")}}}));
  CHECK(sync_answer{redis::reply{std::vector<redis::reply>{text("NOSESS")}}}.what == sync_answer::status::no_session);
}

TEST_CASE("an answer may say which other form a limit has") {
  const auto answered = [](std::vector<redis::reply> parts) { return sync_answer{redis::reply{std::move(parts)}}; };
  const auto a = answered({text("FORM"), redis::reply{7}});
  CHECK(a.what == sync_answer::status::other_form);
  CHECK(a.form == 7);
  CHECK(answered({text("FORM")}).what == sync_answer::status::other);
}

TEST_CASE("settings that are none are not read out of an answer") {
  const auto settings = [](std::string s) { return with_runs("", 0, std::move(s)).settings; };
  const auto all = settings("3 2 1000 1 7 -1");
  REQUIRE(all);
  CHECK(all->version == 3);
  CHECK(all->permits == 2);
  CHECK(all->rates[0].tokens == 1000);
  CHECK(all->rates[0].period == 1);
  CHECK(all->rates[0].burst == 7);
  CHECK(all->pause == -1);
  CHECK(settings("9007199254740992 0 0 0 0 0"));
  for (const char* wrong : {"x", "3 2 1000 1 7", "3 2 1001 1 7 0", "3 2 1 0 7 0", "-3 2 1 1 7 0", "3 -2 1 1 7 0",
                            "3 2 -1 1 7 0", "3 2 1 -1 7 0", "3 2 1 1 -7 0", "9007199254740993 2 1 1 7 0"}) {
    CAPTURE(wrong);
    CHECK_FALSE(settings(wrong));
  }
}
