#include "canigo/jobs/sqlite_store.hpp"

#include "canigo/error.hpp"

#include "sqlite_line.hpp"
#include "sqlite_schema.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/use_awaitable.hpp>

#include <exception>
#include <string>
#include <utility>

namespace canigo::jobs {
namespace {

using canigo::detail::throw_invalid;

const sqlite_store_options& checked(const std::string& file, const sqlite_store_options& o) {
  if (file.empty() || file.starts_with(':') || file.find('\0') != std::string::npos) {
    throw_invalid("sqlite_store.file", file, "the name of a file");
  }
  detail::check(o.policy);
  if (o.busy_limit < duration::zero()) throw_invalid("sqlite_store_options.busy_limit", o.busy_limit, "0 or more");
  if (o.poll <= duration::zero()) throw_invalid("sqlite_store_options.poll", o.poll, "more than 0");
  return o;
}

}  // namespace

sqlite_store::sqlite_store(const net::any_io_executor& executor, std::string file, const sqlite_store_options& options)
    : line_{std::make_unique<line>(executor, file, checked(file, options))} {}

sqlite_store::sqlite_store(const net::any_io_executor& executor, std::string file)
    : sqlite_store{executor, std::move(file), sqlite_store_options{}} {}

sqlite_store::~sqlite_store() = default;

net::awaitable<void> sqlite_store::perform(weight w, step s) {
  const auto order = line_->push(w, std::move(s));
  // The wait can't be cancelled: a claim whose answer is lost would hold its jobs until the end of their leases.
  co_await order->done.async_wait(net::bind_cancellation_slot(net::cancellation_slot{}, net::use_awaitable));
  // The exception is moved out of `order`, so that the last reference to it is released on the caller's thread.
  if (order->error) std::rethrow_exception(std::exchange(order->error, nullptr));
}

put_answer sqlite_store::put_in(sqlite3* connection, const new_job& j) {
  detail::check(j);
  detail::sqlite_db db{connection};
  // This call makes the tables itself. The store's thread may not have made them yet, and can't do so while this
  // transaction is open.
  detail::make_tables(db);
  detail::sqlite_table table{db, line_->options().policy, 0};
  return table.put_all({j}, line_->now()).front();
}

void sqlite_store::wake() noexcept {
  line_->news()->bump();
  line_->want_ring();
}

net::awaitable<std::uint64_t> sqlite_store::changed(std::uint64_t seen) {
  return detail::changes::after(line_->news(), seen);
}

void sqlite_store::stop() noexcept { line_->stop(); }

std::string sqlite_store::where() const { return line_->file(); }

store_facts sqlite_store::facts() const { return {.engine = std::string{"SQLite "} + ::sqlite3_libversion()}; }

}  // namespace canigo::jobs
