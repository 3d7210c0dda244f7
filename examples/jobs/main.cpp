// canigo-jobs PLACE COMMAND: looks at the jobs in a file of SQLite or in PostgreSQL, and changes what becomes of them.
// docs/jobs.md
#include <canigo/jobs/sqlite_store.hpp>
#include <canigo/timeout.hpp>

#include "postgres.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace canigo;
using jobs::job_state;

struct options {
  std::string place;
  bool as_json = false;
  std::vector<jobs::job_id> ids = {};
  std::string queue = {};
  std::string state = {};
  jobs::job_id after = 0;
  std::size_t limit = 100;
  std::string to_queue = {};
  std::string to_place = {};
  double every = 2;
  std::size_t rounds = SIZE_MAX;
};

const std::map<std::string, job_state> states = {{"waiting", job_state::waiting},
                                                 {"running", job_state::running},
                                                 {"done", job_state::done},
                                                 {"dead", job_state::dead},
                                                 {"cancelled", job_state::cancelled}};

std::string text_of(jobs::instant t) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// A string of JSON. Bytes beyond ASCII are given by their number, so any bytes can be shown.
std::string json_text(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text.append("\\").push_back(c);
    } else if (byte < ' ' || byte >= 0x7f) {
      text += fmt::format("\\u{:04x}", byte);
    } else {
      text.push_back(c);
    }
  }
  return text + '"';
}

/// What a terminal can show.
std::string printable(std::string_view bytes) {
  const std::string text = json_text(bytes);
  return text.substr(1, text.size() - 2);
}

/// The fields of a job, in their order: name, value, and whether the value is a text.
struct field {
  const char* name;
  std::string value;
  bool is_text;
};

std::vector<field> fields_of(const jobs::job_info& j, bool is_whole) {
  std::vector<field> list = {{"id", std::to_string(j.id), false},
                             {"state", std::string{to_string(j.state)}, true},
                             {"queue", j.queue, true},
                             {"kind", j.kind, true},
                             {"priority", std::to_string(j.priority), false},
                             {"attempt", std::to_string(j.attempt), false},
                             {"max_attempts", std::to_string(j.max_attempts), false},
                             {"crashes", std::to_string(j.crashes), false},
                             {"snoozes", std::to_string(j.snoozes), false},
                             {"created_at", text_of(j.created_at), true},
                             {"run_at", text_of(j.run_at), true}};
  if (j.lease_until) list.push_back({"lease_until", text_of(*j.lease_until), true});
  if (j.deadline) list.push_back({"deadline", text_of(*j.deadline), true});
  if (j.cancel_at) list.push_back({"cancel_at", text_of(*j.cancel_at), true});
  if (j.finished_at) list.push_back({"finished_at", text_of(*j.finished_at), true});
  if (!j.unique_key.empty()) list.push_back({"unique_key", j.unique_key, true});
  if (!is_whole) return list;
  list.push_back({"payload", j.payload, true});
  list.push_back({"result", j.result, true});
  return list;
}

void print_as_json(const jobs::job_info& j, bool is_whole) {
  std::string line;
  for (const field& f : fields_of(j, is_whole)) {
    line += fmt::format("{}\"{}\":{}", line.empty() ? "{" : ",", f.name, f.is_text ? json_text(f.value) : f.value);
  }
  if (is_whole) {
    line += ",\"history\":[";
    for (const jobs::event& e : j.history) {
      if (line.back() != '[') line += ',';
      line += fmt::format("{{\"at\":\"{}\",\"what\":\"{}\",\"attempt\":{},\"text\":{}}}", text_of(e.at),
                          to_string(e.what), e.attempt, json_text(e.text));
    }
    line += ']';
  }
  fmt::print("{}}}\n", line);
}

net::awaitable<bool> list(jobs::store& store, const options& o) {
  if (!o.as_json)
    fmt::print("{:>10} {:9} {:>8} {:>7} {:20} {:16} kind\n", "id", "state", "priority", "attempt", "due", "queue");
  jobs::list_request r{.queue = o.queue, .after = o.after};
  if (!o.state.empty()) r.state = states.at(o.state);
  for (std::size_t left = o.limit; left > 0;) {
    r.limit = std::min<std::size_t>(left, 1000);
    const auto found = co_await store.list(r);
    if (found.empty()) break;
    for (const jobs::job_info& j : found) {
      if (o.as_json) {
        print_as_json(j, false);
      } else {
        fmt::print("{:>10} {:9} {:>8} {:>7} {:20} {:16} {}\n", j.id, to_string(j.state), j.priority, j.attempt,
                   text_of(j.run_at), printable(j.queue), printable(j.kind));
      }
    }
    left -= found.size();
    r.after = found.back().id;
  }
  co_return true;
}

