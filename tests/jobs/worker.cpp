// A process of tests/jobs/chaos.py: it hands jobs in and runs those of all processes until it is killed.
//
//     worker PLACE JOBS FIRST [--no-fencing] [--batches] [--tell-trouble]
//
// PLACE is a file, or a URL, as open_store() of this program wants it.
//
// JOBS are handed in, with keys FIRST, FIRST+1 and so on, unless they are there. It ends by itself once no job waits
// or runs. Each line that it prints is one write, so that a kill loses no line that was told:
//
//     put KEY ID          the store has acknowledged the job
//     begun ID TOKEN      a handler was called
//     accepted ID TOKEN   the store has accepted the result of that handler
//     trouble TEXT        at the end: what is wrong with the store, with --tell-trouble
//
// With --batches each third job waits for the two before it.

#include "worker.hpp"

#include "canigo/jobs/error.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/timeout.hpp"

#include "worlds.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

void tell(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(STDOUT_FILENO, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) std::abort();
}

std::string text_of(jobs::lease l) { return std::to_string(l.id) + " " + std::to_string(l.token); }

/// Tells which results were accepted. Without fencing the job's last token is as good as the caller's.
class telling_store : public store_around {
 public:
  telling_store(jobs::store& s, bool has_fencing) : store_around{s}, has_fencing_{has_fencing} {}

  awaitable<jobs::verdict> complete(jobs::lease l, std::string result) override {
    jobs::lease used = l;
    if (!has_fencing_) {
      if (const auto info = co_await inner.look(l.id)) used.token = info->token;
    }
    const auto v = co_await inner.complete(used, std::move(result));
    if (v == jobs::verdict::accepted) tell("accepted " + text_of(l));
    co_return v;
  }
  awaitable<jobs::extension> extend(jobs::lease l, duration d, std::optional<std::string> progress) override {
    if (!has_fencing_) {
      if (const auto info = co_await inner.look(l.id)) l.token = info->token;
    }
    co_return co_await inner.extend(l, d, std::move(progress));
  }

 private:
  bool has_fencing_;
};

/// Calls until the store answers: a server may be gone for long.
template <class Call>
auto surely(Call call) -> decltype(call()) {
  for (;;) {
    try {
      co_return co_await call();
    } catch (const std::system_error& e) {
      const auto c = e.code();
      if (c != jobs::error::unknown_outcome && c != jobs::error::cannot_open && c != jobs::error::locked) throw;
    }
    co_await sleep_for(10ms);
  }
}

net::awaitable<void> hand_in(jobs::store& store, long count, long first, bool has_batches) {
  for (long key = first; key < first + count; ++key) {
    const std::string name = std::to_string(key);
    const std::string batch = has_batches ? std::to_string(key / 3) : "";
    // The key is for ever, so a job that was handed in before the last kill is not handed in again.
    const jobs::new_job j{.kind = "work",
                          .payload = name,
                          .priority = static_cast<int>(key % 3),
                          .unique_key = name,
                          .scope = jobs::unique_scope::for_a_time,
                          .unique_for = std::chrono::hours{24},
                          .batch = key % 3 < 2 ? batch : "",
                          .after_batch = key % 3 < 2 ? "" : batch};
    // With the key it may be handed in again if it is not known whether it was taken.
    const auto answer = co_await surely([&] { return store.put(j); });
    tell("put " + name + " " + std::to_string(answer.id));
    // Fewer than can be run: a job that was lost is begun again soon, and not after all others.
    if (answer.is_new) co_await sleep_for(40ms);
  }
}

bool is_empty(const std::vector<jobs::queue_count>& queues) {
  for (const auto& q : queues) {
    if (q.of(jobs::job_state::waiting) + q.of(jobs::job_state::running) > 0) return false;
  }
  return true;
}

net::awaitable<void> run(jobs::service& service, jobs::store& store, long count, long first,
                         std::set<std::string_view> options) {
  co_await hand_in(store, count, first, options.contains("--batches"));
  for (;;) {
    const auto queues = co_await surely([&] { return store.count(); });
    if (is_empty(queues)) break;
    co_await sleep_for(50ms);
  }
  if (options.contains("--tell-trouble")) tell("trouble " + service.stats().last_error);
  co_await service.stop();
  store.stop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: worker PLACE JOBS FIRST [--no-fencing] [--batches] [--tell-trouble]\n";
    return 2;
  }
  const std::set<std::string_view> options(argv + 4, argv + argc);
  const bool has_fencing = !options.contains("--no-fencing");
  net::io_context io;
  const auto opened = open_store(io, argv[1], {.most_crashes = 1'000'000, .after_crash = backoff::constant(1ms)});
  telling_store store{*opened, has_fencing};
  jobs::service_options so{.lease = 300ms, .waits_for_store = true};
  so.queues.push_back({.concurrency = 4, .keep_ended = duration::max()});
  jobs::service service{io, store, so};
  service.handle("work", [](jobs::job& j) -> net::awaitable<std::string> {
    tell("begun " + text_of(j.lease()));
    // Some take longer than a lease.
    co_await sleep_for(j.id() % 4 == 0 ? 400ms : 20ms);
    co_return std::to_string(j.lease().token);
  });
  service.start();
  int status = 0;
  auto work = run(service, store, std::atol(argv[2]), std::atol(argv[3]), options);
  net::co_spawn(io, std::move(work), [&](std::exception_ptr e) {
    try {
      if (e) std::rethrow_exception(e);
    } catch (const std::exception& x) {
      std::cerr << "worker: " << x.what() << '\n';
      status = 1;
      io.stop();
    }
  });
  io.run();
  return status;
}
