#include "canigo/jobs/postgres_store.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"

#include "postgres_line.hpp"
#include "table.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo::jobs {
namespace {

using canigo::detail::throw_invalid;
using detail::postgres_query;
using detail::postgres_rows;
using what = detail::postgres_statement;
using answers = std::span<const postgres_rows>;

const postgres_store_options& checked(const postgres_store_options& o) {
  detail::check(o.policy);
  if (o.lock_limit < std::chrono::milliseconds{1}) {
    throw_invalid("postgres_store_options.lock_limit", o.lock_limit, "1ms or more");
  }
  if (o.reconnect_limit < duration::zero()) {
    throw_invalid("postgres_store_options.reconnect_limit", o.reconnect_limit, "0 or more");
  }
  if (o.answer_limit <= duration::zero()) {
    throw_invalid("postgres_store_options.answer_limit", o.answer_limit, "more than 0");
  }
  if (o.poll <= duration::zero()) throw_invalid("postgres_store_options.poll", o.poll, "more than 0");
  return o;
}

postgres_query of(what w, job_id id) {
  postgres_query q{w};
  q.number(id);
  return q;
}
postgres_query of(what w, lease l) {
  postgres_query q = of(w, l.id);
  q.number(static_cast<std::int64_t>(l.token));
  return q;
}

verdict read_verdict(answers a) { return a.back().size() > 0 ? verdict::accepted : verdict::superseded; }

}  // namespace

postgres_store::postgres_store(const net::any_io_executor& executor, const std::string& url,
                               const postgres_store_options& options)
    : line_{std::make_unique<line>(executor, url, checked(options))} {}

postgres_store::postgres_store(const net::any_io_executor& executor, const std::string& url)
    : postgres_store{executor, url, postgres_store_options{}} {}

postgres_store::~postgres_store() = default;

template <class T, class Decode>
net::awaitable<T> postgres_store::ask(std::shared_ptr<order> o, Decode decode) {
  // The result is shared, because the operation may outlive this coroutine frame.
  const auto result = std::make_shared<std::optional<T>>();
  o->read = [result, decode = std::move(decode)](answers a) { result->emplace(decode(a)); };
  if constexpr (std::is_same_v<T, std::vector<put_answer>>) {
    o->read_put = [result](std::span<const put_answer> a) { result->emplace(a.begin(), a.end()); };
  } else if constexpr (std::is_same_v<T, verdict>) {
    if (o->ends.id != 0) o->read_end = [result](verdict v) { result->emplace(v); };
  }
  line_->push(o);
  // The wait can't be cancelled: a claim whose answer is lost would hold its jobs until the end of their leases.
  co_await o->done.async_wait(net::bind_cancellation_slot(net::cancellation_slot{}, net::use_awaitable));
  // Moves the exception out of the operation `o`, so that the caller's thread releases the last reference to the
  // exception.
  if (o->error) std::rethrow_exception(std::exchange(o->error, nullptr));
  co_return std::move(**result);
}

/// Makes an operation that changes the store. The operation must survive a crash of the server, and other processes are
/// notified of it.
std::shared_ptr<postgres_store::order> postgres_store::change() {
  auto o = std::make_shared<order>(line_->executor());
  o->is_durable = true;
  o->tells = true;
  return o;
}

/// Makes an operation that does no harm if its effect is lost, or if it is carried out twice.
std::shared_ptr<postgres_store::order> postgres_store::glance() { return std::make_shared<order>(line_->executor()); }

net::awaitable<std::vector<put_answer>> postgres_store::put_all(std::vector<new_job> list) {
  for (const new_job& j : list) detail::check(j);
  if (list.empty()) co_return std::vector<put_answer>{};
  auto o = change();
  o->jobs = std::move(list);
  std::vector<std::size_t> places;
  for (const new_job& j : o->jobs) {
    for (auto& q : detail::put_queries(j)) o->queries.push_back(std::move(q));
    places.push_back(o->queries.size() - 1);
  }
  for (const new_job& j : o->jobs) {
    for (auto& q : detail::settle_queries(j)) o->queries.push_back(std::move(q));
  }
  auto read = [places = std::move(places)](answers a) {
    std::vector<put_answer> put;
    for (const std::size_t p : places) put.push_back(detail::read_put(a[p]));
    return put;
  };
  co_return co_await ask<std::vector<put_answer>>(std::move(o), std::move(read));
}

