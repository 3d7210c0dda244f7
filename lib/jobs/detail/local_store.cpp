#include "canigo/jobs/detail/local_store.hpp"

#include "../table.hpp"

#include <memory>
#include <type_traits>
#include <utility>

namespace canigo::jobs::detail {

template <class F>
auto local_store::on_table(weight w, F f) -> net::awaitable<std::invoke_result_t<F&, table&, instant>> {
  // The result is shared, because the operation may outlive this coroutine frame.
  const auto result = std::make_shared<std::optional<std::invoke_result_t<F&, table&, instant>>>();
  step s = [result, f = std::move(f)](table& t, instant now) mutable { result->emplace(f(t, now)); };
  co_await perform(w, std::move(s));
  co_return std::move(**result);
}

net::awaitable<std::vector<put_answer>> local_store::put_all(std::vector<new_job> list) {
  for (const new_job& j : list) check(j);
  if (list.empty()) co_return std::vector<put_answer>{};
  auto f = [list = std::move(list)](table& t, instant now) { return t.put_all(list, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<std::vector<claimed_job>> local_store::claim(claim_request r) {
  check(r);
  auto f = [r = std::move(r)](table& t, instant now) { return t.claim(r, now); };
  co_return co_await on_table(weight::renews, std::move(f));
}

net::awaitable<verdict> local_store::complete(lease l, std::string result) {
  check_bytes("store.result", result);
  auto f = [l, result = std::move(result)](table& t, instant now) { return t.complete(l, result, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<verdict> local_store::fail(lease l, std::string text, duration retry_in) {
  check_retry(retry_in);
  auto f = [l, text = kept_text(std::move(text)), retry_in](table& t, instant now) {
    return t.fail(l, text, retry_in, now);
  };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<verdict> local_store::snooze(lease l, duration d) {
  check_snooze(d);
  auto f = [l, d](table& t, instant now) { return t.snooze(l, d, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<verdict> local_store::give_back(lease l) {
  auto f = [l](table& t, instant now) { return t.give_back(l, now); };
  co_return co_await on_table(weight::renews, std::move(f));
}

net::awaitable<extension> local_store::extend(lease l, duration d, std::optional<std::string> progress) {
  check_extension(d, progress);
  auto f = [l, d, progress = std::move(progress)](table& t, instant now) { return t.extend(l, d, progress, now); };
  co_return co_await on_table(weight::renews, std::move(f));
}

net::awaitable<cancel_answer> local_store::cancel(job_id id) {
  auto f = [id](table& t, instant now) { return t.cancel(id, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<requeue_answer> local_store::requeue(job_id id) {
  auto f = [id](table& t, instant now) { return t.requeue(id, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<remove_answer> local_store::remove(job_id id) {
  auto f = [id](table& t, instant now) { return t.remove(id, now); };
  co_return co_await on_table(weight::durable, std::move(f));
}

net::awaitable<std::size_t> local_store::trim(trim_request r) {
  check(r);
  auto f = [r = std::move(r)](table& t, instant now) { return t.trim(r, now); };
  co_return co_await on_table(weight::renews, std::move(f));
}

net::awaitable<void> local_store::pause(std::string queue) {
  check_queue(queue);
  step s = [queue = std::move(queue)](table& t, instant now) { t.pause(queue, true, now); };
  co_await perform(weight::durable, std::move(s));
}

net::awaitable<void> local_store::resume(std::string queue) {
  check_queue(queue);
  step s = [queue = std::move(queue)](table& t, instant now) { t.pause(queue, false, now); };
  co_await perform(weight::durable, std::move(s));
}

net::awaitable<duration> local_store::next_due(std::string queue) {
  check_queue(queue);
  auto f = [queue = std::move(queue)](table& t, instant now) {
    return std::max(until(now, t.next_due(queue)), duration::zero());
  };
  co_return co_await on_table(weight::reads, std::move(f));
}

net::awaitable<instant> local_store::clock() {
  auto f = [](table&, instant now) { return now; };
  co_return co_await on_table(weight::reads, std::move(f));
}

net::awaitable<std::optional<job_info>> local_store::look(job_id id) {
  auto f = [id](table& t, instant) { return t.look(id); };
  co_return co_await on_table(weight::reads, std::move(f));
}

net::awaitable<std::vector<job_info>> local_store::list(list_request r) {
  check(r);
  auto f = [r = std::move(r)](table& t, instant) { return t.list(r); };
  co_return co_await on_table(weight::reads, std::move(f));
}

net::awaitable<std::vector<queue_count>> local_store::count() {
  auto f = [](table& t, instant now) { return t.count(now); };
  co_return co_await on_table(weight::reads, std::move(f));
}

}  // namespace canigo::jobs::detail
