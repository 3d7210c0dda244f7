#include "gateway/http/service.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/wait_group.hpp"

#include "gateway/config/file_kind.hpp"
#include "gateway/config/file_values.hpp"
#include "gateway/config/reader.hpp"
#include "gateway/config/restart.hpp"
#include "gateway/http/connection.hpp"

#include <asio/ip/address.hpp>
#include <asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>

namespace canigo::gateway {
namespace {

std::vector<net::any_io_executor> executors_of(const std::vector<std::unique_ptr<loop>>& loops) {
  std::vector<net::any_io_executor> executors;
  for (const auto& l : loops) executors.emplace_back(l->io.get_executor());
  return executors;
}

/// The same object, with a count of uses of its own.
std::shared_ptr<const generation> own_count(std::shared_ptr<const generation> g) {
  const auto held = std::make_shared<std::shared_ptr<const generation>>(std::move(g));
  return {held, held->get()};
}

/// Counts one more, until its last copy goes.
std::shared_ptr<void> counted_in(std::shared_ptr<wait_group> group) {
  group->add();
  wait_group& g = *group;
  return {&g, [group = std::move(group)](void*) { group->done(); }};
}

config_mistake mistake_of_redis(const system_error& e) {
  // "redis url: port is 0; allowed: ...: invalid argument [...]"
  const std::string_view what = e.what();
  return {"redis", fmt::format(": {}", what.substr(0, what.rfind(": ")))};
}

bool is_loopback(const std::string& address) {
  error_code error;
  const net::ip::address a = net::ip::make_address(address, error);
  if (error) return false;
  const bool is_mapped = a.is_v6() && a.to_v6().is_v4_mapped();
  return is_mapped ? net::ip::make_address_v4(net::ip::v4_mapped, a.to_v6()).is_loopback() : a.is_loopback();
}

}  // namespace

std::string connection_counts::enter(const std::string& address) {
  const std::lock_guard lock{mutex_};
  const auto refuse = [this](std::string_view bound, std::size_t value) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return fmt::format("limits.connections.{} is {}", bound, value);
  };
  if (all_ >= limits_.all) return refuse("all", limits_.all);
  const auto here = by_address_.find(address);
  if (here != by_address_.end() && here->second >= limits_.per_address)
    return refuse("per_address", limits_.per_address);
  count(address);
  return {};
}

void connection_counts::replace(const std::string& address) {
  const std::lock_guard lock{mutex_};
  count(address);
}

void connection_counts::count(const std::string& address) {
  if (!address.empty() && !is_loopback(address)) ++by_address_[address];
  ++all_;
}

void connection_counts::leave(const std::string& address) noexcept {
  const std::lock_guard lock{mutex_};
  --all_;
  const auto here = by_address_.find(address);
  if (here != by_address_.end() && --here->second == 0) by_address_.erase(here);
}

std::size_t connection_counts::all() const {
  const std::lock_guard lock{mutex_};
  return all_;
}

void connection_counts::set_limits(const connection_limits& limits) {
  const std::lock_guard lock{mutex_};
  limits_ = limits;
}

service::service(config c, std::string file, const std::vector<std::unique_ptr<loop>>& loops)
    : log{c.access_log},
      counts{loops.size()},
      clients{c.connections},
      kept{c.size.buffered},
      file_{std::move(file)},
      loops_{loops},
      store_{open_store(c, loops.front()->io.get_executor())},
      current_{std::make_shared<generation>(std::move(c), executors_of(loops), client_of_store(), nullptr)} {
  for (const auto& l : loops) l->now = own_count(current_);
  std::random_device random;
  process_ = fmt::format("{:08x}", random());
  via_ = "1.1 canigo-" + process_;
}

service::~service() {
  // A generation has parts on all loops, so it must not outlive one of them.
  for (const auto& l : loops_) l->now.reset();
}

std::shared_ptr<const generation> service::current() const {
  const std::lock_guard lock{mutex_};
  return current_;
}

net::awaitable<std::vector<std::string>> service::reload() {
  std::shared_ptr<generation> next;
  std::vector<std::string> wrong = begin_reload(next);
  if (wrong.empty()) {
    auto moving = move_callers(next);
    co_await std::move(moving);
    next->end_take_over();
  }
  (wrong.empty() ? counts.reloads : counts.reloads_refused).fetch_add(1, std::memory_order_relaxed);
  co_return wrong;
}

std::vector<std::string> service::begin_reload(std::shared_ptr<generation>& next) {
  if (is_draining()) return {file_ + ": this instance ends, so it takes no other configuration"};
  if (is_special_file(file_)) return {file_ + ": is a pipe, a socket or a device, which is read at the start only"};
  std::vector<std::string> wrong;
  auto read = read_config(file_);
  for (const config_error& e : read.errors) wrong.push_back(message_of(e, file_));
  if (!read.value) return wrong;
  const std::shared_ptr<const generation> before = current();
  const auto tell = [&](const value_error& e) { wrong.push_back(message_of(read.values->locate(e), file_)); };
  for (const value_error& e : changes_for_restart(before->settings, *read.value)) tell(e);
  if (!wrong.empty()) return wrong;
  try {
    next = std::make_shared<generation>(std::move(*read.value), executors_of(loops_), client_of_store(), before.get());
    auto to = access_log::open(next->settings.access_log);
    next->take_over(*before);
    log.use(std::move(to));
  } catch (const config_mistake& e) {
    tell(e.error);
    return wrong;
  } catch (const std::exception& e) {
    return {file_ + ": " + e.what()};
  }
  clients.set_limits(next->settings.connections);
  kept.set_most(next->settings.size.buffered);
  {
    const std::lock_guard lock{mutex_};
    current_ = next;
  }
  return {};
}