net::awaitable<std::vector<claimed_job>> postgres_store::claim(claim_request r) {
  detail::check(r);
  auto o = glance();
  o->text = std::move(r.queue);
  const std::int64_t mark = line_->mark();
  o->queries = detail::claim_queries(o->text, r, line_->options().policy, mark, line_->commit_wait());
  o->is_claim = true;
  o->undo.push_back(of(what::undo_claim, mark));
  auto& has_news = o->tells;
  co_return co_await ask<std::vector<claimed_job>>(o, [&has_news](answers a) {
    // If a statement before the claim has ended a lease, callers in this process are notified of a change. Other
    // processes have been notified by the statement itself.
    has_news = std::ranges::any_of(a.first(a.size() - 1), [](const postgres_rows& rows) { return rows.size() > 0; });
    return detail::read_claimed(a.back());
  });
}

net::awaitable<verdict> postgres_store::complete(lease l, std::string result) {
  detail::check_bytes("store.result", result);
  auto o = change();
  o->text = std::move(result);
  o->ends = l;
  o->queries.push_back(of(what::complete, l));
  o->queries.back().bytes(o->text);
  co_return co_await ask<verdict>(std::move(o), read_verdict);
}

net::awaitable<verdict> postgres_store::fail(lease l, std::string text, duration retry_in) {
  detail::check_retry(retry_in);
  auto o = change();
  o->text = detail::kept_text(std::move(text));
  o->queries.push_back(of(what::fail, l));
  o->queries.back().bytes(o->text).span(retry_in);
  co_return co_await ask<verdict>(std::move(o), read_verdict);
}

net::awaitable<verdict> postgres_store::snooze(lease l, duration d) {
  detail::check_snooze(d);
  auto o = change();
  o->queries.push_back(of(what::snooze, l));
  o->queries.back().span(d);
  co_return co_await ask<verdict>(std::move(o), read_verdict);
}

net::awaitable<verdict> postgres_store::give_back(lease l) {
  auto o = change();
  o->is_durable = false;
  o->queries.push_back(of(what::give_back, l));
  co_return co_await ask<verdict>(std::move(o), read_verdict);
}

net::awaitable<extension> postgres_store::extend(lease l, duration d, std::optional<std::string> progress) {
  detail::check_extension(d, progress);
  auto o = glance();
  o->queries.push_back(of(what::extend, l));
  o->queries.back().span(d);
  o->text = std::move(progress).value_or("");
  progress ? o->queries.back().bytes(o->text) : o->queries.back().none();
  co_return co_await ask<extension>(std::move(o), [](answers a) {
    const postgres_rows& rows = a.back();
    if (rows.size() == 0) return extension{};
    const auto deadline = rows.time_if(0, 1);
    return extension{.verdict = verdict::accepted,
                     .is_cancelled = rows.number(0, 0) != 0,
                     .expires_in = deadline ? detail::until(rows.time(0, 2), *deadline) : duration::max()};
  });
}

net::awaitable<cancel_answer> postgres_store::cancel(job_id id) {
  auto o = change();
  o->queries = {of(what::cancel, id), of(what::state_of, id)};
  co_return co_await ask<cancel_answer>(std::move(o), [](answers a) {
    if (a[1].size() == 0) return cancel_answer::unknown;
    if (a[0].size() == 0) return cancel_answer::ended;
    const auto state = static_cast<job_state>(a[0].number(0, 0));
    return state == job_state::running ? cancel_answer::marked : cancel_answer::cancelled;
  });
}

net::awaitable<requeue_answer> postgres_store::requeue(job_id id) {
  auto o = change();
  o->queries = {of(what::free_home_key, id), of(what::requeue, id), of(what::requeue_state, id)};
  co_return co_await ask<requeue_answer>(std::move(o), [](answers a) -> requeue_answer {
    using type = requeue_answer::type;
    const postgres_rows& now = a[2];
    if (now.size() == 0) return {.what = type::unknown};
    if (a[1].size() > 0) return {.what = type::requeued};
    if (!has_ended(static_cast<job_state>(now.number(0, 0)))) return {.what = type::unended};
    return {.what = type::key_taken, .holder = now.number(0, 1)};
  });
}

