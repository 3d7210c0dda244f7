// Cancelled, stopped and destroyed at every step of the loop: everybody is told once, and no permit is lost.
#include "canigo/error.hpp"
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/redis/semaphore.hpp"

#include "redis/member.hpp"
#include "redis/run.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

using namespace redis_test;
using namespace std::chrono_literals;

namespace {

redis::limiter_options one_call(canigo::duration lease) {
  return {.rates = {{canigo::rate::per_second(500), 4, 0, "calls"}, {canigo::rate::per_second(9000), 90, 0, "tokens"}},
          .concurrency = 1,
          .lease = lease,
          .quarantine = false};
}

/// A client of its own that holds a permit, waits for one, for a token, and for several limits in one step, as far as
/// the steps have come.
struct scene {
  scene(const std::string& url, const std::string& name, const redis::semaphore_options& o)
      : io{std::make_unique<net::io_context>()}, client{std::make_unique<redis::client>(*io, url)} {
    slots.emplace(*client, name, o);
    quota.emplace(*client, name, redis::scheduler_options{.rate = canigo::rate::per_second(200), .burst = 1});
    api.emplace(*client, name + "l", one_call(150ms));
    for (auto& w : waiters) w.emplace(*slots, canigo::request{});
    for (auto& w : calls) w.emplace(*api, canigo::request{.amounts = {{"tokens", 30}}});
    for (auto& t : tokens) t.emplace(*quota);
  }

  struct token {
    explicit token(redis::scheduler& s) {
      s.async_acquire({}, net::bind_cancellation_slot(cancel.slot(), [this](std::error_code e) {
                        ++ends;
                        ec = e;
                      }));
    }
    int ends = 0;
    std::error_code ec;
    net::cancellation_signal cancel;
  };

  void steps(std::size_t n) {
    // What takes long counts once.
    for (std::size_t i = 0; i < n; ++i) io->run_one_for(3ms);
  }
  bool all_ended() const {
    for (const auto& w : waiters) {
      if (!w->ended()) return false;
    }
    for (const auto& w : calls) {
      if (!w->ended()) return false;
    }
    for (const auto& t : tokens) {
      if (t->ends != 1) return false;
    }
    return true;
  }

  std::unique_ptr<net::io_context> io;
  std::unique_ptr<redis::client> client;
  std::optional<redis::semaphore> slots;
  std::optional<redis::scheduler> quota;
  std::optional<redis::limiter> api;
  std::optional<waiting> waiters[3];
  std::optional<waiting> calls[3];
  std::optional<token> tokens[2];
};

constexpr std::size_t many = 48;  // until the last of them waits for push, and a bit
const redis::semaphore_options one_permit{.permits = 1, .lease = 1s, .quarantine = false};
const redis::semaphore_options patient{.permits = 1, .lease = 1min, .quarantine = false};

/// Whoever comes next gets what there is, in all of these.
void expect_free(const std::string& url, const std::vector<std::string>& names) {
  net::io_context io;
  redis::client client{io, url};
  std::vector<std::unique_ptr<redis::semaphore>> slots;
  std::vector<std::unique_ptr<redis::limiter>> apis;
  std::vector<std::unique_ptr<waiting>> all;
  for (const auto& name : names) {
    apis.push_back(std::make_unique<redis::limiter>(client, name + "l", one_call(1min)));
    all.push_back(std::make_unique<waiting>(*apis.back(), canigo::request{}));
    slots.push_back(std::make_unique<redis::semaphore>(client, name, patient));
    all.push_back(std::make_unique<waiting>(*slots.back(), canigo::request{}));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    run_until(io, [&] { return all[i]->ended(); });
    CHECK_FALSE(*all[i]->ec);
    all[i]->p.release();
  }
}

}  // namespace

TEST_CASE("cancelled at every step, with every type: ended once, and nothing is lost [realtime]", "[realtime]") {
  const redis_server server;
  for (const auto type :
       {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
    for (std::size_t n = 0; n < many; ++n) {
      const std::string name = "c" + std::to_string(static_cast<int>(type)) + "-" + std::to_string(n);
      scene s{server.url(), name, one_permit};
      s.steps(n);
      for (auto& w : s.waiters) w->cancel.emit(type);
      for (auto& w : s.calls) w->cancel.emit(type);
      for (auto& t : s.tokens) t->cancel.emit(type);
      run_until(*s.io, [&] { return s.all_ended(); });
      int granted = 0;
      for (auto& w : s.waiters) {
        granted += !*w->ec;
        CHECK((!*w->ec || *w->ec == net::error::operation_aborted || *w->ec == errc::lease_lost));
        w->p.release();
      }
      CHECK(granted <= 1);
      int let_in = 0;
      for (auto& w : s.calls) {
        let_in += !*w->ec;
        CHECK((!*w->ec || *w->ec == net::error::operation_aborted || *w->ec == errc::lease_lost));
        w->p.release();
      }
      CHECK(let_in <= 1);
      for (auto& t : s.tokens) CHECK((!t->ec || t->ec == net::error::operation_aborted));
      // The same object works on.
      const auto p = run(*s.io, s.slots->acquire());
      CHECK(p.held() == 1);
      const auto q = run(*s.io, s.api->acquire());
      CHECK(q.held() == 1);
    }
  }
}

TEST_CASE("stopped or destroyed at every step: ended once, and nothing is lost [realtime]", "[realtime]") {
  const redis_server server;
  enum class end { stop, objects, client, everything };
  std::vector<std::string> names;
  for (const auto how : {end::stop, end::objects, end::client, end::everything}) {
    for (std::size_t n = 0; n < many; ++n) {
      names.push_back("s" + std::to_string(static_cast<int>(how)) + "-" + std::to_string(n));
      scene s{server.url(), names.back(), one_permit};
      s.steps(n);
      if (how == end::stop) {
        s.slots->stop();
        s.quota->stop();
        s.api->stop();
      }
      if (how != end::stop && how != end::everything) {
        s.slots.reset();
        s.quota.reset();
        s.api.reset();
      }
      if (how == end::client) s.client.reset();
      if (how != end::everything) {
        run_until(*s.io, [&] { return s.all_ended(); });
        for (auto& w : s.waiters) CHECK((!*w->ec || *w->ec == errc::stopped || *w->ec == errc::lease_lost));
        for (auto& w : s.calls) CHECK((!*w->ec || *w->ec == errc::stopped || *w->ec == errc::lease_lost));
        for (auto& t : s.tokens) CHECK((!t->ec || t->ec == errc::stopped));
      } else {
        s.io.reset();  // the context first, with all that waits
        for (auto& t : s.tokens) CHECK(t->ends <= 1);
      }
      for (auto& w : s.waiters) w->p.release();
      for (auto& w : s.calls) w->p.release();
    }
  }
  // What was held has been given back, or its lease has run out.
  expect_free(server.url(), names);
}
