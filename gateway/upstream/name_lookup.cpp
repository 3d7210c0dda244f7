#include "gateway/upstream/name_lookup.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace canigo::gateway {
namespace {

using tcp = net::ip::tcp;

/// One question. The caller and the thread that asks share it: either may end first.
struct question {
  question(const net::any_io_executor& e, std::string h, std::uint16_t p)
      : host{std::move(h)}, port{p}, answered{e, time_point::max()} {}

  const std::string host;
  const std::uint16_t port;
  net::steady_timer answered;           // of the caller's loop
  std::atomic<bool> is_dropped{false};  // nobody waits any longer
  bool is_done = false;
  error_code error;
  std::vector<tcp::endpoint> found;
};

// Those of callers that wait no longer are among them, until a thread comes to them.
constexpr std::size_t most_questions = 10'000;

void ask(const std::shared_ptr<question>& q, const net::any_io_executor& here) {
  if (q->is_dropped) return;
  error_code error;
  std::vector<tcp::endpoint> found;
  tcp::resolver resolver{here};
  for (const auto& r : resolver.resolve(q->host, std::to_string(q->port), tcp::resolver::numeric_service, error))
    found.push_back(r.endpoint());
  net::post(q->answered.get_executor(), [q, error, found = std::move(found)]() mutable {
    q->error = error;
    q->found = std::move(found);
    q->is_done = true;
    q->answered.cancel();
  });
}

}  // namespace

net::awaitable<std::vector<tcp::endpoint>> name_lookup::find(std::string host, std::uint16_t port, duration limit,
                                                             net::steady_timer*& waiting, error_code& error) {
  if (const auto literal = net::ip::make_address(host, error); !error) {
    std::vector<tcp::endpoint> found{{literal, port}};
    co_return found;
  }
  const net::any_io_executor loop = co_await net::this_coro::executor;
  const auto q = std::make_shared<question>(loop, std::move(host), port);
  q->answered.expires_after(limit);
  if (questions_.fetch_add(1) >= most_questions) {
    --questions_;
    error = net::error::no_buffer_space;
    co_return std::move(q->found);
  }
  net::post(pool_, [this, q] {
    try {
      ask(q, pool_.get_executor());
    } catch (...) {  // no memory: the caller's time runs out
    }
    --questions_;
  });
  waiting = &q->answered;
  co_await q->answered.async_wait(net::redirect_error(net::use_awaitable, error));
  waiting = nullptr;
  q->is_dropped = true;
  if (q->is_done) {
    error = q->error;
  } else if (!error) {
    error = errc::timed_out;
  }
  co_return std::move(q->found);
}

}  // namespace canigo::gateway