net::awaitable<remove_answer> postgres_store::remove(job_id id) {
  auto o = change();
  o->queries = {of(what::remove, id), of(what::state_of, id)};
  co_return co_await ask<remove_answer>(std::move(o), [](answers a) {
    if (a[0].size() > 0) return remove_answer::removed;
    return a[1].size() > 0 ? remove_answer::running : remove_answer::unknown;
  });
}

net::awaitable<std::size_t> postgres_store::trim(trim_request r) {
  detail::check(r);
  auto o = glance();
  o->text = std::move(r.queue);
  postgres_query q{what::trim};
  q.bytes(o->text).span(r.older_than);
  r.keep == SIZE_MAX ? q.none() : q.number(static_cast<std::int64_t>(r.keep));
  q.number(static_cast<std::int64_t>(std::min<std::size_t>(r.limit, 1 << 20)));
  o->queries.push_back(std::move(q));
  co_return co_await ask<std::size_t>(std::move(o),
                                      [](answers a) { return static_cast<std::size_t>(a.back().changed()); });
}

net::awaitable<void> postgres_store::set_paused(std::string queue, bool is_paused) {
  detail::check_queue(queue);
  auto o = change();
  o->text = std::move(queue);
  o->queries.emplace_back(what::pause);
  o->queries.back().bytes(o->text).number(is_paused ? 1 : 0);
  co_await ask<bool>(std::move(o), [](answers) { return true; });
}

net::awaitable<void> postgres_store::pause(std::string queue) { return set_paused(std::move(queue), true); }
net::awaitable<void> postgres_store::resume(std::string queue) { return set_paused(std::move(queue), false); }

net::awaitable<duration> postgres_store::next_due(std::string queue) {
  detail::check_queue(queue);
  auto o = glance();
  o->text = std::move(queue);
  o->queries.emplace_back(what::next_due);
  o->queries.back().bytes(o->text);
  co_return co_await ask<duration>(std::move(o), [](answers a) {
    const postgres_rows& rows = a.back();
    const auto then = rows.time_if(0, 1).value_or(instant::max());
    return std::max(detail::until(rows.time(0, 0), then), duration::zero());
  });
}

net::awaitable<instant> postgres_store::clock() {
  auto o = glance();
  o->queries.emplace_back(what::now);
  co_return co_await ask<instant>(std::move(o), [](answers a) { return a.back().time(0, 0); });
}

net::awaitable<std::optional<job_info>> postgres_store::look(job_id id) {
  auto o = glance();
  o->queries.push_back(of(what::look, id));
  co_return co_await ask<std::optional<job_info>>(std::move(o), [](answers a) {
    return a.back().size() > 0 ? std::optional{detail::read_job(a.back(), 0)} : std::nullopt;
  });
}

net::awaitable<std::vector<job_info>> postgres_store::list(list_request r) {
  detail::check(r);
  auto o = glance();
  o->text = std::move(r.queue);
  o->reads_much = true;
  const bool is_unwell = r.state == job_state::dead || r.state == job_state::cancelled;
  postgres_query q = of(is_unwell ? what::list_unwell : what::list, r.after);
  q.bytes(o->text);
  r.state ? q.number(static_cast<int>(*r.state)) : q.none();
  o->batch = std::move(r.batch);
  q.number(static_cast<std::int64_t>(r.limit)).bytes(o->batch);
  o->queries.push_back(std::move(q));
  co_return co_await ask<std::vector<job_info>>(std::move(o), [](answers a) {
    std::vector<job_info> found;
    for (int i = 0; i < a.back().size(); ++i) found.push_back(detail::read_job(a.back(), i));
    return found;
  });
}

net::awaitable<std::vector<queue_count>> postgres_store::count() {
  auto o = glance();
  o->reads_much = true;
  o->queries.emplace_back(what::count);
  o->queries.back().number(static_cast<std::int64_t>(most_counted));
  co_return co_await ask<std::vector<queue_count>>(std::move(o),
                                                   [](answers a) { return detail::read_counts(a.back()); });
}

net::awaitable<std::uint64_t> postgres_store::changed(std::uint64_t seen) {
  return detail::changes::after(line_->news(), seen);
}

void postgres_store::stop() noexcept { line_->stop(); }

std::string postgres_store::where() const { return line_->where(); }

store_facts postgres_store::facts() const { return line_->facts(); }

}  // namespace canigo::jobs
