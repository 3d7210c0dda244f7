#include "gateway/process/service.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/wait_group.hpp"

#include "gateway/call/call.hpp"
#include "gateway/call/call_money.hpp"
#include "gateway/config/file_kind.hpp"
#include "gateway/config/file_values.hpp"
#include "gateway/config/reader.hpp"
#include "gateway/config/restart.hpp"

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

std::vector<call_loop*> call_loops(const std::vector<std::unique_ptr<loop>>& loops) {
  std::vector<call_loop*> all;
  for (const auto& l : loops) all.push_back(l.get());
  return all;
}

/// Returns a pointer to the same object as `g`, with a reference count of its own. So each loop can copy its pointer
/// without touching the reference count of another loop.
std::shared_ptr<const config_snapshot> own_count(std::shared_ptr<const config_snapshot> g) {
  const auto held = std::make_shared<std::shared_ptr<const config_snapshot>>(std::move(g));
  return {held, held->get()};
}

/// Calls add() of the group, and returns a pointer. When the last copy of the pointer is destroyed, done() is called.
std::shared_ptr<void> counted_in(std::shared_ptr<wait_group> group) {
  group->add();
  wait_group& g = *group;
  return {&g, [group = std::move(group)](void*) { group->done(); }};
}

config_mistake mistake_of_redis(const system_error& e) {
  // The text of the exception has the form "redis url: port is 0; allowed: ...: invalid argument [...]". The part after
  // the last colon and space is left out.
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

service::service(config c, std::string file, const std::vector<std::unique_ptr<loop>>& loops, admin_handler& by)
    : call_services{call_loops(loops), c.size.buffered, open_state(c), static_cast<int>(c.classes.size()), c.ageing},
      admin{&by},
      log{c.access_log},
      clients{c.connections},
      file_{std::move(file)},
      loops_{loops},
      store_{open_store(c, loops.front()->io.get_executor())},
      current_{std::make_shared<config_snapshot>(std::move(c), executors_of(loops), client_of_store(), nullptr)} {
  for (const auto& l : loops) l->now = own_count(current_);
  if (!budgets->is_shared()) return;
  sums_ = std::make_shared<shared_sums>(loops.front()->io.get_executor(), store_->client(), budgets);
  sums_->start();
  // look_at() asks Redis for the sum that all instances have spent of a budget. So the admin page also shows the money
  // that was spent before this process began.
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  for (const budget_ledger::budget& b : shown_budgets(current_->settings)) budgets->look_at(b, now);
}

service::~service() {
  if (sums_) sums_->stop();
  // A snapshot has objects on all loops. So all snapshots must be destroyed before any loop is destroyed.
  for (const auto& l : loops_) l->now.reset();
}

std::shared_ptr<const config_snapshot> service::current() const {
  const std::lock_guard lock{mutex_};
  return current_;
}

net::awaitable<std::vector<std::string>> service::reload() {
  std::shared_ptr<config_snapshot> next;
  std::vector<std::string> wrong = begin_reload(next);
  if (wrong.empty()) {
    auto moving = move_callers(next);
    co_await std::move(moving);
    next->end_take_over();
    lines->look_again();
  }
  (wrong.empty() ? counts.reloads : counts.reloads_refused).fetch_add(1, std::memory_order_relaxed);
  co_return wrong;
}

std::vector<std::string> service::begin_reload(std::shared_ptr<config_snapshot>& next) {
  if (is_draining()) return {file_ + ": this instance ends, so it takes no other configuration"};
  if (is_special_file(file_)) return {file_ + ": is a pipe, a socket or a device, which is read at the start only"};
  std::vector<std::string> wrong;
  auto read = read_config(file_);
  for (const config_error& e : read.errors) wrong.push_back(message_of(e, file_));
  if (!read.value) return wrong;
  const std::shared_ptr<const config_snapshot> before = current();
  const auto tell = [&](const value_error& e) { wrong.push_back(message_of(read.values->locate(e), file_)); };
  for (const value_error& e : changes_for_restart(before->settings, *read.value)) tell(e);
  if (!wrong.empty()) return wrong;
  try {
    next = std::make_shared<config_snapshot>(std::move(*read.value), executors_of(loops_), client_of_store(),
                                             before.get());
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

/// Makes each loop use the configuration `next`, and moves the waiting calls to it. Returns when no call waits under an
/// earlier configuration.
net::awaitable<void> service::move_callers(std::shared_ptr<const config_snapshot> next) {
  const auto waiting = std::make_shared<wait_group>(loops_.front()->io);
  for (const auto& l : loops_) {
    net::post(l->io, [&l = *l, next, counted = counted_in(waiting)] {
      l.now = own_count(next);
      // The calls are moved in the order of their arrival. So calls that must enter another queue keep this order in
      // that queue.
      std::vector<call*> all;
      l.requests.each([&all](call& c) { all.push_back(&c); });
      std::ranges::sort(all, {}, [](const call* c) { return c->record().since; });
      for (call* c : all) c->follow(*next, counted);
    });
  }
  co_await waiting->wait();
}

std::shared_ptr<budget_ledger> service::open_state(const config& c) {
  if (c.state.empty()) return std::make_shared<budget_ledger>(nullptr);
  if (c.shares_budgets()) {
    std::random_device random;
    return std::make_shared<budget_ledger>(
        budget_ledger::instance_name{fmt::format("{:08x}{:08x}", random(), random())});
  }
  try {
    return std::make_shared<budget_ledger>(std::make_unique<spent_store>(c.state));
  } catch (const std::exception& e) {
    throw start_failure{"state", std::string{": "} + e.what()};
  }
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
  std::ignore = config_snapshot::make_certificates(c);
  try {
    if (!c.state.empty() && !c.shares_budgets()) spent_store::check(c.state);
  } catch (const std::exception& e) {
    throw config_mistake{"state", std::string{": "} + e.what()};
  }
  if (c.redis.source.empty()) return;
  net::io_context nowhere;
  try {
    const redis::client unused{nowhere, c.redis.value};
  } catch (const system_error& e) {
    throw mistake_of_redis(e);
  }
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

/// Called when another instance may have paused an upstream through Redis. For each upstream whose shared limit makes
/// calls wait more than 1 s, ends the waits that have become too long.
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
  end_waits();
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i) now->queue(i).limit().stop();
  if (now->hosts() != nullptr) now->hosts()->stop();
}

void service::leave_redis() noexcept {
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i)
    if (redis_limit* const shared = now->queue(i).limits().shared()) shared->leave();
}

bool service::is_leaving_redis() const {
  if (sums_ && budgets->has_news()) return true;
  const auto now = current();
  for (std::size_t i = 0; i < now->queues(); ++i) {
    const redis_limit* const shared = now->queue(i).limits().shared();
    if (shared != nullptr && shared->is_leaving()) return true;
  }
  return false;
}

}  // namespace canigo::gateway
