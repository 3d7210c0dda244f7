#include "multi.hpp"

#include "canigo/error.hpp"
#include "canigo/rate.hpp"

#include <chrono>
#include <cstdint>
#include <new>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace canigo::http::detail {
namespace {

bool initialised_curl() {
  const CURLcode result = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (result != CURLE_OK) throw std::system_error{static_cast<int>(result), error_category(), "curl_global_init"};
  return true;
}

CURLM* make_multi() {
  // Throws if curl can't be initialised. The static variable then stays uninitialised, so the next client tries again.
  [[maybe_unused]] static const bool once = initialised_curl();
  CURLM* m = curl_multi_init();
  if (m == nullptr) throw std::bad_alloc{};
  return m;
}

}  // namespace

multi::multi(const client_options& options, const net::any_io_executor& executor, const time_source& time,
             socket_listener& listener)
    : options_{options}, trust_{trust_of(options)}, time_{&time}, sockets_{executor, listener}, multi_{make_multi()} {
  CURLM* m = multi_.get();
  check_identity_files(options);
  const CURLcode unusable = read_certificates(m, trust_, options_);
  if (unusable == CURLE_SSL_CERTPROBLEM) {
    const bool is_apart = !options.key_file.empty();
    canigo::detail::throw_invalid(is_apart ? "client_options.key_file" : "client_options.cert_file",
                                  is_apart ? options.key_file : options.cert_file,
                                  "the key of the first certificate in cert_file, to be read with key_password");
  }
  if (unusable == CURLE_SSL_CACERT_BADFILE && !options.ca_file.empty()) {
    canigo::detail::throw_invalid("client_options.ca_file", options.ca_file, "a PEM file with certificates");
  }
  if (unusable == CURLE_SSL_CACERT_BADFILE && !options.ca_data.empty()) {
    canigo::detail::throw_invalid("client_options.ca_data", std::to_string(options.ca_data.size()) + " bytes",
                                  "certificates in PEM");
  }
  curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, &on_socket);
  curl_multi_setopt(m, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, &on_timer);
  curl_multi_setopt(m, CURLMOPT_TIMERDATA, this);
  // The client's own queue limits the running transfers. These options limit the idle connections, and the connections
  // that redirects open.
  const auto connections = static_cast<long>(options.connections);
  curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, connections);
  curl_multi_setopt(m, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
  const std::uint64_t of_each = options.connections_per_host;
  curl_multi_setopt(m, CURLMOPT_MAX_HOST_CONNECTIONS, of_each == unlimited ? 0L : static_cast<long>(of_each));
  // Creates the first handle, which checks the options. So an invalid option is reported here instead of by every
  // request.
  idle_handle();
}

void multi::close() noexcept {
  idle_handles_.clear();
  handles_.clear();
  multi_.reset();
  sockets_.unwatch_all();
  is_due_ = has_lost_socket_ = false;
  alarm_at_ = time_point::max();
}

void multi::shutdown() noexcept {
  close();
  sockets_.shutdown();
}

std::error_code multi::add(transfer& t) {
  easy_handle& h = idle_handle();
  if (const auto ec = h.begin(t)) return ec;
  if (const auto code = curl_multi_add_handle(multi_.get(), h.get()); code != CURLM_OK) {
    // curl rejects a handle only for lack of memory, so the returned error does not depend on `code`.
    h.end(CURLE_OK);
    return errc::not_enough_memory;
  }
  idle_handles_.pop_back();
  return {};
}

std::error_code multi::remove(transfer& t, CURLcode result) noexcept {
  easy_handle& h = easy_handle::of(t);
  // If the transfer ended while it was paused, curl does not report that the transfer no longer waits for the socket.
  // So this code ends the waits for the socket.
  if (socket_watch* w = sockets_.paused_by(h, h.local_port())) stop_wanting(h.get(), *w);
  curl_multi_remove_handle(multi_.get(), h.get());
  unwatched_.remove(h);
  const auto ec = h.end(result);
  if (h.is_worn()) {
    std::erase_if(handles_, [&](const auto& one) { return one.get() == &h; });
  } else {
    idle_handles_.push_back(&h);
  }
  return ec;
}

