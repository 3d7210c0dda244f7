#include "canigo/jobs/conformance.hpp"

#include "support/catch.hpp"
#include "worlds.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

template <class T>
using awaitable = net::awaitable<T>;

/// The last token of each job is as good as any.
struct without_fencing : store_around {
  using store_around::store_around;
  awaitable<verdict> complete(lease l, std::string result) override {
    if (const auto info = co_await inner.look(l.id)) l.token = info->token;
    co_return co_await inner.complete(l, std::move(result));
  }
};

/// Says that a report counts which had no effect.
struct tells_no_stale_holder : store_around {
  using store_around::store_around;
  awaitable<verdict> complete(lease l, std::string result) override {
    co_await inner.complete(l, std::move(result));
    co_return verdict::accepted;
  }
};

struct last_first : store_around {
  using store_around::store_around;
  awaitable<std::vector<claimed_job>> claim(claim_request r) override {
    auto list = co_await inner.claim(std::move(r));
    std::ranges::reverse(list);
    co_return list;
  }
};

struct priorities_are_lost : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) {
      if (j.priority > 0 && j.priority < most_priorities) j.priority = 1;
    }
    co_return co_await inner.put_all(std::move(list));
  }
};

struct claims_one_more : store_around {
  using store_around::store_around;
  awaitable<std::vector<claimed_job>> claim(claim_request r) override {
    r.limit += r.limit > 1;
    co_return co_await inner.claim(std::move(r));
  }
};

struct leases_are_too_long : store_around {
  using store_around::store_around;
  awaitable<std::vector<claimed_job>> claim(claim_request r) override {
    r.lease += 1us;
    co_return co_await inner.claim(std::move(r));
  }
};

struct fails_count_twice : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) j.max_attempts = (j.max_attempts + 1) / 2;
    co_return co_await inner.put_all(std::move(list));
  }
};

struct snoozes_are_failures : store_around {
  using store_around::store_around;
  awaitable<verdict> snooze(lease l, duration d) override { return inner.fail(l, "snoozed", d); }
};

struct cancels_only_what_waits : store_around {
  using store_around::store_around;
  awaitable<extension> extend(lease l, duration d, std::optional<std::string> progress) override {
    auto e = co_await inner.extend(l, d, std::move(progress));
    e.is_cancelled = false;
    co_return e;
  }
};

struct keys_are_text : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) j.unique_key = j.unique_key.c_str();
    co_return co_await inner.put_all(std::move(list));
  }
};

struct keys_last_until_the_end : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) {
      if (j.scope == unique_scope::until_begun) j.scope = unique_scope::until_ended;
    }
    co_return co_await inner.put_all(std::move(list));
  }
};

struct payloads_are_text : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) j.payload = j.payload.c_str();
    co_return co_await inner.put_all(std::move(list));
  }
};

struct batches_are_of_nobody : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) j.batch.clear();
    co_return co_await inner.put_all(std::move(list));
  }
};

struct instants_are_now : store_around {
  using store_around::store_around;
  awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) override {
    for (auto& j : list) j.at.reset();
    co_return co_await inner.put_all(std::move(list));
  }
};

struct pauses_nothing : store_around {
  using store_around::store_around;
  awaitable<void> pause(std::string) override { co_return; }
};

struct tells_no_change : store_around {
  using store_around::store_around;
  awaitable<std::uint64_t> changed(std::uint64_t) override { co_return 1; }
};

struct lists_all_states : store_around {
  using store_around::store_around;
  awaitable<std::vector<job_info>> list(list_request r) override {
    r.state.reset();
    return inner.list(std::move(r));
  }
};

/// The cases that a store fails.
template <class Store>
std::set<int> failures_of() {
  std::set<int> failed;
  for (const auto& c : conformance::cases()) {
    memory_world_of<Store> w;
    try {
      c.check(w);
    } catch (const conformance::failure& f) {
      CHECK(std::string{f.what()}.find("conformance") != std::string::npos);
      failed.insert(c.number);
    }
  }
  return failed;
}

}  // namespace

TEST_CASE("the store in memory passes every case", "[jobs]") {
  for (const auto& c : conformance::cases()) {
    DYNAMIC_SECTION(c.number << ": " << c.name) {
      memory_world w;
      CHECK_NOTHROW(c.check(w));
    }
  }
}

TEST_CASE("the cases find the stores that break a promise", "[jobs]") {
  using found = std::set<int>;
  CHECK(failures_of<store_around>() == found{});
  CHECK(failures_of<without_fencing>().contains(4));
  CHECK(failures_of<tells_no_stale_holder>() == found{3, 4, 18});
  CHECK(failures_of<last_first>().contains(11));
  CHECK(failures_of<priorities_are_lost>().contains(11));
  CHECK(failures_of<claims_one_more>().contains(17));
  CHECK(failures_of<leases_are_too_long>() == found{20});
  CHECK(failures_of<fails_count_twice>().contains(19));
  CHECK(failures_of<snoozes_are_failures>().contains(27));
  CHECK(failures_of<cancels_only_what_waits>() == found{24, 29});
  CHECK(failures_of<keys_are_text>() == found{38});
  CHECK(failures_of<keys_last_until_the_end>().contains(37));
  CHECK(failures_of<payloads_are_text>() == found{43});
  CHECK(failures_of<batches_are_of_nobody>() == found{47});
  CHECK(failures_of<instants_are_now>().contains(48));
  CHECK(failures_of<pauses_nothing>() == found{16, 33, 41, 46});
  CHECK(failures_of<lists_all_states>() == found{44, 47});
  CHECK(failures_of<tells_no_change>() == found{41, 46});
}