net::awaitable<bool> stats(jobs::store& store, const options& o) {
  const auto queues = co_await store.count();
  if (!o.as_json) {
    fmt::print("{:16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "queue", "waiting", "running", "done", "dead",
               "cancelled", "oldest");
  }
  for (const jobs::queue_count& q : queues) {
    const auto of = [&q](job_state s) { return q.of(s); };
    const double oldest = std::chrono::duration<double>(q.oldest).count();
    if (o.as_json) {
      fmt::print(
          "{{\"queue\":{},\"is_paused\":{},\"waiting\":{},\"running\":{},\"done\":{},\"dead\":{},\"cancelled\":{},"
          "\"oldest\":{:.6f}}}\n",
          json_text(q.queue), q.is_paused, of(job_state::waiting), of(job_state::running), of(job_state::done),
          of(job_state::dead), of(job_state::cancelled), oldest);
    } else {
      fmt::print("{:16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8.1f}s{}\n", printable(q.queue), of(job_state::waiting),
                 of(job_state::running), of(job_state::done), of(job_state::dead), of(job_state::cancelled), oldest,
                 q.is_paused ? " paused" : "");
    }
  }
  co_return true;
}

/// The same again and again, with the changes since the last look.
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
        if (last == before.end()) return "-";
        // Jobs that ended may have been removed meanwhile.
        const double change = static_cast<double>(q.of(s)) - static_cast<double>(last->second.of(s));
        return fmt::format("{:.1f}", change / seconds);
      };
      fmt::print("{:16} {:>10} {:>10} {:>10} {:>9.1f}s {:>9} {:>9}{}\n", printable(q.queue), q.of(job_state::waiting),
                 q.of(job_state::running), q.of(job_state::dead), std::chrono::duration<double>(q.oldest).count(),
                 rate(job_state::done), rate(job_state::dead), q.is_paused ? " paused" : "");
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
    if (!j) {
      fmt::print(stderr, "canigo-jobs: there is no job {}\n", id);
      all_known = false;
    } else if (o.as_json) {
      print_as_json(*j, true);
    } else {
      for (const field& f : fields_of(*j, true)) fmt::print("{:12} {}\n", f.name, printable(f.value));
      for (const jobs::event& e : j->history) {
        fmt::print("{:12} {} in attempt {}: {}\n", to_string(e.what), text_of(e.at), e.attempt, printable(e.text));
      }
    }
  }
  co_return all_known;
}

