#include "canigo/thread_pool.hpp"

#include "canigo/error.hpp"

#include <algorithm>

namespace canigo {

namespace {

constexpr std::size_t most_threads = 1024;

}  // namespace

thread_pool::thread_pool()
    : thread_pool{std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most_threads)} {}

thread_pool::thread_pool(std::size_t threads) : guard_{io_.get_executor()} {
  if (threads < 1 || threads > most_threads) detail::throw_invalid("thread_pool.threads", threads, "1 to 1024");
  threads_.reserve(threads);
  try {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this]() noexcept { io_.run(); });
    }
  } catch (...) {
    stop();
    join();
    throw;
  }
}

thread_pool::~thread_pool() {
  stop();
  join();
}

void thread_pool::join() {
  guard_.reset();
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
}

}  // namespace canigo
