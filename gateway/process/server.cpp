#include "gateway/process/server.hpp"

#include "canigo/error.hpp"

#include "gateway/config/passed_sockets.hpp"
#include "gateway/process/connection.hpp"
#include "gateway/wire/standard_error.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
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

/// Returns the address and port of a listening socket; nothing for a unix socket.
std::optional<net::ip::tcp::endpoint> place_of(const listening_socket& s) {
  if (s.family() != AF_INET && s.family() != AF_INET6) return std::nullopt;
  net::ip::tcp::endpoint at;
  auto size = static_cast<socklen_t>(at.capacity());
  if (::getsockname(s.descriptor(), at.data(), &size) != 0) throw system_error{errno, std::system_category(), s.name()};
  at.resize(size);
  return at;
}

/// Raises the soft limit of file descriptors as far as the hard limit allows. The soft limit is often 1,024, but each
/// request needs sockets while it waits or runs. Returns how many files may then be open.
rlim_t raise_descriptor_limit(const config& c) {
  // Each loop needs up to four files, and one for each of its listening sockets.
  const rlim_t fewest = 40 + number_of_loops(c) * (4 + c.listeners.size());
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return RLIM_INFINITY;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < fewest) {
    throw std::runtime_error{
        fmt::format("this process may open {} files (RLIMIT_NOFILE); allowed: {} or more, with {} threads and {} "
                    "listeners",
                    files.rlim_max, fewest, number_of_loops(c), c.listeners.size())};
  }
  if (files.rlim_max < c.connections.all) {
    say("this process may open {} files (RLIMIT_NOFILE), fewer than the {} of limits.connections.all; who has "
        "connected beyond that is not heard",
        files.rlim_max, c.connections.all);
  }
  return files.rlim_max;
}

/// Returns the lowest free file descriptor, which the kernel will give to the next file; -1 if none is free.
int next_descriptor() noexcept {
  const int next = ::dup(STDERR_FILENO);
  if (next >= 0) ::close(next);
  return next;
}

/// Calls `open`, which opens or takes a listening socket, and converts its exception. `field`: the listener's name in
/// the configuration, for errors.
template <class Open>
void open_door(const std::string& field, Open open) {
  try {
    open();
  } catch (const system_error& e) {
    throw start_failure{field, ": " + e.code().message()};
  } catch (const std::runtime_error& e) {
    throw start_failure{field, std::string{": "} + e.what()};
  }
}

}  // namespace

server::server(config c, std::string file, admin_handler& by)
    : files_{raise_descriptor_limit(c)},
      loops_{make_loops(c)},
      service_{std::move(c), std::move(file), loops_, by},
      acceptors_(loops_.size()),
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
  // a signal. The signal stays in this set until wait_for_signal() handles it.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number);
  const std::shared_ptr<const config_snapshot> first = service_.current();
  open_doors(first->settings);
  divide_files();
}

/// Gives about three quarters of the files to clients. Connections to upstreams may use all but the last few files. The
/// last few files are kept so that the admin can answer and the configuration can be read.
void server::divide_files() {
  if (files_ > static_cast<rlim_t>(std::numeric_limits<int>::max())) return;
  const auto all = static_cast<int>(files_);
  service_.most_files = all - std::clamp(all / 16, 8, 64);
  most_clients_ = static_cast<std::size_t>(std::max(all - std::min(all / 4, 1024) - next_descriptor(), 1));
}

