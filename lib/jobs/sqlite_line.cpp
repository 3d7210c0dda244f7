#include "sqlite_line.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include "sqlite_schema.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <poll.h>
#include <random>
#include <system_error>
#include <utility>

namespace canigo::jobs {
namespace {

/// When the write-ahead log has this many pages, the store's thread copies these pages into the database file.
constexpr int checkpoint_pages = 1000;

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  }
}

std::int64_t random_number() {
  std::random_device random;
  const auto bits = (std::uint64_t{random()} << 32) | random();
  return static_cast<std::int64_t>(bits >> 1 | 1);
}

bool is(const std::exception_ptr& e, std::initializer_list<error> codes) {
  try {
    std::rethrow_exception(e);
  } catch (const std::system_error& s) {
    return std::ranges::any_of(codes, [&](error c) { return s.code() == c; });
  } catch (...) {
    return false;
  }
}

}  // namespace

/// The connection to the file. It exists while the file is open.
struct sqlite_store::line::connection {
  explicit connection(line& l) : db{l.file_, l.options_.busy_limit}, table{db, l.options_.policy, l.holder_} {
    detail::set_up(db);
    ::sqlite3_wal_hook(
        db.connection(),
        [](void* pages, sqlite3*, const char*, int there) {
          *static_cast<int*>(pages) = there;
          return SQLITE_OK;
        },
        &l.wal_pages_);
  }
  void checkpoint() noexcept {
    ::sqlite3_wal_checkpoint_v2(db.connection(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

  detail::sqlite_db db;
  detail::sqlite_table table;
};

sqlite_store::line::line(const net::any_io_executor& executor, std::string file, const sqlite_store_options& options)
    : executor_{executor},
      file_{std::move(file)},
      options_{options},
      holder_{random_number()},
      news_{std::make_shared<detail::changes>(executor)},
      knocker_{file_} {
  thread_ = std::thread{[this] { run(); }};
}

sqlite_store::line::~line() {
  stop();
  {
    const std::lock_guard lock{mutex_};
    is_ending_ = true;
  }
  knocker_.knock();
  thread_.join();
}

instant sqlite_store::line::system_now() noexcept {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

std::shared_ptr<sqlite_store::line::order> sqlite_store::line::push(weight w, step s) {
  auto o = std::make_shared<order>(executor_, w, std::move(s));
  {
    const std::lock_guard lock{mutex_};
    if (is_stopped_) throw std::system_error{make_error_code(errc::stopped)};
    box_.push_back(o);
  }
  knocker_.knock();
  return o;
}

void sqlite_store::line::stop() noexcept {
  {
    const std::lock_guard lock{mutex_};
    is_stopped_ = true;
  }
  news_->stop();
}

void sqlite_store::line::want_ring() noexcept {
  {
    const std::lock_guard lock{mutex_};
    wants_ring_ = true;
  }
  knocker_.knock();
}

/// Waits until a caller adds an operation, another process sends a wake-up, or `most` has passed.
void sqlite_store::line::wait(duration most) noexcept {
  pollfd fds[2] = {{.fd = knocker_.descriptor(), .events = POLLIN, .revents = 0},
                   {.fd = socket_ ? socket_->descriptor() : -1, .events = POLLIN, .revents = 0}};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  ::poll(fds, 2, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000)));
  if ((fds[1].revents & POLLIN) != 0) hear_others();
  knocker_.answer();
}

void sqlite_store::line::hear_others() noexcept {
  if (socket_->drain()) news_->bump();
}

std::size_t sqlite_store::line::waiting() const noexcept {
  const std::lock_guard lock{mutex_};
  return box_.size();
}

void sqlite_store::line::run() noexcept {
  using clock = std::chrono::steady_clock;
  auto look_at = clock::now();  // look_at_others() runs first, so that other processes can wake this one from the start
  for (bool goes_on = true; goes_on;) {
    const bool is_idle = gathering_.wait([this] { return waiting(); }) == 0;
    orders list;
    bool wants_ring = false;
    {
      const std::lock_guard lock{mutex_};
      list.swap(box_);
      wants_ring = std::exchange(wants_ring_, false);
      goes_on = !is_ending_;  // `box_` gets no more operations once `is_ending_` is set
    }
    try {
      if (!list.empty()) gathering_.note(list.size(), [&] { carry_out(list); });
      if (wants_ring) tell_others(true);
      if (clock::now() >= look_at) {
        look_at_others();
        look_at = clock::now() + options_.poll;
      }
    } catch (...) {
      // No caller waits for the steps that may throw here, such as look_at_others(). So the error is dropped. The next
      // operation opens the file again. If the file can't be opened, the caller of that operation gets the error.
      connection_.reset();
      look_at = clock::now() + options_.poll;
    }
    if (goes_on && is_idle) wait(look_at - clock::now());
  }
}

/// Carries out each operation of the list that can succeed, and stores the error of each one that fails. Returns
/// whether there are changes that other callers may wait for.
bool sqlite_store::line::try_all(const orders& list) {
  const auto error_of = [](const auto& step) -> std::exception_ptr {
    try {
      step();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  };
  std::exception_ptr failed = error_of([&] { commit(list); });
  // If one operation makes the transaction fail, each operation is tried alone, so that the other operations succeed.
  // But an error such as a locked or damaged file would hit each operation. So all operations get such an error without
  // another attempt.
  const bool is_for_all = failed && is(failed, {error::locked, error::io, error::unknown_outcome, error::cannot_open,
                                                error::corrupt, error::newer_schema});
  bool has_news = false;
  for (const auto& o : list) {
    o->error = failed && !is_for_all && list.size() > 1 ? error_of([&] { commit({o}); }) : failed;
    has_news = (connection_ && connection_->table.take_news() && !o->error) || has_news;
  }
  return has_news;
}

void sqlite_store::line::carry_out(const orders& list) {
  const bool has_news = try_all(list);
  if (has_news) news_->bump();  // called before the callers resume, so that they find the new number of changes
  for (const auto& o : list) o->done.done();
  if (has_news) tell_others(true);
  if (std::exchange(wal_pages_, 0) >= checkpoint_pages && connection_) connection_->checkpoint();
}

void sqlite_store::line::throw_gone() const {
  throw std::system_error{make_error_code(error::cannot_open),
                          file_ +
                              ": somebody has moved or removed it; stop all of its users before that. The next call " +
                              "opens the file of this name, or makes one"};
}

/// Carries out all operations of the list in one transaction.
void sqlite_store::line::commit(const orders& list) {
  weight most = weight::reads;
  for (const auto& o : list) most = std::max(most, o->how);
  commit(most, [&](detail::table& t, instant at) {
    for (const auto& o : list) o->what(t, at);
  });
}

/// Runs a transaction. After an error, the connection is either usable or closed.
void sqlite_store::line::commit(weight how, const step& what) {
  open();
  auto& [db, table] = *connection_;
  const bool writes = how != weight::reads;
  bool is_at_the_end = false;
  try {
    detail::set_synchronous(db, options_.waits_for_disk && how == weight::durable);
    writes ? db.sql("BEGIN IMMEDIATE").run() : db.sql("BEGIN").run();
    what(table, now());
    is_at_the_end = true;
    db.sql("COMMIT").run();
    if (db.has_moved()) throw_gone();
  } catch (...) {
    const auto failed = std::current_exception();
    ::sqlite3_exec(db.connection(), "ROLLBACK", nullptr, nullptr, nullptr);
    table.take_news();
    if (is(failed, {error::io, error::corrupt, error::cannot_open})) connection_.reset();
    if (is_at_the_end && is(failed, {error::io})) {
      throw std::system_error{make_error_code(error::unknown_outcome), text_of(failed)};
    }
    throw;
  }
}

/// Opens the file. If two processes create the same file at the same time, SQLite may refuse both of them. Then the
/// second attempt finds the file.
std::unique_ptr<sqlite_store::line::connection> sqlite_store::line::connect() {
  try {
    return std::make_unique<connection>(*this);
  } catch (const std::system_error& e) {
    if (e.code() != error::locked) throw;
  }
  return std::make_unique<connection>(*this);
}

void sqlite_store::line::open() {
  if (connection_) return;
  auto opened = connect();
  if (!socket_) socket_.emplace(file_ + "-wake", holder_);
  connection_ = std::move(opened);
  news_->bump();  // makes callers check the store, because changes before the file was opened have caused no wake-up
}

/// Sends a wake-up to all other processes that use the file. Also ends the leases of processes that no longer exist,
/// because these processes run no jobs any more. If the leases can't be ended, a later call tries again.
void sqlite_store::line::tell_others(bool has_news) {
  if (!socket_) return;
  hear_others();  // finds processes that have started since the last wait, because they need the wake-up, too
  const auto gone = socket_->ring(has_news);
  gone_.insert(gone_.end(), gone.begin(), gone.end());
  if (gone_.empty()) return;
  commit(weight::renews, [this](detail::table&, instant) {
    for (const auto holder : gone_) connection_->table.end_leases_of(holder);
  });
  gone_.clear();
  if (connection_->table.take_news()) news_->bump();
}

void sqlite_store::line::look_at_others() {
  open();
  if (connection_->db.has_moved()) throw_gone();
  if (connection_->db.was_changed()) news_->bump();
  socket_->look_round();
  tell_others(false);
}

}  // namespace canigo::jobs