std::error_code multi::resume(transfer& t) noexcept {
  easy_handle& h = easy_handle::of(t);
  const auto ec = h.resume();
  const int port = h.local_port();
  if (!ec && port != 0 && !sockets_.is_in_use(port)) h.waits_for_nothing();
  return ec;
}

void multi::abort(transfer& t) noexcept {
  easy_handle& h = easy_handle::of(t);
  const int port = h.local_port();
  // curl keeps the HTTP/2 connection of an aborted transfer. curl tells the server about the end of the transfer only
  // when curl uses the connection again. So the connection is closed if this was its last transfer. Otherwise flush()
  // makes curl tell the server now.
  curl_easy_setopt(h.get(), CURLOPT_FORBID_REUSE, 1L);
  remove(t, CURLE_OK);
  if (port != 0 && sockets_.is_in_use(port)) flush(port);
}

void multi::flush(int local_port) noexcept {
  for (const auto& h : handles_) {
    if (h->current() == nullptr || h->local_port() != local_port) continue;
    // When a transfer is paused and resumed, curl sends a window update, and with it all bytes that wait to be written.
    curl_easy_pause(h->get(), CURLPAUSE_RECV);
    curl_easy_pause(h->get(), CURLPAUSE_CONT);
  }
}

easy_handle& multi::idle_handle() {
  if (idle_handles_.empty()) {
    // Reserves memory in the list of idle handles, so that putting this handle back can't fail.
    idle_handles_.reserve(handles_.size() + 1);
    connection_source& source = *this;
    handles_.push_back(std::make_unique<easy_handle>(options_, trust_, source, &on_close, this));
    idle_handles_.push_back(handles_.back().get());
  }
  return *idle_handles_.back();
}

std::optional<multi::outcome> multi::next_outcome() noexcept {
  if (easy_handle* h = unwatched_.pop()) return outcome{h->current(), CURLE_OK, h->unwatched};
  if (!multi_) return std::nullopt;
  int more = 0;
  // curl has only one kind of message: a transfer is done. So the kind is not checked.
  const CURLMsg* message = curl_multi_info_read(multi_.get(), &more);
  if (message == nullptr) return std::nullopt;
  return outcome{easy_handle::of(message->easy_handle)->current(), message->data.result, {}};
}

void multi::socket_news(socket_watch& w, int fired, int aborted) noexcept {
  if (!sockets_.heard(w, fired) || !w.descriptor) return;
  const int fd = w.fd;
  const int ready = fired & ~aborted & w.wanted;
  const int events =
      ((ready & CURL_POLL_IN) != 0 ? CURL_CSELECT_IN : 0) | ((ready & CURL_POLL_OUT) != 0 ? CURL_CSELECT_OUT : 0);
  // curl reads once per call. If the read almost filled the buffer, more bytes have probably arrived. Then another call
  // is cheaper than a wait for the reactor. `most_reads` limits these calls, so that other connections get their turn.
  constexpr int most_reads = 4;
  constexpr std::size_t nearly_full = easy_handle::read_size / 4 * 3;
  for (int reads = 0; reads < most_reads; ++reads) {
    taken_ = 0;
    int running = 0;
    curl_multi_socket_action(multi_.get(), fd, events, &running);
    const socket_watch* still = sockets_.find(fd);
    if (taken_ < nearly_full || still != &w || (still->wanted & CURL_POLL_IN) == 0) break;
  }
  // The socket is looked up again, because curl may have closed it and opened another one with the same descriptor.
  if (socket_watch* still = sockets_.find(fd)) sockets_.wait(*still);
}

void multi::run() noexcept {
  if (std::exchange(has_lost_socket_, false)) go_on_connecting();
  if (!std::exchange(is_due_, false)) return;
  alarm_at_ = time_point::max();
  int running = 0;
  curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
}