void server::open_doors(const config& c) {
  const auto passed = read_passed_sockets(std::getenv("LISTEN_PID"), std::getenv("LISTEN_FDS"),
                                          std::getenv("LISTEN_FDNAMES"), ::getpid());
  bool reuses_port = false;
  for (std::size_t i = 0; i < c.listeners.size(); ++i) {
    const listener& l = c.listeners[i];
    reuses_port = reuses_port || l.reuse_port;
    open_door(fmt::format("listen[{}].{}", i, l.systemd.empty() ? "address" : "systemd"), [&] {
      doors_.push_back({static_cast<std::uint32_t>(i), l.systemd.empty()
                                                           ? listening_socket::open(l.address, l.reuse_port)
                                                           : listening_socket::take(passed, l.systemd, l.address)});
      // If each client of this listener needs a credential, every user of this machine may connect.
      if (l.anonymous.empty()) doors_.back().socket.let_everybody_in();
    });
  }
  for (const passed_socket& p : passed) {
    if (std::ranges::any_of(c.listeners, [&](const listener& l) { return l.systemd == p.name; })) continue;
    say("the socket \"{}\" of systemd is of no use: no listener names it", p.name);
  }
  // The admin's socket stays open during a drain, so that the admin can show the progress of the drain. But it closes
  // early if `reuses_port`, because the process that succeeds this one may listen at the same address.
  if (c.admin)
    open_door("admin.listen", [&] {
      doors_.push_back({std::nullopt, listening_socket::open(c.admin->listen, reuses_port), reuses_port});
    });
  for (const door& d : doors_) {
    if (const auto place = place_of(d.socket)) service_.add_own_place(*place);
  }
}

std::vector<std::string> server::addresses() const {
  std::vector<std::string> names;
  for (const door& d : doors_) names.push_back(d.socket.name());
  return names;
}

bool server::run() {
  for (const auto& l : loops_) {
    for (door& d : doors_) {
      acceptors_[l->index].emplace_back();
      // All connections to the admin run on the first loop. So this loop can close an idle connection to the admin when
      // a new one comes.
      if (!d.listener && l != loops_.front()) continue;
      const int own = ::fcntl(d.socket.descriptor(), F_DUPFD_CLOEXEC, 0);
      if (own < 0) throw system_error{errno, std::system_category(), d.socket.name()};
      auto at = std::make_shared<acceptor>(l->io);
      at->assign({d.socket.family(), 0}, own);
      acceptors_[l->index].back() = at;
      accept(*l, d, at);
    }
  }
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
      tell_of_failure(e);
    }
  }
}

/// Runs the first event loop on this thread, and each of the others on a thread of its own. Returns when all have
/// ended.
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

void server::accept(loop& l, door& d, std::shared_ptr<acceptor> at) {
  acceptor& a = *at;
  a.async_accept(l.io, [this, &l, &d, at = std::move(at)](const error_code& error, stream_socket socket) mutable {
    const bool is_last = !error && d.listener && socket.native_handle() + 1 >= service_.most_files;
    try {
      if (!error) take(l, d, std::move(socket));
    } catch (const std::exception& e) {
      tell_of_failure(e);
    }
    if (!at->is_open()) return;
    if (error && error != net::error::operation_aborted && error != net::error::connection_aborted) {
      // Accepts again only after a pause, because the next accept may fail immediately for the same reason: no file
      // descriptor, no memory, or a firewall.
      service_.close_idle_links();
      accept_later(l, d, std::move(at));
    } else if (is_last) {
      service_.close_idle_links();
      accept_later(l, d, std::move(at));
    } else {
      accept(l, d, std::move(at));
    }
  });
}

/// Accepts again after a short pause. Clients that connect meanwhile wait in the kernel's queue.
void server::accept_later(loop& l, door& d, std::shared_ptr<acceptor> at) {
  auto later = std::make_shared<net::steady_timer>(l.io, 25ms);
  later->async_wait([this, &l, &d, at = std::move(at), later](const error_code&) mutable {
    if (!at->is_open()) return;
    if (d.listener && is_short_of_files()) {
      service_.close_idle_links();
      accept_later(l, d, std::move(at));
    } else {
      accept(l, d, std::move(at));
    }
  });
}

/// Whether the next file would get a descriptor that is kept for the admin and the configuration.
bool server::is_short_of_files() const noexcept {
  const int next = next_descriptor();
  return next < 0 || next >= service_.most_files;
}

/// Closes a connection to the admin that has no request at the moment, so that a new connection can take its place.
/// Returns false if there is no such connection.
bool server::push_out_idle(loop& l) {
  const auto idle = std::ranges::find_if(l.connections, [](const connection* c) { return c->is_idle_admin(); });
  if (idle == l.connections.end()) return false;
  (*idle)->cut();
  return true;
}

