// Measures durable jobs (B22): putting them one by one and by the hundred, running them, and the delay before a single
// job starts. Handlers do nothing. bench/run names the folder for files and the PostgreSQL server.

#include "canigo/jobs/memory_store.hpp"
#include "canigo/jobs/postgres_store.hpp"
#include "canigo/jobs/service.hpp"
#include "canigo/jobs/sqlite_store.hpp"
#include "canigo/net.hpp"

#include "harness.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace jobs = canigo::jobs;
namespace net = canigo::net;

namespace {

/// A temporary folder on a disk. The system's folder for temporary files may be in memory, where writes never wait.
class folder {
 public:
  folder() {
    const char* parent = std::getenv("BENCH_FOLDER");
    path_ = std::string{parent != nullptr ? parent : "/var/tmp"} + "/canigo-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::system_error{errno, std::system_category(), path_};
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// An event loop with an empty store.
class world {
 public:
  explicit world(const std::function<std::unique_ptr<jobs::store>(net::io_context&, const folder&)>& open)
      : store_{open(io_, folder_)} {}

  jobs::store& store() noexcept { return *store_; }
  net::io_context& io() noexcept { return io_; }

  template <class Done>
  void run_until(Done done) {
    io_.restart();
    while (!done()) io_.run_one();
  }
  /// Runs `count` of these coroutines to their end.
  template <class Make>
  void run(int count, Make make) {
    int left = count;
    for (int i = 0; i < count; ++i) {
      net::co_spawn(io_, make(), [&left](const std::exception_ptr& e) {
        if (e) std::rethrow_exception(e);
        --left;
      });
    }
    run_until([&left] { return left == 0; });
  }
  /// Puts `count` jobs.
  void fill(int count) {
    run(1, [this, count] { return put_many(count); });
  }

 private:
  net::awaitable<void> put_many(int count) {
    for (int left = count; left > 0; left -= 1000) {
      std::vector<jobs::new_job> list(static_cast<std::size_t>(std::min(left, 1000)));
      for (auto& j : list) {
        j.kind = "noop";
        j.payload = "payload";
      }
      co_await store_->put_all(std::move(list));
    }
  }

  folder folder_;
  net::io_context io_{1};
  std::unique_ptr<jobs::store> store_;
};

using opener = std::function<std::unique_ptr<jobs::store>(net::io_context&, const folder&)>;

net::awaitable<void> submit(jobs::service& s, int count) {
  for (int i = 0; i < count; ++i) co_await s.submit("noop", "payload");
}

/// Measures putting `count` jobs, `at_once` of them at a time.
bench::sample put_jobs(const opener& open, int count, int at_once) {
  world w{open};
  jobs::service service{w.io(), w.store(), {}};
  w.run(1, [&] { return submit(service, 1); });  // the first put creates the tables
  return bench::measure(count, [&] { w.run(at_once, [&] { return submit(service, count / at_once); }); });
}

/// A service with one queue whose handlers call `ran`.
class workers {
 public:
  workers(world& w, std::size_t concurrency, std::function<void()> ran)
      : world_{&w}, service_{w.io(), w.store(), {.queues = {{.name = "default", .concurrency = concurrency}}}} {
    service_.handle("noop", [ran = std::move(ran)](jobs::job&) -> net::awaitable<void> {
      ran();
      co_return;
    });
  }
  ~workers() {
    world_->run(1, [this] { return service_.stop(); });
  }
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;

  jobs::service& service() noexcept { return service_; }

 private:
  world* world_;
  jobs::service service_;
};

/// Measures running the first `count` of the waiting jobs.
bench::sample run_jobs(const opener& open, int waiting, int count, std::size_t concurrency) {
  world w{open};
  w.fill(waiting);
  int ran = 0;
  workers crew{w, concurrency, [&ran] { ++ran; }};
  return bench::measure(count, [&] {
    crew.service().start();
    w.run_until([&] { return ran >= count; });
  });
}

/// Measures the time from putting a job to the start of its handler, while there are no other jobs.
bench::sample start_alone(const opener& open, int count) {
  world w{open};
  std::chrono::steady_clock::time_point started;
  bool is_started = false;
  workers crew{w, 8, [&] {
                 started = std::chrono::steady_clock::now();
                 is_started = true;
               }};
  crew.service().start();
  std::vector<double> took;
  for (int i = 0; i < count; ++i) {
    w.io().restart();
    w.io().run_for(10ms);
    is_started = false;
    const auto begun = std::chrono::steady_clock::now();
    w.run(1, [&] { return submit(crew.service(), 1); });
    w.run_until([&] { return is_started; });
    took.push_back(std::chrono::duration<double, std::nano>(started - begun).count());
  }
  std::sort(took.begin(), took.end());
  bench::sample s;
  s.ns_per_operation = took[took.size() / 2];
  s.p99_ns = took[took.size() * 99 / 100];
  return s;
}

/// Measures appending to a file with a sync, the minimum that a disk needs.
bench::sample append(int count) {
  const folder f;
  const int file = ::open(f.file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0) throw std::system_error{errno, std::system_category(), f.file("log")};
  const std::vector<char> page(4096);
  const auto s = bench::measure(count, [&] {
    for (int i = 0; i < count; ++i) {
      if (::write(file, page.data(), page.size()) != static_cast<ssize_t>(page.size()) || ::fdatasync(file) != 0) {
        throw std::system_error{errno, std::system_category(), f.file("log")};
      }
    }
  });
  ::close(file);
  return s;
}

std::unique_ptr<jobs::store> open_postgres(net::io_context& io, const std::string& server) {
  const std::unique_ptr<PGconn, decltype([](PGconn* c) { ::PQfinish(c); })> session{::PQconnectdb(server.c_str())};
  const std::unique_ptr<PGresult, decltype([](PGresult* r) { ::PQclear(r); })> made{
      ::PQexec(session.get(),
               "SET client_min_messages = warning; DROP SCHEMA IF EXISTS canigo_bench CASCADE; "
               "CREATE SCHEMA canigo_bench")};
  if (::PQresultStatus(made.get()) != PGRES_COMMAND_OK) throw std::runtime_error{::PQerrorMessage(session.get())};
  return std::make_unique<jobs::postgres_store>(io, server + " options='-c search_path=canigo_bench'");
}

void compare(const std::string& id, const std::string& work,
             const std::function<bench::sample(const opener&)>& repetition) {
  bench::match m{id, work};
  const auto add = [&](const std::string& name, const opener& open) {
    m.add(name, [repetition, open] { return repetition(open); });
  };
  add("sqlite_store",
      [](net::io_context& io, const folder& f) { return std::make_unique<jobs::sqlite_store>(io, f.file("jobs.db")); });
  if (const char* server = std::getenv("BENCH_POSTGRES")) {
    add("postgres_store", [server](net::io_context& io, const folder&) { return open_postgres(io, server); });
  }
  add("memory_store", [](net::io_context& io, const folder&) { return std::make_unique<jobs::memory_store>(io); });
  if (id == "B22-put") m.add("floor: append 4 KiB and fdatasync", [] { return append(300); });
  m.without_warm_up().run(3);
}

}  // namespace

int main() {
  compare("B22-put", "handing in a job, one at a time", [](const opener& o) { return put_jobs(o, 300, 1); });
  compare("B22-put100", "the same, 100 at a time", [](const opener& o) { return put_jobs(o, 10'000, 100); });
  compare("B22-run1", "running one of 500 jobs, 1 worker", [](const opener& o) { return run_jobs(o, 500, 500, 1); });
  compare("B22-run8", "one of 2,000, 8 workers", [](const opener& o) { return run_jobs(o, 2000, 2000, 8); });
  compare("B22-many", "one of 300,000, 8 workers", [](const opener& o) { return run_jobs(o, 300'000, 2000, 8); });
  compare("B22-idle", "handed in to started, while nothing else is to be done",
          [](const opener& o) { return start_alone(o, 100); });
}
