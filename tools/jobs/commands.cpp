#include "commands.hpp"

#include <canigo/timeout.hpp>

#include "report.hpp"
#include "tools/shared/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <ratio>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace {

using namespace canigo;
using jobs::job_state;
using tools::printable;

net::awaitable<bool> list(jobs::store& store, const options& o) {
  if (!o.as_json) print_head_of_list();
  jobs::list_request r{.queue = o.queue, .state = o.state, .batch = o.batch, .after = o.after};
  for (std::size_t left = o.limit; left > 0;) {
    r.limit = std::min<std::size_t>(left, 1000);
    const auto found = co_await store.list(r);
    if (found.empty()) break;
    for (const jobs::job_info& j : found) print(j, o.as_json, false);
    left -= found.size();
    r.after = found.back().id;
  }
  co_return true;
}

/// Formats the number of jobs in a state. A store counts only up to a maximum; a greater number is shown as "100000+".
std::string count_text(const jobs::queue_count& q, job_state s) {
  return fmt::format("{}{}", q.of(s), q.has_more[static_cast<std::size_t>(s)] ? "+" : "");
}

net::awaitable<bool> stats(jobs::store& store, const options& o) {
  const auto queues = co_await store.count();
  if (!o.as_json) {
    fmt::print("{:16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "queue", "waiting", "running", "done", "dead",
               "cancelled", "oldest");
  }
  for (const jobs::queue_count& q : queues) {
    if (o.as_json) {
      print_as_json(q);
      continue;
    }
    const auto of = [&q](job_state s) { return count_text(q, s); };
    fmt::print("{:16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8.1f}s{}\n", printable(q.queue), of(job_state::waiting),
               of(job_state::running), of(job_state::done), of(job_state::dead), of(job_state::cancelled),
               std::chrono::duration<double>(q.oldest).count(), q.is_paused ? " paused" : "");
  }
  const std::string engine = store.facts().engine;
  if (!o.as_json && !engine.empty()) fmt::print("{}\n", engine);
  co_return true;
}

