#include "fetcher.hpp"

#include <canigo/http/retry_after.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/signal_set.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

namespace fetch {

using namespace std::chrono_literals;
namespace http = canigo::http;

fetcher::fetcher(asio::io_context& io, const options& o, report& r)
    : io_{io},
      options_{o},
      report_{r},
      input_{io.get_executor(), o.input},
      room_{io, {.permits = o.queue_limit}},
      limits_{io,
              {.rates = {{o.rate, o.burst}},
               .concurrency = o.connections,
               .priorities = o.priorities,
               .queue_limit = o.queue_limit}},
      http_{io, {.connections = o.connections, .timeout = o.timeout, .user_agent = "canigo-fetch"}} {}

asio::awaitable<void> fetcher::run() {
  asio::co_spawn(io_, over_.wrap(obey_signals()), asio::detached);
  asio::co_spawn(io_, over_.wrap(show_progress()), asio::detached);

  std::size_t lines = 0;
  std::size_t calls = 0;
  while (const auto line = co_await input_.next()) {
    ++lines;
    parsed_line parsed = parse_line(*line, options_.priorities);
    if (!parsed.problem.empty()) report_.bad_line(lines, parsed.problem);
    if (!parsed.value) continue;
    parsed.value->order = ++calls;
    canigo::permit place = co_await room_.acquire();
    asio::co_spawn(io_, make(std::move(*parsed.value), std::move(place)), [](const std::exception_ptr& e) {
      if (e) std::rethrow_exception(e);  // nobody reads what we print
    });
  }
  // All places are free when all calls have ended.
  const canigo::permit all = co_await room_.acquire({.tokens = options_.queue_limit});
  over_.cancel();
}

asio::awaitable<void> fetcher::make(call c, [[maybe_unused]] canigo::permit place) {
  c.read = std::chrono::steady_clock::now();
  try {
    co_await attempt(c);
  } catch (const std::system_error& e) {
    c.error = e.code();
  }
  report_.finished(c);
}

asio::awaitable<void> fetcher::attempt(call& c) {
  for (;;) {
    const canigo::permit may_go = co_await limits_.acquire(c.priority);
    c.started = std::chrono::steady_clock::now();
    ++c.attempts;
    const http::response response = co_await http_.get(c.url);
    c.status = response.status;
    c.bytes = response.body.size();

    if (response.status != 429 && response.status != 503) co_return;
    const auto wait = http::retry_after(response);
    if (!wait) co_return;
    pause(*wait);
    report_.note(fmt::format("{}: {}, all calls wait for {}", c.url, response.status, canigo::to_string(*wait)));
    if (c.attempts == options_.attempts) co_return;
  }
}

/// Nobody goes for a while; of several such demands the one that ends last counts.
void fetcher::pause(canigo::duration wait) {
  paused_until_ = std::max(paused_until_, canigo::saturating_add(std::chrono::steady_clock::now(), wait));
  limits_.pause_until(paused_until_);
}

asio::awaitable<void> fetcher::obey_signals() {
  asio::signal_set signals{io_, SIGINT, SIGTERM};
  co_await signals.async_wait(asio::use_awaitable);
  ++interruptions_;
  report_.note(
      fmt::format("stopping: {} calls may finish within {}", limits_.stats().held, canigo::to_string(options_.grace)));
  input_.stop();
  limits_.stop();  // those that wait end now
  give_up_after(options_.grace);
  co_await signals.async_wait(asio::use_awaitable);
  http_.stop();
}

void fetcher::give_up_after(canigo::duration grace) {
  const auto wait = [](fetcher* self, canigo::duration d) -> asio::awaitable<void> {
    co_await canigo::sleep_for(d);
    self->http_.stop();  // those that run end now
  };
  asio::co_spawn(io_, over_.wrap(wait(this, grace)), asio::detached);
}

asio::awaitable<void> fetcher::show_progress() {
  for (;;) {
    co_await canigo::sleep_for(200ms);
    const canigo::limiter_stats now = limits_.stats();
    report_.progress(now.held, now.waiting);
  }
}

}  // namespace fetch
