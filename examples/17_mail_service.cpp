// A shop writes orders and their mails into one SQLite file. A service that sends the mails is killed three times, and
// no mail is lost.
#include <canigo/jobs/service.hpp>
#include <canigo/jobs/sqlite_store.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <signal.h>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

const std::filesystem::path folder = [] {
  std::string pattern = (std::filesystem::temp_directory_path() / "canigo-mails-XXXXXX").string();
  return ::mkdtemp(pattern.data()) != nullptr ? pattern : throw std::runtime_error{"no folder for the shop"};
}();
const std::string shop_file = folder / "shop.db";
const std::string outbox = folder / "outbox";  // plays the role of the mail server

// The shop has its own connection to the file.
void execute(sqlite3* shop, const std::string& sql) {
  if (sqlite3_exec(shop, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error{sqlite3_errmsg(shop)};
  }
}

void place_order(canigo::jobs::sqlite_store& store, sqlite3* shop, int number, bool is_paid) {
  execute(shop, "begin immediate");
  execute(shop, fmt::format("insert into orders values ({})", number));
  const std::string address = fmt::format("customer-{}@example.org", number);
  canigo::jobs::new_job mail{.queue = "mail", .kind = "confirm", .payload = address};
  store.put_in(shop, mail);  // in the same transaction: the mail exists if and only if the order does
  execute(shop, is_paid ? "commit" : "rollback");
}

void open_shop() {
  asio::io_context io;
  canigo::jobs::sqlite_store store{io, shop_file};
  sqlite3* opened = nullptr;
  const int error = sqlite3_open(shop_file.c_str(), &opened);
  const std::unique_ptr<sqlite3, decltype([](sqlite3* s) { sqlite3_close(s); })> shop{opened};
  if (error != SQLITE_OK) throw std::runtime_error{sqlite3_errmsg(opened)};
  sqlite3_busy_timeout(opened, 10'000);  // the store also writes to the file
  execute(opened, "create table orders (number integer)");
  for (int number = 1; number <= 60; ++number) place_order(store, opened, number, number % 3 != 0);
  store.wake();
}

asio::awaitable<std::string> send_mail(canigo::jobs::job& j) {
  co_await canigo::sleep_for(20ms);
  std::ofstream{outbox, std::ios::app} << j.payload() << std::endl;
  co_return "sent";
}

asio::awaitable<void> serve_until_empty(canigo::jobs::service& mails, canigo::jobs::store& store) {
  mails.start();
  for (bool is_empty = false; !is_empty;) {
    co_await canigo::sleep_for(50ms);
    is_empty = true;
    const auto queues = co_await store.count();
    for (const auto& queue : queues) {
      using enum canigo::jobs::job_state;
      is_empty = is_empty && queue.of(waiting) + queue.of(running) == 0;
    }
  }
  co_await mails.stop();
  store.stop();
}

void send_mails() {
  asio::io_context io;
  canigo::jobs::sqlite_store_options options;
  options.policy.after_crash = canigo::backoff::constant(10ms);
  canigo::jobs::sqlite_store store{io, shop_file, options};
  canigo::jobs::service_options pools;
  pools.queues.push_back({.name = "mail", .concurrency = 2});
  canigo::jobs::service mails{io, store, pools};
  mails.handle("confirm", send_mail);
  asio::co_spawn(io, serve_until_empty(mails, store), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  io.run();
}

/// Runs a function in a separate process.
pid_t run_apart(void (*work)()) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    work();
    ::_exit(EXIT_SUCCESS);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    ::_exit(EXIT_FAILURE);
  }
}

bool ends_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

std::map<std::string, int> sent_mails() {
  std::map<std::string, int> sent;
  std::ifstream lines{outbox};
  for (std::string line; std::getline(lines, line);) ++sent[line];
  return sent;
}

int main() {
  if (!ends_well(run_apart(open_shop))) return 1;
  fmt::print("60 orders, of which 20 were taken back\n");
  for (const std::size_t mails : {8, 16, 24}) {
    const pid_t service = run_apart(send_mails);
    while (sent_mails().size() < mails) ::usleep(1'000);
    ::kill(service, SIGKILL);
    ::waitpid(service, nullptr, 0);
    fmt::print("killed the service after {} mails\n", mails);
  }
  if (!ends_well(run_apart(send_mails))) return 1;
  const auto sent = sent_mails();
  std::size_t twice = 0;
  for (const auto& [address, times] : sent) twice += times > 1;
  fmt::print("{} customers have their mail, {} of them twice\n", sent.size(), twice);
  std::filesystem::remove_all(folder);
}
