#include "gateway/process/server.hpp"

#include "canigo/error.hpp"

#include "gateway/process/connection.hpp"
#include "gateway/wire/standard_error.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// How long a drain waits for the first request of a client that connected before the drain.
constexpr duration patience_with_new = 2s;
// At the end of a drain, the remaining requests are ended. Their clients then have this time to read the answer.
constexpr duration patience_with_last = 2s;
// How long the process waits, when it ends, for Redis to end the session of this instance.
constexpr duration patience_with_redis = 1s;

std::size_t number_of_loops(const config& c) {
  constexpr unsigned most = 4;
  return c.threads > 0 ? static_cast<std::size_t>(c.threads)
                       : std::clamp(std::thread::hardware_concurrency(), 1u, most);
}

std::vector<std::unique_ptr<loop>> make_loops(const config& c) {
  std::vector<std::unique_ptr<loop>> loops;
  for (std::size_t i = 0; i < number_of_loops(c); ++i) loops.push_back(std::make_unique<loop>(i));
  return loops;
}

}  // namespace

server::server(config c, std::string file, admin_handler& by)
    : files_{raise_descriptor_limit(c, number_of_loops(c))},
      loops_{make_loops(c)},
      service_{std::move(c), std::move(file), loops_, by},
      listeners_{service_, failures_},
      signals_{loops_.front()->io},
      reloads_{loops_.front()->io, {.permits = 1}},
      grace_{loops_.front()->io},
      patience_{loops_.front()->io},
      look_{loops_.front()->io},
      watchdog_{loops_.front()->io} {
  const auto drain_once = [this] {
    net::post(loops_.front()->io, [this] {
      if (!service_.is_draining()) drain();
    });
  };
  by.take({drain_once, [this] { return reload(); }});
  // The signals are caught before the sockets listen: a supervisor that finds the server listening may immediately send
  // a signal. The signal stays pending in `signals_` until wait_for_signal() handles it.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number);
  const std::shared_ptr<const config_snapshot> first = service_.current();
  listeners_.open(first->settings, files_);
}

std::vector<std::string> server::addresses() const { return listeners_.addresses(); }

bool server::run() {
  listeners_.accept();
  wait_for_signal();
  watch();
  supervisor_.tell("READY=1");
  run_loops();
  if (service_.has_cut) say("has ended, and cut some requests");
  return !service_.has_cut;
}

/// Runs an event loop. If a handler throws, for example for lack of memory, the loop continues with the next handler.
void server::run(net::io_context& io) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      failures_.tell(e);
    }
  }
}

/// Runs the first event loop on this thread, and each other event loop on its own thread. Returns when all event loops
/// have ended.
void server::run_loops() {
  std::vector<std::thread> threads;
  const auto join = [&threads] {
    for (std::thread& t : threads) t.join();
  };
  try {
    for (std::size_t i = 1; i < loops_.size(); ++i) threads.emplace_back([this, &io = loops_[i]->io] { run(io); });
  } catch (...) {
    for (const auto& l : loops_) l->io.stop();
    join();
    throw;
  }
  run(loops_.front()->io);
  join();
}

/// Tells the service manager regularly that the process works, as long as every event loop responds.
void server::watch() {
  const auto every = supervisor_.watchdog();
  if (!every) return;
  if (silent_loops_ == 0) {
    supervisor_.tell("WATCHDOG=1");
    silent_loops_ = loops_.size();
    for (const auto& l : loops_) net::post(l->io, [this] { --silent_loops_; });
  }
  watchdog_.expires_after(*every / 2);
  watchdog_.async_wait([this](const error_code& error) {
    if (!error) watch();
  });
}

void server::wait_for_signal() {
  signals_.async_wait([this](const error_code& error, int number) {
    if (error) return;
    wait_for_signal();
    if (number == SIGHUP) {
      net::co_spawn(loops_.front()->io, reload(), net::detached);
    } else if (service_.is_draining()) {
      finish();
    } else {
      drain();
    }
  });
}

