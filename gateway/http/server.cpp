#include "gateway/http/server.hpp"

#include "canigo/error.hpp"

#include "gateway/http/connection.hpp"

#include <arpa/inet.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

std::vector<std::unique_ptr<loop>> make_loops(const config& c) {
  constexpr unsigned most = 4;
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1u, most);
  const std::size_t n = c.threads > 0 ? static_cast<std::size_t>(c.threads) : cores;
  std::vector<std::unique_ptr<loop>> loops;
  for (std::size_t i = 0; i < n; ++i) loops.push_back(std::make_unique<loop>(i));
  return loops;
}

[[noreturn]] void fail(const std::string& what) { throw system_error{errno, boost::system::system_category(), what}; }

struct socket_address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

socket_address address_of(const listen_address& a) {
  socket_address s;
  if (a.is_unix()) {
    auto& un = reinterpret_cast<sockaddr_un&>(s.storage);
    un.sun_family = AF_UNIX;
    if (a.path.size() >= sizeof un.sun_path) {
      errno = ENAMETOOLONG;
      fail(a.path);
    }
    std::memcpy(un.sun_path, a.path.data(), a.path.size());
    s.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + a.path.size() + 1);
    return s;
  }
  const net::ip::tcp::endpoint e{net::ip::make_address(a.host), a.port};
  std::memcpy(&s.storage, e.data(), e.size());
  s.size = static_cast<socklen_t>(e.size());
  return s;
}

/// The address of a peer without its port; empty for a unix socket.
std::string peer_of(int socket) {
  socket_address s;
  if (::getpeername(socket, s.get(), &s.size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (s.storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(s.storage).sin_addr, text.data(), text.size());
  } else if (s.storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(s.storage).sin6_addr, text.data(), text.size());
  }
  return text.data();
}

std::string name_of(int socket, const listen_address& a) {
  if (a.is_unix()) return "unix:" + a.path;
  socket_address s;
  if (::getsockname(socket, s.get(), &s.size) != 0) fail("getsockname");
  const bool is_v6 = s.storage.ss_family == AF_INET6;
  const auto port =
      is_v6 ? reinterpret_cast<sockaddr_in6&>(s.storage).sin6_port : reinterpret_cast<sockaddr_in&>(s.storage).sin_port;
  return is_v6 ? fmt::format("[{}]:{}", a.host, ntohs(port)) : fmt::format("{}:{}", a.host, ntohs(port));
}

/// Each waiter has a socket, and so has each that runs: the soft limit is often 1,024.
void raise_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

net::awaitable<void> serve(std::unique_ptr<connection> c) { co_await c->run(); }

}  // namespace

server::server(config c)
    : loops_{make_loops(c)},
      service_{std::move(c), loops_},
      acceptors_(loops_.size()),
      signals_{loops_.front()->io},
      grace_{loops_.front()->io},
      look_{loops_.front()->io} {
  raise_descriptor_limit();
  const std::shared_ptr<const generation> first = service_.current();
  const config& now = first->settings;
  for (std::size_t i = 0; i < now.listeners.size(); ++i) open(now.listeners[i].address, now.listeners[i].reuse_port, i);
  if (now.admin) open(now.admin->listen, false, std::nullopt);
}

server::~server() {
  for (const auto& d : doors_) {
    if (d->descriptor >= 0) ::close(d->descriptor);
    if (!d->path.empty()) ::unlink(d->path.c_str());
  }
}

