// Measures the cost of a metered_stream whose limit does not bind: a write (B28) and a read (B28r) of 1 KiB through a
// local socket, and a write of 16 KiB (B28k). Also measures how exactly it keeps a rate: one stream (B29-1), eight
// streams that share a limit (B29-8), and two of the eight (B29-2of8). The peer is Beast's basic_stream with a
// simple_rate_policy, on Boost.Asio.

// Without it, Boost.Asio 1.92 defines global names such as `asio_require_fn` that Asio defines, too.
#define BOOST_ASIO_VERSION_NAMESPACE of_boost

#include "canigo/metered_stream.hpp"
#include "canigo/scheduler.hpp"

#include "loops.hpp"

#include <asio/local/stream_protocol.hpp>
#include <asio/use_awaitable.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/rate_policy.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace net = canigo::net;
namespace beast = boost::beast;
using namespace std::chrono_literals;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 50'000;
constexpr std::size_t chunk = 16'384;
// Bytes per second; a scheduler has this many tokens at the start instead.
constexpr std::size_t plenty = std::size_t{1} << 42;
constexpr std::size_t bytes_per_second = 4'000'000;

int checked(int result) {
  if (result < 0) throw std::system_error{errno, std::system_category()};
  return result;
}

/// A pair of local sockets: one end for a stream, and one end for direct system calls.
class connection {
 public:
  connection() {
    std::array<int, 2> ends{};
    checked(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()));
    near_ = ends[0];
    far_ = ends[1];
  }
  ~connection() {
    if (near_ >= 0) ::close(near_);
    ::close(far_);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Returns the end for a stream. The stream closes it.
  int near_end() noexcept { return std::exchange(near_, -1); }
  int far_end() const noexcept { return far_; }

  void take(std::size_t n) const {
    std::array<char, chunk> room{};
    while (n > 0) {
      n -= static_cast<std::size_t>(checked(static_cast<int>(::read(far_, room.data(), std::min(n, room.size())))));
    }
  }
  void give(const std::vector<char>& bytes) const {
    checked(static_cast<int>(::write(far_, bytes.data(), bytes.size())));
  }

 private:
  int near_ = -1;
  int far_ = -1;
};

/// Standalone Asio for canigo, and Boost.Asio for Beast.
struct asio_world {
  using context = net::io_context;
  using socket = net::local::stream_protocol::socket;
  using work = net::awaitable<void>;
  static socket make(context& io, int fd) { return {io, net::local::stream_protocol{}, fd}; }
  static auto from(const std::vector<char>& v) { return net::buffer(v); }
  static auto into(std::vector<char>& v) { return net::buffer(v); }
  static constexpr const net::use_awaitable_t<>& token = net::use_awaitable;
  static void spawn(context& io, work w) { net::co_spawn(io, std::move(w), net::detached); }
};
struct boost_world {
  using context = boost::asio::io_context;
  using socket = boost::asio::local::stream_protocol::socket;
  using work = boost::asio::awaitable<void>;
  static socket make(context& io, int fd) { return {io, boost::asio::local::stream_protocol{}, fd}; }
  static auto from(const std::vector<char>& v) { return boost::asio::buffer(v); }
  static auto into(std::vector<char>& v) { return boost::asio::buffer(v); }
  static constexpr const boost::asio::use_awaitable_t<>& token = boost::asio::use_awaitable;
  static void spawn(context& io, work w) { boost::asio::co_spawn(io, std::move(w), boost::asio::detached); }
};

