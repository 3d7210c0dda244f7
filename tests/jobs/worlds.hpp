#pragma once

#include "canigo/jobs/conformance.hpp"
#include "canigo/jobs/memory_store.hpp"
#include "canigo/net.hpp"
#include "canigo/testing/virtual_time.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

/// A store in memory and virtual time. `Around` may wrap it in another store.
template <class Around>
class memory_world_of : public canigo::jobs::conformance::world {
 public:
  std::shared_ptr<canigo::jobs::store> open() override { return store_; }
  // Virtual time never goes back, so a negative `d` has no effect. The test cases allow that.
  void advance(canigo::duration d) override { time_.run_for(d); }
  void run(canigo::net::awaitable<void> work) override {
    bool is_over = false;
    canigo::net::co_spawn(io_, std::move(work), [&](std::exception_ptr e) {
      is_over = true;
      if (e) std::rethrow_exception(e);
    });
    time_.poll();
    if (!is_over) throw canigo::jobs::conformance::failure{"a call does not end"};
  }

 private:
  canigo::net::io_context io_;
  canigo::testing::virtual_time time_{io_, canigo::time_point{std::chrono::hours{24 * 365}}};
  canigo::jobs::memory_store inner_{io_};
  std::shared_ptr<canigo::jobs::store> store_ = std::make_shared<Around>(inner_);
};

/// A store that forwards all operations to another one.
class store_around : public canigo::jobs::store {
 public:
  explicit store_around(canigo::jobs::store& s) : inner{s} {}

  template <class T>
  using awaitable = canigo::net::awaitable<T>;

  awaitable<std::vector<canigo::jobs::put_answer>> put_all(std::vector<canigo::jobs::new_job> list) override {
    return inner.put_all(std::move(list));
  }
  awaitable<std::vector<canigo::jobs::claimed_job>> claim(canigo::jobs::claim_request r) override {
    return inner.claim(std::move(r));
  }
  awaitable<canigo::jobs::verdict> complete(canigo::jobs::lease l, std::string result) override {
    return inner.complete(l, std::move(result));
  }
  awaitable<canigo::jobs::verdict> fail(canigo::jobs::lease l, std::string text, canigo::duration d) override {
    return inner.fail(l, std::move(text), d);
  }
  awaitable<canigo::jobs::verdict> snooze(canigo::jobs::lease l, canigo::duration d) override {
    return inner.snooze(l, d);
  }
  awaitable<canigo::jobs::verdict> give_back(canigo::jobs::lease l) override { return inner.give_back(l); }
  awaitable<canigo::jobs::extension> extend(canigo::jobs::lease l, canigo::duration d,
                                            std::optional<std::string> progress) override {
    return inner.extend(l, d, std::move(progress));
  }
  awaitable<canigo::jobs::cancel_answer> cancel(canigo::jobs::job_id id) override { return inner.cancel(id); }
  awaitable<canigo::jobs::requeue_answer> requeue(canigo::jobs::job_id id) override { return inner.requeue(id); }
  awaitable<canigo::jobs::remove_answer> remove(canigo::jobs::job_id id) override { return inner.remove(id); }
  awaitable<std::size_t> trim(canigo::jobs::trim_request r) override { return inner.trim(std::move(r)); }
  awaitable<void> pause(std::string queue) override { return inner.pause(std::move(queue)); }
  awaitable<void> resume(std::string queue) override { return inner.resume(std::move(queue)); }
  awaitable<canigo::duration> next_due(std::string queue) override { return inner.next_due(std::move(queue)); }
  awaitable<canigo::jobs::instant> clock() override { return inner.clock(); }
  awaitable<std::optional<canigo::jobs::job_info>> look(canigo::jobs::job_id id) override { return inner.look(id); }
  awaitable<std::vector<canigo::jobs::job_info>> list(canigo::jobs::list_request r) override {
    return inner.list(std::move(r));
  }
  awaitable<std::vector<canigo::jobs::queue_count>> count() override { return inner.count(); }
  awaitable<std::uint64_t> changed(std::uint64_t seen) override { return inner.changed(seen); }
  void stop() noexcept override { inner.stop(); }
  std::string where() const override { return inner.where(); }
  canigo::jobs::store_facts facts() const override { return inner.facts(); }

 protected:
  canigo::jobs::store& inner;
};

using memory_world = memory_world_of<store_around>;
