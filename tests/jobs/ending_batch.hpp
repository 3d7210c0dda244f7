#pragma once

#include "canigo/jobs/store.hpp"

#include "postgres_server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include <optional>
#include <string>
#include <vector>

/// A batch of two jobs, and a job that waits for it. One of the two has ended in a transaction that is still open,
/// while the store ends the other one.
class ending_batch {
 public:
  ending_batch(postgres_world& w, canigo::jobs::store& store) : world_{w}, store_{store} {
    std::vector<canigo::jobs::new_job> list(3, canigo::jobs::new_job{.kind = "kind"});
    list[0].batch = list[1].batch = "b";
    list[2].after_batch = "b";
    last_ = w.wait(store.put_all(list))[2].id;
    const auto runs = claim();
    REQUIRE(runs.size() == 2);
    world_.session().run("BEGIN ISOLATION LEVEL READ COMMITTED");
    world_.session().run("UPDATE canigo_job SET state = 2, finished_at = now() WHERE id = " +
                         std::to_string(runs[0].lease.id));
    canigo::net::co_spawn(world_.io(), end(runs[1].lease), canigo::net::detached);
  }
  ending_batch(const ending_batch&) = delete;
  ending_batch& operator=(const ending_batch&) = delete;

  canigo::jobs::job_id job_after() const noexcept { return last_; }
  bool has_ended() const noexcept { return ended_.has_value(); }
  /// Commits the open transaction. Then the store's transaction continues, and the job that waits for the batch begins
  /// and ends.
  void commit() {
    world_.session().run("COMMIT");
    while (!ended_) world_.io().run_one();
    CHECK(ended_ == canigo::jobs::verdict::accepted);
    const auto runs = claim();
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].lease.id == last_);
    CHECK(world_.wait(store_.complete(runs[0].lease, "")) == canigo::jobs::verdict::accepted);
  }

 private:
  std::vector<canigo::jobs::claimed_job> claim() {
    const canigo::jobs::claim_request two{.limit = 2};
    return world_.wait(store_.claim(two));
  }
  canigo::net::awaitable<void> end(canigo::jobs::lease l) { ended_ = co_await store_.complete(l, ""); }

  postgres_world& world_;
  canigo::jobs::store& store_;
  canigo::jobs::job_id last_{};
  std::optional<canigo::jobs::verdict> ended_;
};