/// The streams of a contestant. All of them may use `rate` bytes a second.
struct metered : asio_world {
  using stream = canigo::metered_stream<socket>;
  metered(context& io, std::size_t rate, int)
      : io_{io},
        limit_{io,
               {.rate = canigo::rate::per_second(static_cast<std::int64_t>(std::min(rate, std::size_t{1'000'000'000}))),
                .burst = rate == plenty ? plenty : 4 * chunk,
                .initial_tokens = rate == plenty ? plenty : 0}} {}
  std::unique_ptr<stream> open(int fd) {
    return std::make_unique<stream>(
        make(io_, fd), canigo::metered_stream_options{.read = {&limit_}, .write = {&limit_}, .chunk = chunk});
  }

 private:
  context& io_;
  canigo::scheduler limit_;
};
struct by_beast : boost_world {
  using stream =
      beast::basic_stream<boost::asio::local::stream_protocol, boost::asio::any_io_executor, beast::simple_rate_policy>;
  by_beast(context& io, std::size_t rate, int streams) : io_{io}, each_{rate / static_cast<std::size_t>(streams)} {}
  std::unique_ptr<stream> open(int fd) {
    auto s = std::make_unique<stream>(make(io_, fd));
    s->rate_policy().read_limit(each_);
    s->rate_policy().write_limit(each_);
    return s;
  }

 private:
  context& io_;
  std::size_t each_;
};
template <class World>
struct bare : World {
  using stream = typename World::socket;
  bare(typename World::context& io, std::size_t, int) : io_{io} {}
  std::unique_ptr<stream> open(int fd) { return std::make_unique<stream>(World::make(io_, fd)); }

 private:
  typename World::context& io_;
};

// The cost of a metered_stream whose limit does not bind.

template <class C>
typename C::work write_each(typename C::stream& s, const connection& c, const std::vector<char>& bytes) {
  for (auto i = many; i > 0; --i) c.take(co_await s.async_write_some(C::from(bytes), C::token));
}
template <class C>
typename C::work read_each(typename C::stream& s, const connection& c, std::vector<char>& bytes) {
  for (auto i = many; i > 0; --i) {
    c.give(bytes);
    for (std::size_t n = 0; n < bytes.size();) n += co_await s.async_read_some(C::into(bytes), C::token);
  }
}

template <class C>
bench::sample moved(std::size_t bytes, bool writes) {
  typename C::context io{1};
  connection c;
  C kind{io, plenty, 1};
  const auto s = kind.open(c.near_end());
  std::vector<char> data(bytes);
  C::spawn(io, writes ? write_each<C>(*s, c, data) : read_each<C>(*s, c, data));
  return bench::measure(many, [&] { io.run(); });
}

void cost(const char* id, const char* work, std::size_t bytes, bool writes) {
  const auto by = [=]<class C>(std::type_identity<C>) { return [=] { return moved<C>(bytes, writes); }; };
  bench::match{id, work}
      .add("metered_stream", by(std::type_identity<metered>{}))
      .add("C++: Beast, simple_rate_policy", by(std::type_identity<by_beast>{}))
      .add("bare Asio: a socket", by(std::type_identity<bare<asio_world>>{}))
      .add("bare Boost.Asio: a socket", by(std::type_identity<bare<boost_world>>{}))
      .run(repetitions);
}

// How exactly a metered_stream keeps a rate.

/// Reads all bytes that arrive, on its own thread.
class drain {
 public:
  explicit drain(const std::vector<std::unique_ptr<connection>>& all) {
    for (const auto& c : all) ends_.push_back({.fd = c->far_end(), .events = POLLIN, .revents = 0});
    thread_ = std::thread{[this] { run(); }};
  }
  ~drain() {
    done_ = true;
    thread_.join();
  }
  drain(const drain&) = delete;
  drain& operator=(const drain&) = delete;

 private:
  void run() {
    std::vector<char> room(1 << 20);
    while (!done_) {
      if (::poll(ends_.data(), ends_.size(), 10) <= 0) continue;
      for (pollfd& p : ends_) {
        // The sender has closed its end.
        if (p.revents != 0 && ::recv(p.fd, room.data(), room.size(), MSG_DONTWAIT) == 0) p.fd = -1;
      }
    }
  }

  std::vector<pollfd> ends_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

using clock_point = std::chrono::steady_clock::time_point;
struct written {
  clock_point at;
  std::size_t bytes;
};

template <class C>
typename C::work write_on(typename C::stream& s, const std::vector<char>& bytes, std::vector<written>& log) {
  for (;;) {
    const std::size_t n = co_await s.async_write_some(C::from(bytes), C::token);
    log.push_back({std::chrono::steady_clock::now(), n});
  }
}

/// Returns the max number of bytes written in any 100 ms after `begin`, as a multiple of the rate's bytes in that time.
double peak(const std::vector<written>& log, clock_point begin) {
  constexpr auto window = 100ms;
  std::size_t most = 0, sum = 0;
  auto first = log.begin();
  for (const written& w : log) {
    if (w.at < begin) {
      ++first;
      continue;
    }
    sum += w.bytes;
    for (; w.at - first->at >= window; ++first) sum -= first->bytes;
    most = std::max(most, sum);
  }
  return static_cast<double>(most) / (bytes_per_second * std::chrono::duration<double>{window}.count());
}

/// Measures three seconds in which `active` of `streams` streams write all the time. Half a second before that is not
/// measured.
template <class C>
bench::sample kept(int streams, int active) {
  typename C::context io{1};
  C kind{io, bytes_per_second, streams};
  std::vector<std::unique_ptr<connection>> connections;
  std::vector<std::unique_ptr<typename C::stream>> all;
  for (int i = 0; i < streams; ++i) {
    connections.push_back(std::make_unique<connection>());
    all.push_back(kind.open(connections.back()->near_end()));
  }
  const drain reader{connections};
  const std::vector<char> data(chunk);
  std::vector<written> log;
  log.reserve(1 << 16);
  for (int i = 0; i < active; ++i) C::spawn(io, write_on<C>(*all[static_cast<std::size_t>(i)], data, log));
  io.run_for(500ms);
  const auto begin = std::chrono::steady_clock::now();
  const auto busy_before = bench::cpu_time();
  io.run_for(3s);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double> busy = bench::cpu_time() - busy_before;
  double bytes = 0;
  for (const written& w : log) bytes += w.at >= begin ? static_cast<double>(w.bytes) : 0;
  return {.ns_per_operation = spent.count() * 1e9 / (bytes / 1024),
          .share_of_rate = bytes / (bytes_per_second * spent.count()),
          .cpu = busy.count() / spent.count(),
          .peak = peak(log, begin)};
}

void exactness(const char* id, const char* work, int streams, int active) {
  bench::match{id, work}
      .add("metered_stream", [=] { return kept<metered>(streams, active); })
      .add("C++: Beast, simple_rate_policy", [=] { return kept<by_beast>(streams, active); })
      .without_warm_up()
      .run(1);
}

}  // namespace

int main() {
  cost("B28", "a stream whose limit does not bind: a write of 1 KiB", 1024, true);
  cost("B28r", "the same: a read of 1 KiB", 1024, false);
  cost("B28k", "the same: a write of 16 KiB", chunk, true);
  exactness("B29-1", "4 MB a second: one stream", 1, 1);
  exactness("B29-8", "4 MB a second: eight streams", 8, 8);
  exactness("B29-2of8", "4 MB a second: two of eight streams", 8, 2);
}
