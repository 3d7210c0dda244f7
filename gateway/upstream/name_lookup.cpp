#include "gateway/upstream/name_lookup.hpp"

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace canigo::gateway {
namespace {

using tcp = net::ip::tcp;

constexpr std::size_t most_waiting_callers = 10'000;

std::string_view zone_of(std::string_view host) {
  const auto last = host.rfind('.');
  if (last == host.npos || last == 0) return host;
  const auto before = host.rfind('.', last - 1);
  return before == host.npos ? host : host.substr(before + 1);
}

std::vector<net::ip::address> ask_system(const std::string& host, const net::any_io_executor& here, error_code& error) {
  std::vector<net::ip::address> found;
  tcp::resolver resolver{here};
  for (const auto& r : resolver.resolve(host, "0", tcp::resolver::numeric_service, error))
    found.push_back(r.endpoint().address());
  return found;
}

}  // namespace

/// The question of one caller for the addresses of a name. The caller and the thread that answers share this object,
/// because either of them may end first.
struct name_lookup::question {
  explicit question(const net::any_io_executor& loop) : answered{loop, time_point::max()} {}

  net::steady_timer answered;  // belongs to the caller's loop; is cancelled when the answer has come
  bool is_done = false;
  error_code error;
  std::vector<net::ip::address> found;
};

/// One name to resolve, with the questions of all callers that wait for it.
struct name_lookup::look_up {
  const std::string host;
  questions from;
};

name_lookup::name_lookup(std::size_t threads)
    : most_of_a_zone_{std::max<std::size_t>(threads / 2, 1)}, keeps_on_{work_.get_executor()} {
  // The threads are started here instead of by thread_pool: if thread_pool of Boost.Asio 1.81 can't start a thread, it
  // waits for ever for the threads that it has already started.
  try {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work_.run(); });
  } catch (...) {
    end_threads();
    throw;
  }
}

name_lookup::~name_lookup() { end_threads(); }

void name_lookup::end_threads() noexcept {
  work_.stop();
  for (std::thread& t : threads_) t.join();
}

net::awaitable<std::vector<tcp::endpoint>> name_lookup::find(std::string host, std::uint16_t port, duration limit,
                                                             net::steady_timer*& waiting, error_code& error) {
  std::vector<tcp::endpoint> found;
  if (const auto literal = net::ip::make_address(host, error); !error) {
    found.emplace_back(literal, port);
    co_return found;
  }
  const net::any_io_executor loop = co_await net::this_coro::executor;
  const auto q = std::make_shared<question>(loop);
  q->answered.expires_after(limit);
  if (!enter(host, q)) {
    error = net::error::no_buffer_space;
    co_return found;
  }
  waiting = &q->answered;
  co_await q->answered.async_wait(net::redirect_error(net::use_awaitable, error));
  waiting = nullptr;
  if (!q->is_done) {
    leave(host, q);
    if (!error) error = errc::timed_out;
    co_return found;
  }
  error = q->error;
  for (const net::ip::address& a : q->found) found.emplace_back(a, port);
  co_return found;
}

/// Adds a question for a host's addresses. Returns false if too many callers already wait.
bool name_lookup::enter(const std::string& host, const std::shared_ptr<question>& q) {
  const std::lock_guard lock{mutex_};
  if (waiting_ >= most_waiting_callers) return false;
  if (const auto same = by_host_.find(host); same != by_host_.end()) {
    same->second->from.push_back(q);
    ++waiting_;
    return true;
  }
  const std::string name{zone_of(host)};
  zone& z = zones_[name];
  if (z.threads < most_of_a_zone_) {
    net::post(work_, [this, name] { work(name); });
    ++z.threads;
  }
  // If this allocation fails, the work that was posted above finds no look-up and does nothing.
  const auto l = std::make_shared<look_up>(host, questions{q});
  z.waiting.push_back(l);
  try {
    by_host_.emplace(host, l);
  } catch (...) {
    z.waiting.pop_back();
    throw;
  }
  ++waiting_;
  return true;
}

/// Removes the question of a caller that stops waiting. If no other caller waits for the name, and no thread has begun
/// the look-up, drops the look-up.
void name_lookup::leave(const std::string& host, const std::shared_ptr<question>& q) {
  const std::lock_guard lock{mutex_};
  const auto found = by_host_.find(host);
  // If the question is not found, a thread has already taken it, and will answer it.
  if (found == by_host_.end() || std::erase(found->second->from, q) == 0) return;
  --waiting_;
  if (!found->second->from.empty()) return;
  if (zones_.find(zone_of(host))->second.waiting.remove(found->second) > 0) by_host_.erase(found);
}

/// Returns the next look-up of the zone. If there is none, returns null, and subtracts 1 from the number of threads
/// that work for the zone.
std::shared_ptr<name_lookup::look_up> name_lookup::next_of(std::string_view zone_name) {
  const std::lock_guard lock{mutex_};
  const auto found = zones_.find(zone_name);
  zone& z = found->second;
  if (z.waiting.empty()) {
    if (--z.threads == 0) zones_.erase(found);
    return nullptr;
  }
  auto l = std::move(z.waiting.front());
  z.waiting.pop_front();
  return l;
}

/// Ends a look-up: removes it, and returns the questions that wait for its answer.
name_lookup::questions name_lookup::end(const look_up& l) {
  const std::lock_guard lock{mutex_};
  const auto found = by_host_.find(l.host);
  questions from = std::move(found->second->from);
  by_host_.erase(found);
  waiting_ -= from.size();
  return from;
}

/// Resolves the next name of the zone, if there is one. Then posts itself again for further names of this zone, so that
/// names of other zones come first.
void name_lookup::work(const std::string& zone_name) {
  while (const auto l = next_of(zone_name)) {
    error_code error;
    std::vector<net::ip::address> found;
    try {
      found = ask_system(l->host, work_.get_executor(), error);
    } catch (...) {
      error = net::error::no_memory;
    }
    for (const auto& q : end(*l)) {
      try {
        net::post(q->answered.get_executor(), [q, error, found]() mutable {
          q->error = error;
          q->found = std::move(found);
          q->is_done = true;
          q->answered.cancel();
        });
      } catch (...) {  // no memory for the answer: the caller's time limit ends its wait
      }
    }
    try {
      net::post(work_, [this, zone_name] { work(zone_name); });
      return;
    } catch (...) {  // no memory to queue the work again: this thread continues with the zone immediately
    }
  }
}

}  // namespace canigo::gateway
