#include "gateway/wire/disconnect_watch.hpp"

#include "canigo/error.hpp"

#include <cerrno>
#include <sys/epoll.h>

namespace canigo::gateway {

disconnect_watch::disconnect_watch(net::io_context& loop) : watched_(loop) {
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) throw system_error{errno, std::system_category(), "epoll_create1"};
  watched_.assign(descriptor);
  wait();
}

void disconnect_watch::wait() {
  watched_.async_wait(net::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error) return;
    look();
    wait();
  });
}

void disconnect_watch::look() {
  // Each call takes only one event: the listener that gets the event may destroy the entry to which a second event
  // would belong.
  epoll_event event{};
  while (::epoll_wait(watched_.native_handle(), &event, 1, 0) == 1) {
    auto& e = *static_cast<entry*>(event.data.ptr);
    e.has_left_ = true;
    if (e.whom_ != nullptr) e.whom_->peer_left();
  }
}

disconnect_watch::entry::entry(disconnect_watch& home, int socket) : home_(home), socket_(socket) {
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  event.data.ptr = this;
  if (::epoll_ctl(home_.watched_.native_handle(), EPOLL_CTL_ADD, socket_, &event) != 0) {
    throw system_error{errno, std::system_category(), "epoll_ctl"};
  }
}

void disconnect_watch::entry::tell(listener& whom) noexcept {
  whom_ = &whom;
  if (has_left_) whom.peer_left();
}

disconnect_watch::entry::~entry() {
  // If the socket is already closed, the kernel no longer watches it, and this call has no effect.
  ::epoll_ctl(home_.watched_.native_handle(), EPOLL_CTL_DEL, socket_, nullptr);
}

}  // namespace canigo::gateway