/// Makes curl try the next address of connecting transfers. After a connect has timed out, curl 7.87 to 8.3 closes the
/// socket without trying the next address. A pause and a resumption make curl try it. See
/// https://github.com/curl/curl/issues/11920.
void multi::go_on_connecting() noexcept {
  for (const auto& h : handles_) {
    if (!h->is_connecting()) continue;
    curl_easy_pause(h->get(), CURLPAUSE_RECV);
    curl_easy_pause(h->get(), CURLPAUSE_CONT);
  }
}

int multi::on_timer(CURLM*, long milliseconds, void* self) noexcept {
  auto& m = *static_cast<multi*>(self);
  m.is_due_ = milliseconds == 0;
  m.alarm_at_ = milliseconds > 0 ? m.time_->now() + std::chrono::milliseconds{milliseconds} : time_point::max();
  return 0;
}

curl_socket_t multi::open_socket(const curl_sockaddr& address) noexcept {
#ifdef SOCK_CLOEXEC
  const int fd = ::socket(address.family, address.socktype | SOCK_CLOEXEC, address.protocol);
#else
  const int fd = ::socket(address.family, address.socktype, address.protocol);
#endif
  static_assert(CURL_SOCKET_BAD == -1);
  // If a connect fails, curl opens a new socket for the next address. If the new socket has the same descriptor as the
  // old one, curl does not report the change. So reopened() records the change.
  if (fd >= 0) sockets_.reopened(fd);
  return fd;
}

bool multi::spoil_if_unclean(int local_port, bool has_more) noexcept {
  return sockets_.spoil_if_unclean(local_port, has_more);
}

bool multi::spoil_idle(int local_port) noexcept { return sockets_.spoil_idle(local_port); }

void multi::paused(const easy_handle& h) noexcept {
  // If curl sends, reads and pauses within one call, it never reports that it uses the socket. The socket then looks
  // idle, so it is marked as the socket of a paused transfer.
  if (socket_watch* w = sockets_.idle_at(h.local_port())) w->paused = &h;
}

int multi::on_close(void* self, curl_socket_t fd) noexcept {
  auto& m = *static_cast<multi*>(self);
  for (const auto& h : m.handles_) h->closes(fd);
  m.sockets_.unwatch(fd);
  return ::close(fd);
}

int multi::on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void*) noexcept {
  auto& m = *static_cast<multi*>(self);
  if (what != CURL_POLL_REMOVE) {
    m.want(easy, fd, what & CURL_POLL_INOUT);
  } else if (socket_watch* w = m.sockets_.find(fd)) {
    m.stop_wanting(easy, *w);
  }
  return 0;  // 0, because curl would end all transfers after any other result
}

void multi::want(CURL* easy, curl_socket_t fd, int what) noexcept {
  socket_watch* w = sockets_.find(fd);
  if (w == nullptr) {
    if (const auto ec = sockets_.watch(fd, false)) {
      easy_handle* h = easy_handle::of(easy);
      if (h == nullptr) return;
      h->unwatched = ec;
      unwatched_.push(*h);
      return;
    }
    w = sockets_.find(fd);
  }
  w->wanted = what;
  w->paused = nullptr;
  sockets_.wait(*w);
}

void multi::stop_wanting(CURL* easy, socket_watch& w) noexcept {
  w.wanted = 0;
  easy_handle* h = easy_handle::of(easy);
  if (h != nullptr) h->waits_for_nothing();
  has_lost_socket_ = has_lost_socket_ || (h != nullptr && h->is_connecting());
  w.paused = h != nullptr && h->is_paused() ? h : nullptr;
  // The client does not wait for events of an idle connection, because a wait would keep the event loop running.
  if (w.is_connection || w.paused != nullptr) {
    socket_table::stop_waiting(w);
  } else {
    watch_connection(easy, w.fd);
  }
}

/// Watches the socket of a finished transfer as an idle connection, which another transfer may use.
void multi::watch_connection(CURL* easy, curl_socket_t fd) noexcept {
  sockets_.unwatch(fd);
  curl_socket_t connection = CURL_SOCKET_BAD;
  curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &connection);
  if (connection != fd || sockets_.watch(fd, true)) return;
  long version = CURL_HTTP_VERSION_NONE;
  curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
  sockets_.find(fd)->is_http1 = version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1;
}

}  // namespace canigo::http::detail