void server::open(const listen_address& a, bool reuses_port, std::optional<std::size_t> listener) {
  auto d = std::make_unique<door>();
  d->listener = listener;
  socket_address s = address_of(a);
  const std::string where = a.is_unix() ? a.path : fmt::format("{} port {}", a.host, a.port);
  d->descriptor = ::socket(s.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (d->descriptor < 0) fail(where);
  const int on = 1;
  if (a.is_unix()) {
    // One that nobody listens on any more.
    if (const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); probe >= 0) {
      if (::connect(probe, s.get(), s.size) != 0 && errno == ECONNREFUSED) ::unlink(a.path.c_str());
      ::close(probe);
    }
  } else {
    ::setsockopt(d->descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // What is accepted takes it over.
    ::setsockopt(d->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (reuses_port) ::setsockopt(d->descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  }
  const bool is_open = ::bind(d->descriptor, s.get(), s.size) == 0 && ::listen(d->descriptor, SOMAXCONN) == 0;
  const int reason = errno;
  if (is_open && a.is_unix()) d->path = a.path;
  if (is_open) d->name = name_of(d->descriptor, a);
  doors_.push_back(std::move(d));
  errno = reason;
  if (!is_open) fail(where);
}

std::vector<std::string> server::addresses() const {
  std::vector<std::string> names;
  for (const auto& d : doors_) names.push_back(d->name);
  return names;
}

bool server::run() {
  for (const auto& l : loops_) {
    for (const auto& d : doors_) {
      const int own = ::fcntl(d->descriptor, F_DUPFD_CLOEXEC, 0);
      if (own < 0) fail("fcntl");
      socket_address s;
      ::getsockname(own, s.get(), &s.size);
      auto at = std::make_shared<acceptor>(l->io);
      at->assign({s.storage.ss_family, 0}, own);
      acceptors_[l->index].push_back(at);
      accept(*l, *d, at);
    }
  }
  ::signal(SIGPIPE, SIG_IGN);
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  wait_for_signal();
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < loops_.size(); ++i) threads.emplace_back([&io = loops_[i]->io] { io.run(); });
  loops_.front()->io.run();
  for (std::thread& t : threads) t.join();
  return !service_.has_cut;
}

void server::accept(loop& l, door& d, std::shared_ptr<acceptor> at) {
  acceptor& a = *at;
  a.async_accept(l.io, [this, &l, &d, at = std::move(at)](const error_code& error, stream_socket socket) mutable {
    if (!at->is_open()) return;
    if (!error) take(l, d, std::move(socket));
    if (error == net::error::no_descriptors || error == net::error::no_memory) {
      // It would fail again at once. The queue of the kernel keeps those who come.
      auto later = std::make_shared<net::steady_timer>(l.io, 100ms);
      later->async_wait([this, &l, &d, at = std::move(at), later](const error_code&) mutable {
        if (at->is_open()) accept(l, d, std::move(at));
      });
      return;
    }
    accept(l, d, std::move(at));
  });
}

void server::take(loop& l, door& d, stream_socket socket) {
  std::string address = peer_of(socket.native_handle());
  if (!service_.clients.enter(address)) return;  // and the socket closes
  auto c = std::make_unique<connection>(service_, l, entrance{d.listener}, std::move(socket), std::move(address));
  net::co_spawn(l.io, serve(std::move(c)), [](const std::exception_ptr& error) {
    if (!error) return;
    try {  // no memory, or a defect: this connection ends, and the others go on
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      fmt::print(stderr, "canigo-gateway: a connection ended: {}\n", e.what());
    }
  });
}

void server::wait_for_signal() {
  signals_.async_wait([this](const error_code& error, int) {
    if (error) return;
    if (service_.is_draining()) {
      finish();
      return;
    }
    wait_for_signal();
    drain();
  });
}

void server::drain() {
  service_.drain();
  // Who has connected already is taken; the others find nobody.
  for (const auto& l : loops_) {
    net::post(l->io, [this, l = l.get()] {
      for (const auto& a : acceptors_[l->index]) {
        error_code error;
        a->non_blocking(true, error);
        while (!error) {
          stream_socket s{l->io};
          a->accept(s, error);
          if (!error) take(*l, *doors_[static_cast<std::size_t>(&a - acceptors_[l->index].data())], std::move(s));
        }
        a->close(error);
      }
      for (connection* c : std::vector<connection*>{l->connections.begin(), l->connections.end()}) c->drain();
    });
  }
  // These clients can go elsewhere at once.
  const auto now = service_.current();
  const duration grace = now->settings.grace;
  for (std::size_t i = 0; i < now->queues(); ++i) service_.end_long_waits(now->queue(i), grace);
  grace_.expires_after(grace);
  grace_.async_wait([this](const error_code& error) {
    if (!error) finish();
  });
  look_for_end();
}

/// Nobody waits or runs any longer.
void server::finish() {
  service_.stop_waiting();
  for (const auto& l : loops_) {
    net::post(l->io, [l = l.get()] {
      for (connection* c : std::vector<connection*>{l->connections.begin(), l->connections.end()}) c->cut();
    });
  }
}

void server::look_for_end() {
  look_.expires_after(20ms);
  look_.async_wait([this](const error_code&) {
    if (service_.clients.all() > 0) {
      look_for_end();
      return;
    }
    for (const auto& l : loops_) l->io.stop();
  });
}

}  // namespace canigo::gateway