/// Prints the numbers of jobs in each queue repeatedly, with their changes since the last time.
net::awaitable<bool> top(jobs::store& store, const options& o) {
  std::map<std::string, jobs::queue_count> before;
  auto seen_at = std::chrono::steady_clock::now();
  for (std::size_t round = 0; round < o.rounds; ++round) {
    if (round > 0) co_await sleep_for(std::chrono::round<duration>(std::chrono::duration<double>(o.every)));
    const auto queues = co_await store.count();
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(seen_at, now)).count();
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\033[H\033[2J");
    fmt::print("{:16} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}\n", "queue", "waiting", "running", "dead", "oldest",
               "done/s", "dead/s");
    for (const jobs::queue_count& q : queues) {
      const auto last = before.find(q.queue);
      const auto rate = [&](job_state s) -> std::string {
        const auto i = static_cast<std::size_t>(s);
        if (last == before.end() || q.has_more[i] || last->second.has_more[i]) return "-";
        // The change is computed with a sign, because it is negative if ended jobs were removed since the last time.
        const double change = static_cast<double>(q.of(s)) - static_cast<double>(last->second.of(s));
        return fmt::format("{:.1f}", change / seconds);
      };
      fmt::print("{:16} {:>10} {:>10} {:>10} {:>9.1f}s {:>9} {:>9}{}\n", printable(q.queue),
                 count_text(q, job_state::waiting), count_text(q, job_state::running), count_text(q, job_state::dead),
                 std::chrono::duration<double>(q.oldest).count(), rate(job_state::done), rate(job_state::dead),
                 q.is_paused ? " paused" : "");
    }
    std::fflush(stdout);
    before.clear();
    for (const jobs::queue_count& q : queues) before.emplace(q.queue, q);
  }
  co_return true;
}

net::awaitable<bool> show(jobs::store& store, const options& o) {
  bool all_known = true;
  for (const jobs::job_id id : o.ids) {
    const auto j = co_await store.look(id);
    if (j) {
      print(*j, o.as_json, true);
    } else {
      fmt::print(stderr, "canigo-jobs: there is no job {}\n", id);
      all_known = false;
    }
  }
  co_return all_known;
}

net::awaitable<bool> retry(jobs::store& store, const options& o) {
  bool all = true;
  for (const jobs::job_id id : o.ids) {
    const auto answer = co_await store.requeue(id);
    using type = jobs::requeue_answer::type;
    const std::string holder = fmt::format("was left: job {} has its key", answer.holder);
    all &= answer.what == type::requeued  ? told(id, "will run again", true)
           : answer.what == type::unended ? told(id, "was left: it has not ended", false)
           : answer.what == type::unknown ? told(id, "is unknown", false)
                                          : told(id, holder, false);
  }
  co_return all;
}

net::awaitable<bool> cancel(jobs::store& store, const options& o) {
  bool all = true;
  for (const jobs::job_id id : o.ids) {
    const auto answer = co_await store.cancel(id);
    using enum jobs::cancel_answer;
    all &= answer == cancelled ? told(id, "is cancelled", true)
           : answer == marked  ? told(id, "runs, and its process is told", true)
           : answer == ended   ? told(id, "was left: it has ended", false)
                               : told(id, "is unknown", false);
  }
  co_return all;
}

net::awaitable<bool> remove(jobs::store& store, const options& o) {
  bool all = true;
  for (const jobs::job_id id : o.ids) {
    const auto answer = co_await store.remove(id);
    using enum jobs::remove_answer;
    all &= answer == removed   ? told(id, "is forgotten", true)
           : answer == running ? told(id, "was left: it runs", false)
                               : told(id, "is unknown", false);
  }
  co_return all;
}

net::awaitable<bool> has_queue(jobs::store& store, const options& o, std::string_view advice) {
  const auto queues = co_await store.count();
  const bool is_known = std::ranges::find(queues, o.queue, &jobs::queue_count::queue) != queues.end();
  if (!is_known) fmt::print(stderr, "canigo-jobs: there is no queue \"{}\"{}\n", printable(o.queue), advice);
  co_return is_known;
}

net::awaitable<bool> trim(jobs::store& store, const options& o) {
  const bool is_known = co_await has_queue(store, o, "");
  if (!is_known) co_return false;
  jobs::trim_request r{.queue = o.queue, .keep = o.keep.value_or(SIZE_MAX)};
  if (o.days) r.older_than = std::chrono::round<duration>(std::chrono::duration<double, std::ratio<86400>>(*o.days));
  std::size_t forgotten = 0;
  for (;;) {
    const std::size_t some = co_await store.trim(r);
    if (some == 0) break;
    forgotten += some;
  }
  fmt::print("jobs of queue {} forgotten: {}\n", printable(o.queue), forgotten);
  co_return true;
}

/// Pauses or resumes a queue. The queue's name may be mistyped, and a store creates each queue that it does not know.
/// So an unknown queue is an error unless --create is given.
net::awaitable<bool> pause_or_resume(jobs::store& store, const options& o) {
  bool is_known = o.makes_queue;
  if (!is_known) is_known = co_await has_queue(store, o, "; --create makes it");
  if (!is_known) co_return false;
  const bool pauses = o.command == "pause";
  if (pauses) {
    co_await store.pause(o.queue);
  } else {
    co_await store.resume(o.queue);
  }
  fmt::print("queue {} {}\n", printable(o.queue), pauses ? "is paused" : "goes on");
  co_return true;
}

}  // namespace

canigo::net::awaitable<bool> carry_out(canigo::jobs::store& store, const options& o) {
  using command = net::awaitable<bool> (*)(jobs::store&, const options&);
  const std::map<std::string_view, command> commands = {{"stats", stats},
                                                        {"top", top},
                                                        {"list", list},
                                                        {"show", show},
                                                        {"retry", retry},
                                                        {"cancel", cancel},
                                                        {"remove", remove},
                                                        {"move", move},
                                                        {"pause", pause_or_resume},
                                                        {"resume", pause_or_resume},
                                                        {"trim", trim}};
  return commands.at(o.command)(store, o);
}
