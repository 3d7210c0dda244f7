#include "gateway/process/listeners.hpp"

#include "canigo/error.hpp"

#include "gateway/config/passed_sockets.hpp"
#include "gateway/config/report.hpp"
#include "gateway/process/connection.hpp"
#include "gateway/wire/standard_error.hpp"

#include <asio/co_spawn.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

/// Returns the address and port of a listening socket; nothing for a unix socket.
std::optional<net::ip::tcp::endpoint> place_of(const listening_socket& s) {
  if (s.family() != AF_INET && s.family() != AF_INET6) return std::nullopt;
  net::ip::tcp::endpoint at;
  auto size = static_cast<socklen_t>(at.capacity());
  if (::getsockname(s.descriptor(), at.data(), &size) != 0) throw system_error{errno, std::system_category(), s.name()};
  at.resize(size);
  return at;
}

/// Calls `open`, which opens a listening socket, or takes one from systemd. Converts an exception of `open` to a
/// start_failure that names `field`, a field of the configuration.
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

listeners::listeners(service& s, failure_report& failures)
    : service_{s}, failures_{failures}, loops_{s.loops()}, acceptors_(loops_.size()) {}

void listeners::open(const config& c, rlim_t files) {
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
      // If each client of this listener must send a credential, lets every user of this machine connect to its unix
      // socket.
      if (l.anonymous.empty()) doors_.back().socket.let_everybody_in();
    });
  }
  for (const passed_socket& p : passed) {
    if (std::ranges::any_of(c.listeners, [&](const listener& l) { return l.systemd == p.name; })) continue;
    say("the socket \"{}\" of systemd is of no use: no listener names it", p.name);
  }
  // The admin's socket stays open during a drain, so that the admin can show the progress of the drain. If
  // `reuses_port` is true, the admin's socket closes when the drain begins, because the process that replaces this one
  // may already listen at the same address.
  if (c.admin)
    open_door("admin.listen", [&] {
      doors_.push_back({std::nullopt, listening_socket::open(c.admin->listen, reuses_port), reuses_port});
    });
  for (const door& d : doors_) {
    if (const auto place = place_of(d.socket)) service_.add_own_place(*place);
  }
  shares_ = divide_descriptors(files);
  service_.most_files = shares_.first_reserved;
}

std::vector<std::string> listeners::addresses() const {
  std::vector<std::string> names;
  for (const door& d : doors_) names.push_back(d.socket.name());
  return names;
}

void listeners::accept() {
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
}

void listeners::accept(loop& l, door& d, std::shared_ptr<acceptor> at) {
  acceptor& a = *at;
  a.async_accept(l.io, [this, &l, &d, at = std::move(at)](const error_code& error, stream_socket socket) mutable {
    const bool is_last = !error && d.listener && socket.native_handle() + 1 >= service_.most_files;
    try {
      if (!error) take(l, d, std::move(socket));
    } catch (const std::exception& e) {
      failures_.tell(e);
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

/// Accepts connections again after a short pause. Clients that connect during the pause wait in the kernel's queue.
void listeners::accept_later(loop& l, door& d, std::shared_ptr<acceptor> at) {
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

/// Whether no file descriptor is free except those that are kept for the admin and the configuration.
bool listeners::is_short_of_files() const noexcept {
  const int next = next_descriptor();
  return next < 0 || next >= service_.most_files;
}

/// Closes a connection to the admin that has no request at the moment, so that a new connection can take its place.
/// Returns false if there is no such connection.
bool listeners::push_out_idle(loop& l) {
  const auto idle = std::ranges::find_if(l.connections, [](const connection* c) { return c->is_idle_admin(); });
  if (idle == l.connections.end()) return false;
  (*idle)->cut();
  return true;
}

void listeners::tell_of_refusal(const std::string& bound, const std::string& address) {
  refusals_.tell("connections are closed unanswered, as {}; this one is from {}", bound,
                 address.empty() ? "a unix socket" : address);
}

void listeners::take(loop& l, door& d, stream_socket socket) {
  std::string address = peer_of(socket.native_handle());
  connection_counts& count = d.listener ? service_.clients : service_.admins;
  if (d.listener && count.all() >= shares_.clients) {
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
          failures_.tell(e);
        }
      });
}

void listeners::close() {
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

void listeners::take_last() {
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

void listeners::close_all() {
  for (door& d : doors_) d.closes_early = true;
  close();
}

bool listeners::are_closed() const noexcept {
  return std::ranges::none_of(doors_, [](const door& d) { return d.closes_early && d.socket.is_open(); });
}

}  // namespace canigo::gateway