/// Reloads the configuration, and returns the errors in it. Concurrent reloads run one after the other.
net::awaitable<std::vector<std::string>> server::reload() {
  const permit turn = co_await reloads_.acquire();
  supervisor_.tell_reloading();
  auto reloading = service_.reload();
  std::vector<std::string> wrong = co_await std::move(reloading);
  for (const std::string& w : wrong) write_to_standard_error(w + '\n', duration{0});
  say("{}", wrong.empty() ? "reloaded" : "not reloaded, nothing has changed");
  supervisor_.tell("READY=1");
  co_return wrong;
}

/// Calls `f` for each connection, on the event loop of the connection.
void server::on_connections(const std::function<void(connection&)>& f) {
  for (const auto& l : loops_) {
    net::post(l->io, [l = l.get(), f] {
      for (connection* c : std::vector<connection*>{l->connections.begin(), l->connections.end()}) f(*c);
    });
  }
}

void server::drain() {
  const auto now = service_.current();
  const duration grace = now->settings.grace;
  // Asks the service manager for enough time for the drain, because the manager kills a process that takes longer than
  // agreed.
  const auto most = std::chrono::ceil<std::chrono::microseconds>(grace + patience_with_last + 10s);
  supervisor_.tell(fmt::format("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", most.count()));
  service_.drain(clock::now() + grace);
  say("drains: {} wait, {} run, and all have {}", service_.waiting(), service_.counts.running.load(), to_string(grace));
  listeners_.close();
  on_connections([](connection& c) { c.drain(); });
  // In the last part of the drain's time, no request is sent to an upstream any more, because it would be cut off.
  const duration last = grace / 10;
  // If a call would wait until the last part of the drain's time, its client gets an error immediately. So the client
  // can go to another instance.
  service_.end_long_waits(grace - last);
  patience_.expires_after(std::min(grace, patience_with_new));
  patience_.async_wait([this](const error_code& error) {
    if (!error) on_connections([](connection& c) { c.end_idle(); });
  });
  grace_.expires_after(grace - last);
  grace_.async_wait([this, last](const error_code& error) {
    if (!error && !is_finishing_) begin_no_more(last);
  });
  look_for_end();
}

/// Ends the waits of all calls. Requests that already run may continue for the time `rest`.
void server::begin_no_more(duration rest) {
  service_.stop_waiting();
  on_connections([](connection& c) { c.end_wait(); });
  grace_.expires_after(rest);
  grace_.async_wait([this](const error_code& error) {
    if (!error && !is_finishing_) finish();
  });
}

/// Ends all waiting and running requests, because the time of the drain is over or a second signal has come.
void server::finish() {
  if (is_finishing_) {  // a further signal ends the process immediately
    say("ended at once");
    std::_Exit(EXIT_FAILURE);
  }
  is_finishing_ = true;
  service_.drain(clock::now());
  service_.stop_waiting();
  on_connections([](connection& c) { c.finish(); });
  patience_.expires_after(patience_with_last);
  patience_.async_wait([this](const error_code& error) {
    if (!error) on_connections([](connection& c) { c.cut(); });
  });
}

/// Closes the admin's listener and all remaining connections. Call it when all requests have ended.
void server::end_admin() {
  if (!std::exchange(is_ending_, true)) listeners_.close_all();
  on_connections([](connection& c) { c.cut(); });
}

void server::look_for_end() {
  look_.expires_after(20ms);
  look_.async_wait([this](const error_code&) {
    const bool is_served = listeners_.are_closed() && service_.callers == 0;
    if (is_served && is_ending_ && service_.clients.all() + service_.admins.all() == 0) {
      if (leaves_until_ == time_point::max()) {
        leaves_until_ = clock::now() + patience_with_redis;
        service_.leave_redis();
      }
      if (!service_.is_leaving_redis() || clock::now() >= leaves_until_) {
        for (const auto& l : loops_) l->io.stop();
        return;
      }
    }
    if (is_served) end_admin();
    look_for_end();
  });
}

}  // namespace canigo::gateway