/// Lets each loop go by `next`. Ends when nobody waits by what he had of an earlier generation.
net::awaitable<void> service::move_callers(std::shared_ptr<const generation> next) {
  const auto waiting = std::make_shared<wait_group>(loops_.front()->io);
  for (const auto& l : loops_) {
    net::post(l->io, [&l = *l, next, counted = counted_in(waiting)] {
      l.now = own_count(next);
      // In the order of arrival: some go to another queue.
      std::vector<connection*> all{l.connections.begin(), l.connections.end()};
      std::ranges::sort(all, {}, &connection::since);
      for (connection* c : all) c->follow(*next, counted);
    });
  }
  co_await waiting->wait();
}

std::unique_ptr<shared_store> service::open_store(const config& c, const net::any_io_executor& loop) {
  if (c.redis.source.empty()) return nullptr;
  try {
    return std::make_unique<shared_store>(loop, c.redis.value, c.redis_tls, [this] { end_waits_for_others(); });
  } catch (const system_error& e) {
    throw mistake_of_redis(e);
  }
}

void service::check(const config& c) {
  access_log::check(c.access_log);
  std::ignore = generation::make_certificates(c);
  if (c.redis.source.empty()) return;
  net::io_context nowhere;
  try {
    const redis::client unused{nowhere, c.redis.value};
  } catch (const system_error& e) {
    throw mistake_of_redis(e);
  }
}

std::string service::new_request_id() {
  return fmt::format("{}-{:x}", process_, next_request_.fetch_add(1, std::memory_order_relaxed));
}

std::size_t service::waiting() const {
  const auto now = current();
  std::size_t all = 0;
  const auto add = [&all](upstream_queue& q) { all += q.limit().stats().waiting + q.limits().outside().all(); };
  for (std::size_t i = 0; i < now->queues(); ++i) add(now->queue(i));
  if (now->hosts() != nullptr)
    for (const auto& q : now->hosts()->all()) add(*q);
  return all;
}

void service::pause(upstream_queue& q, std::size_t tenant, time_point until, const call_record& r, int status) {
  origins.note(r, status, q.settings().credential.is_passed());
  q.pause(tenant, until);
  end_long_waits(q, is_draining() ? end() - std::chrono::steady_clock::now() : duration::max());
}

void service::end_long_waits(upstream_queue& q, duration most) {
  const auto estimates = std::make_shared<std::unordered_map<std::uint64_t, duration>>();
  redis_limit* const shared = q.limits().shared();
  const duration least = shared != nullptr ? shared->least_wait() : duration::zero();
  for (const waiting_request& w : q.limit().waiting(q.settings().queue)) {
    estimates->emplace(w.tag, std::max(w.estimate, least));
  }
  if (estimates->empty()) return;
  for (const auto& l : loops_) {
    net::post(l->io, [&l = *l, estimates, most] {
      for (connection* c : std::vector<connection*>{l.connections.begin(), l.connections.end()}) {
        c->give_up(*estimates, most);
      }
    });
  }
}

void service::close_idle_links() {
  constexpr duration between = std::chrono::milliseconds{20};
  const duration now = std::chrono::steady_clock::now().time_since_epoch();
  duration::rep last = idle_closed_.load(std::memory_order_relaxed);
  if (duration{last} > now - between || !idle_closed_.compare_exchange_strong(last, now.count())) return;
  for (const auto& l : loops_) {
    net::post(l->io, [&l = *l] {
      for (std::size_t i = 0; i < l.now->queues(); ++i) l.now->queue(i).pool(l.index).close_idle();
      if (l.now->hosts() == nullptr) return;
      for (const auto& q : l.now->hosts()->all()) q->pool(l.index).close_idle();
    });
  }
}

/// Another instance may have paused an upstream.
void service::end_waits_for_others() {
  constexpr duration worth_a_look = std::chrono::seconds{1};
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i) {
    redis_limit* const shared = now->queue(i).limits().shared();
    if (shared != nullptr && shared->least_wait() > worth_a_look) end_long_waits(now->queue(i), duration::max());
  }
}

void service::end_long_waits(duration most) {
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i) end_long_waits(now->queue(i), most);
  if (now->hosts() == nullptr) return;
  for (const auto& q : now->hosts()->all()) end_long_waits(*q, most);
}

void service::stop_waiting() noexcept {
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i) now->queue(i).limit().stop();
  if (now->hosts() != nullptr) now->hosts()->stop();
}

}  // namespace canigo::gateway