/// Whether a message that may be written at most once a minute may be written now. `told`: when it was last written.
bool server::is_due(std::atomic<std::int64_t>& told) noexcept {
  const std::int64_t now = clock::now().time_since_epoch() / 1s;
  std::int64_t last = told.load(std::memory_order_relaxed);
  if (last != 0 && now - last < 60) return false;
  return told.compare_exchange_strong(last, now, std::memory_order_relaxed);
}

/// Reports an exception from a handler, which means a lack of memory or a defect. Only the connection or the handler
/// that threw the exception has ended.
void server::tell_of_failure(const std::exception& e) noexcept {
  if (is_due(failure_told_)) say("a connection ended, or a step failed: {}; perhaps others have, too", e.what());
}

void server::tell_of_refusal(const std::string& bound, const std::string& address) {
  if (!is_due(refusal_told_)) return;
  say("connections are closed unanswered, as {}; this one is from {}", bound,
      address.empty() ? "a unix socket" : address);
}

void server::take(loop& l, door& d, stream_socket socket) {
  std::string address = peer_of(socket.native_handle());
  connection_counts& count = d.listener ? service_.clients : service_.admins;
  if (d.listener && count.all() >= most_clients_) {
    count.refuse();
    tell_of_refusal("this process may open no more files (RLIMIT_NOFILE) and keeps some for its upstreams", address);
    return;
  }
  if (const std::string bound = count.enter(address); !bound.empty()) {
    if (d.listener || !push_out_idle(l)) {
      tell_of_refusal(d.listener ? bound : fmt::format("admin.listen takes {}", service::most_admins), address);
      return;  // the destructor of `socket` closes the connection
    }
    count.replace(address);
  }
  const entrance by{d.listener, count};
  auto c = std::make_unique<connection>(service_, l, by, std::move(socket), std::move(address));
  // co_spawn keeps this lambda until the coroutine of run() ends, and the lambda keeps the connection.
  net::co_spawn(
      l.io, [c = std::move(c)] { return c->run(); },
      [this](const std::exception_ptr& error) {
        if (!error) return;
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& e) {
          tell_of_failure(e);
        }
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
  close_doors();
  on_connections([](connection& c) { c.drain(); });
  // In the last part of the drain's time, no request is sent to an upstream any more, because it would be cut off.
  const duration last = grace / 10;
  // Clients whose calls would wait until this last part get an error immediately, so that they can go to another
  // instance.
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

/// Ends all waits. Running requests may continue for the time `rest`.
void server::begin_no_more(duration rest) {
  service_.stop_waiting();
  grace_.expires_after(rest);
  grace_.async_wait([this](const error_code& error) {
    if (!error && !is_finishing_) finish();
  });
}

/// Stops listening. Clients that have already connected are still served; later connections are refused.
void server::close_doors() {
  open_loops_ = loops_.size();
  for (const auto& l : loops_) {
    net::post(l->io, [this, l = l.get()] {
      for (std::size_t i = 0; i < doors_.size(); ++i) {
        error_code ignored;
        const auto& at = acceptors_[l->index][i];
        if (doors_[i].closes_early && at) at->close(ignored);
      }
      if (--open_loops_ == 0) net::post(loops_.front()->io, [this] { take_last(); });
    });
  }
}

void server::take_last() {
  for (door& d : doors_) {
    if (!d.closes_early) continue;
    for (;;) {
      const int taken = ::accept4(d.socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (taken < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (taken < 0) break;
      take(*loops_.front(), d, stream_socket{loops_.front()->io, {d.socket.family(), 0}, taken});
    }
    d.socket.close();
  }
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
  if (!std::exchange(is_ending_, true)) {
    for (door& d : doors_) d.closes_early = true;
    close_doors();
  }
  on_connections([](connection& c) { c.cut(); });
}

void server::look_for_end() {
  look_.expires_after(20ms);
  look_.async_wait([this](const error_code&) {
    const auto is_open = [](const door& d) { return d.closes_early && d.socket.is_open(); };
    const bool is_served = std::ranges::none_of(doors_, is_open) && service_.callers == 0;
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