/// Says what became of a job, and passes on whether that was wanted.
bool told(jobs::job_id id, std::string_view what, bool is_wanted) {
  fmt::print(is_wanted ? stdout : stderr, "{}job {} {}\n", is_wanted ? "" : "canigo-jobs: ", id, what);
  return is_wanted;
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

std::unique_ptr<jobs::store> open(net::io_context& io, const std::string& place) {
  if (place.starts_with("postgres://") || place.starts_with("postgresql://")) return open_postgres(io, place);
  // A store would make the file.
  if (!std::filesystem::exists(place)) throw std::runtime_error{place + ": there is no such file"};
  return std::make_unique<jobs::sqlite_store>(io, place);
}

/// Why a job can't be moved; empty: it can.
std::string_view obstacle(const jobs::job_info& j) {
  if (j.state == job_state::running) return "was left: it runs";
  if (j.state != job_state::waiting) return "was left: it has ended";
  // For how long it is unique is not told.
  if (!j.unique_key.empty()) return "was left: it has a key, which is unique where it is";
  return "";
}

/// The same job to be handed in elsewhere. Times count from now on, by the clock of this machine.
jobs::new_job copy_of(const jobs::job_info& j, const options& o) {
  const auto now = std::chrono::system_clock::now();
  jobs::new_job n;
  n.queue = o.to_queue.empty() ? j.queue : o.to_queue;
  n.kind = j.kind;
  n.payload = j.payload;
  n.priority = j.priority;
  n.delay = std::max<duration>(j.run_at - now, duration::zero());
  if (j.deadline) n.expires_in = std::max<duration>(*j.deadline - now, std::chrono::microseconds{1});
  n.max_attempts = j.max_attempts - std::min(j.attempt, j.max_attempts - 1);
  return n;
}

/// Ended where it was, handed in, then forgotten: so it never runs twice, and whatever fails, one of the two is there.
net::awaitable<bool> move_one(jobs::store& from, jobs::store& to, jobs::job_id id, const options& o) {
  const auto j = co_await from.look(id);
  if (!j) co_return told(id, "is unknown", false);
  if (const auto why = obstacle(*j); !why.empty()) co_return told(id, why, false);
  const auto answer = co_await from.cancel(id);
  if (answer == jobs::cancel_answer::marked) co_return told(id, "was left: it began just now, and is cancelled", false);
  if (answer != jobs::cancel_answer::cancelled) co_return told(id, "was left: it has ended", false);
  jobs::new_job copy = copy_of(*j, o);
  jobs::put_answer moved;
  try {
    moved = co_await to.put(std::move(copy));
  } catch (const std::exception& e) {
    throw std::runtime_error{
        fmt::format("job {} is cancelled where it was, and may be in its new place: {}", id, e.what())};
  }
  co_await from.remove(id);
  co_return told(id, fmt::format("is job {} now", moved.id), true);
}

net::awaitable<bool> move(jobs::store& store, const options& o) {
  std::unique_ptr<jobs::store> other;
  if (!o.to_place.empty()) {
    const auto executor = co_await net::this_coro::executor;
    other = open(static_cast<net::io_context&>(net::query(executor, net::execution::context)), o.to_place);
    co_await other->count();  // tells before any job is touched if it can't be used
  }
  bool all = true;
  for (const jobs::job_id id : o.ids) all &= co_await move_one(store, other ? *other : store, id, o);
  co_return all;
}

net::awaitable<bool> pause(jobs::store& store, const options& o) {
  co_await store.pause(o.queue);
  co_return true;
}

net::awaitable<bool> resume(jobs::store& store, const options& o) {
  co_await store.resume(o.queue);
  co_return true;
}

using command = net::awaitable<bool> (*)(jobs::store&, const options&);

bool run(command work, const options& o) {
  net::io_context io;
  const std::unique_ptr<jobs::store> store = open(io, o.place);
  bool went_well = false;
  std::exception_ptr failure;
  net::co_spawn(io, work(*store, o), [&](std::exception_ptr e, bool result) {
    failure = e;
    went_well = result;
  });
  io.run();
  if (failure) std::rethrow_exception(failure);
  return went_well;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  command chosen = nullptr;
  CLI::App app{"Looks at the jobs of a store, and changes what becomes of them.", "canigo-jobs"};
  app.add_option("place", o.place, "a file of SQLite, or a URL of PostgreSQL")->required();
  app.add_flag("--json", o.as_json, "one object of JSON a line, for list, show and stats");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* text, command work) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->callback([&chosen, work] { chosen = work; });
    return sub;
  };
  add("stats", "how many jobs each queue has", stats);
  CLI::App* watching = add("top", "the same again and again, with what changes", top);
  watching->add_option("--every", o.every, "seconds; 2 by default")->check(CLI::Range(0.01, 86400.0));
  watching->add_option("--rounds", o.rounds, "end after so many looks");
  CLI::App* listing = add("list", "jobs by number", list);
  listing->add_option("--queue", o.queue, "of this queue only");
  listing->add_option("--state", o.state, "of this state only")->check(CLI::IsMember(states));
  listing->add_option("--after", o.after, "with a greater number");
  listing->add_option("--limit", o.limit, "at most so many; 100 by default");
  const auto of_jobs = [&](CLI::App* sub) { sub->add_option("id", o.ids, "numbers of jobs")->required(); };
  of_jobs(add("show", "all about some jobs", show));
  of_jobs(add("retry", "let jobs that have ended run again", retry));
  of_jobs(add("cancel", "end jobs that wait, and cancel those that run", cancel));
  of_jobs(add("remove", "forget jobs that do not run", remove));
  CLI::App* moving = add("move", "put jobs that wait into another queue or another store", move);
  of_jobs(moving);
  moving->add_option("--queue", o.to_queue, "its name; as it is by default");
  moving->add_option("--to", o.to_place, "a file of SQLite, or a URL of PostgreSQL; where it is by default");
  moving->require_option(2, 0);
  const auto of_queue = [&](CLI::App* sub) { sub->add_option("queue", o.queue, "its name")->required(); };
  of_queue(add("pause", "let no job of a queue begin", pause));
  of_queue(add("resume", "let them begin again", resume));
  try {
    app.parse(argc, argv);
    return run(chosen, o) ? 0 : 1;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "canigo-jobs: {}\n", e.what());
    return 1;
  }
}
