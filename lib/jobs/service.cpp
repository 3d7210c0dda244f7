#include "canigo/jobs/service.hpp"

#include "canigo/detail/pool/pool_options.hpp"

#include "service_core.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace canigo::jobs {
namespace {

new_job job_of(std::string kind, std::string payload, const submit_options& o) {
  return {.queue = std::string{o.queue},
          .kind = std::move(kind),
          .payload = std::move(payload),
          .priority = o.priority,
          .delay = o.delay,
          .expires_in = o.expires_in,
          .max_attempts = o.max_attempts,
          .unique_key = std::string{o.unique},
          .scope = o.scope,
          .unique_for = o.unique_for,
          .batch = std::string{o.batch},
          .after_batch = std::string{o.after_batch}};
}

net::awaitable<job_id> put(std::shared_ptr<detail::service_core> core, new_job j) {
  const auto answer = co_await core->jobs().put(std::move(j));
  co_return answer.id;
}

net::awaitable<std::string> put_and_wait(std::shared_ptr<detail::service_core> core, new_job j) {
  const job_id id = co_await put(core, std::move(j));
  co_return co_await detail::service_core::result(core, id);
}

/// Waits until the service has stopped. The coroutine keeps the core alive, so the service may be destroyed before the
/// coroutine is started.
net::awaitable<void> ended(std::shared_ptr<detail::service_core> core) {
  co_await detail::service_core::closed(core);
  if (const auto cause = core->cause()) std::rethrow_exception(cause);
}

}  // namespace

service::service(const net::any_io_executor& executor, store& s, service_options options)
    : core_{std::make_shared<detail::service_core>(executor, s, std::move(options))} {}

service::~service() { core_->abandon(); }

void service::add(std::string kind, detail::handler h) { core_->add(std::move(kind), std::move(h)); }

void service::repeat(std::string kind, schedule when, std::string payload, const submit_options& o) {
  core_->repeat(job_of(std::move(kind), std::move(payload), o), std::move(when));
}

void service::start() { core_->start(); }

net::awaitable<job_id> service::submit(std::string kind, std::string payload, const submit_options& o) {
  return put(core_, job_of(std::move(kind), std::move(payload), o));
}

net::awaitable<job_id> service::submit(std::string kind, std::string payload) {
  return submit(std::move(kind), std::move(payload), submit_options{});
}

net::awaitable<std::string> service::result(job_id id) { return detail::service_core::result(core_, id); }

net::awaitable<std::string> service::submit_and_wait(std::string kind, std::string payload, const submit_options& o) {
  return put_and_wait(core_, job_of(std::move(kind), std::move(payload), o));
}

net::awaitable<cancel_answer> service::cancel(job_id id) { return detail::service_core::cancel(core_, id); }

net::awaitable<requeue_answer> service::requeue(job_id id) { return core_->jobs().requeue(id); }

net::awaitable<void> service::pause(std::string queue) { return core_->jobs().pause(std::move(queue)); }

net::awaitable<void> service::resume(std::string queue) { return core_->jobs().resume(std::move(queue)); }

void service::request_stop(stop_mode mode, duration grace) {
  canigo::detail::check_stop(mode);
  core_->request_stop(mode, grace);
}

net::awaitable<void> service::stop(stop_mode mode, duration grace) {
  request_stop(mode, grace);
  return detail::service_core::closed(core_);
}

net::awaitable<void> service::closed() { return ended(core_); }

std::function<void(stop_mode, duration)> service::stopper() const {
  return [core = core_](stop_mode mode, duration grace) { core->request_stop(mode, grace); };
}

const strand_pool& service::pool(const std::string& queue) const { return core_->pool(queue); }

service_stats service::stats() const { return core_->stats(); }

}  // namespace canigo::jobs
