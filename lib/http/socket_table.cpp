#include "socket_table.hpp"

#include "canigo/error.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

namespace canigo::http::detail {
namespace {

/// The completion handler of a wait for a socket event.
struct on_ready {
  using allocator_type = canigo::detail::fixed_allocator<void, socket_watch::wait_size>;
  allocator_type get_allocator() const noexcept {
    return allocator_type{what == CURL_POLL_IN ? watch->read_memory : watch->write_memory};
  }
  void operator()(std::error_code ec) const noexcept { listener->socket_fired(*watch, what, ec); }

  std::shared_ptr<socket_listener> listener;  // keeps the listener alive, and with it the table and the watch
  socket_watch* watch;
  int what;
};

}  // namespace

socket_table::~socket_table() {
  while (socket_watch* w = let_go_of_.pop()) delete w;
}

socket_watch* socket_table::find(int fd) const noexcept {
  const auto index = static_cast<std::size_t>(fd);
  return index < watches_.size() ? watches_[index].get() : nullptr;
}

std::error_code socket_table::watch(int fd, bool is_connection) noexcept {
  try {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= watches_.size()) watches_.resize(std::max(index + 1, watches_.size() * 2));
    unwatch(fd);
    watches_[index] = std::make_unique<socket_watch>(executor_, fd, is_connection);
    ports_like(watches_[index]->local_port).push(*watches_[index]);
    return {};
  } catch (const std::system_error& e) {
    return e.code();
  } catch (...) {
    return errc::not_enough_memory;
  }
}

void socket_table::reopened(int fd) noexcept {
  const socket_watch* closed = find(fd);
  if (closed == nullptr) return;
  const int wanted = closed->wanted;
  if (watch(fd, false)) return;  // if the socket can't be watched, the transfer ends at its time limit
  socket_watch& w = *find(fd);
  w.wanted = wanted;
  wait(w);
}

void socket_table::wait(socket_watch& w) noexcept {
  using descriptor = net::posix::stream_descriptor;
  for (const int what : {CURL_POLL_IN, CURL_POLL_OUT}) {
    if ((w.wanted & ~w.waiting & what) == 0) continue;
    w.waiting |= what;
    const auto event = what == CURL_POLL_IN ? descriptor::wait_read : descriptor::wait_write;
    // async_wait() never throws here, because `w` provides the memory for the handler.
    w.descriptor->async_wait(event, on_ready{listener_->share(), &w, what});
  }
}

void socket_table::stop_waiting(socket_watch& w) noexcept {
  std::error_code ignored;
  if (w.waiting != 0) w.descriptor->cancel(ignored);
}

void socket_table::unwatch(int fd) noexcept {
  if (find(fd) == nullptr) return;
  auto w = std::move(watches_[static_cast<std::size_t>(fd)]);
  ports_like(w->local_port).remove(*w);
  w->let_go();
  if (w->waiting != 0) let_go_of_.push(*w.release());
}

void socket_table::unwatch_all() noexcept {
  for (std::size_t fd = 0; fd < watches_.size(); ++fd) unwatch(static_cast<int>(fd));
}

bool socket_table::spoil_if_unclean(int local_port, bool has_more) noexcept {
  bool was_any = false;
  // Connections to several servers may have the same local port. If an idle connection to another server is also shut
  // down, that is harmless: curl opens a new one.
  for (socket_watch* w = ports_like(local_port).first(); w != nullptr; w = port_list::after(*w)) {
    if (w->local_port != local_port || !w->is_idle()) continue;
    char first = 0;
    const auto size = ::recv(w->fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
    if (!has_more && size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
    ::shutdown(w->fd, SHUT_RDWR);
    was_any = true;
  }
  return was_any;
}

bool socket_table::spoil_idle(int local_port) noexcept {
  bool was_that = false;
  for (const auto& w : watches_) {
    if (w == nullptr || !w->is_idle()) continue;
    ::shutdown(w->fd, SHUT_RDWR);
    was_that = was_that || w->local_port == local_port;
  }
  return was_that;
}

socket_watch* socket_table::paused_by(const easy_handle& h, int local_port) const noexcept {
  socket_watch* w = ports_like(local_port).first();
  while (w != nullptr && w->paused != &h) w = port_list::after(*w);
  return w;
}

socket_watch* socket_table::idle_at(int local_port) const noexcept {
  if (local_port == 0) return nullptr;  // a Unix socket has port 0, which does not identify the socket
  socket_watch* w = ports_like(local_port).first();
  while (w != nullptr && (w->local_port != local_port || !w->is_idle())) w = port_list::after(*w);
  return w;
}

bool socket_table::is_in_use(int local_port) const noexcept {
  for (const socket_watch* w = ports_like(local_port).first(); w != nullptr; w = port_list::after(*w)) {
    if (w->local_port == local_port && w->wanted != 0) return true;
  }
  return false;
}

bool socket_table::heard(socket_watch& w, int fired) noexcept {
  w.waiting &= ~fired;
  if (w.descriptor || w.waiting != 0) return true;
  let_go_of_.remove(w);
  delete &w;
  return false;
}

void socket_table::shutdown() noexcept {
  unwatch_all();
  executor_ = {};
}

}  // namespace canigo::http::detail
