#include "canigo/detail/keyed/keyed_base.hpp"

#include "canigo/error.hpp"

#include <mutex>
#include <string>
#include <system_error>

namespace canigo::detail {

engine_owner::~engine_owner() {
  if (engine_ != nullptr) engine_->close();
}

namespace {

/// Checks the options that all keyed limits have in common, and returns the setup of a keyed limit.
template <class Limit, class Options>
keyed_setup<Limit> common(const char* type, const Options& o, const Limit& limit, std::uint64_t largest_request) {
  constexpr std::size_t most = std::size_t{1} << 29;
  const auto field = [&](const char* name) { return std::string{type} + "." + name; };
  if (o.most_keys < 1 || o.most_keys > most) throw_invalid(field("most_keys"), o.most_keys, "1 to 2^29");
  if (o.most_waiting < 1) throw_invalid(field("most_waiting"), o.most_waiting, "1 or more");
  if (o.on_new_key != overflow_of_keys::refuse && o.on_new_key != overflow_of_keys::share_one) {
    throw_invalid(field("on_new_key"), static_cast<int>(o.on_new_key), "refuse, share_one");
  }
  return {limit,
          largest_request,
          o.on_new_key,
          {o.most_keys, o.most_waiting},
          checked(type, {.priorities = o.priorities,
                         .queue_limit = o.queue_limit,
                         .on_overflow = o.on_overflow,
                         .ageing = o.ageing,
                         .name = make_name(o.name)})};
}

}  // namespace

keyed_setup<keyed_tokens> checked(const keyed_scheduler_options& o) {
  check_tokens("keyed_scheduler_options.", o.burst);
  return common("keyed_scheduler_options", o, keyed_tokens{token_bucket{o.rate, o.burst, o.burst, time_point{}}},
                o.burst);
}

keyed_setup<keyed_places> checked(const keyed_semaphore_options& o) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  if (o.permits < 1 || o.permits > most) throw_invalid("keyed_semaphore_options.permits", o.permits, "1 to 2^62");
  return common("keyed_semaphore_options", o, keyed_places{o.permits}, o.permits);
}

keyed_base::keyed_base(const net::any_io_executor& executor, const bounds& b, const admission_options& o,
                       std::uint64_t largest_request)
    : counted_member{executor}, executor_{executor}, bounds_{b}, options_{o}, largest_{largest_request} {}

void keyed_base::check(const request& r) const {
  if (r.priority < 0 || r.priority >= options_.priorities) {
    throw_invalid("request.priority", r.priority, "0 to " + std::to_string(options_.priorities - 1),
                  errc::invalid_priority);
  }
  if (r.tokens == 0) throw_invalid("request.tokens", r.tokens, "1 or more");
  if (r.tokens > largest_) {
    throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(largest_), errc::too_large);
  }
  if (r.flow != nullptr) throw_invalid("request.flow", "of another limit", "none, as each key has a limit of its own");
  if (!r.amounts.empty()) {
    throw_invalid("request.amounts.size()", r.amounts.size(), "0, because this limit has no other unit");
  }
}

time_point keyed_base::now() const noexcept {
  if (!is_virtual_) [[likely]]
    return clock();
  const std::lock_guard lock{mutex_};
  return clock();
}

net::any_io_executor keyed_base::executor() const {
  const std::lock_guard lock{mutex_};
  return executor_;
}

engine_owner keyed_base::open_engine(supplies s) {
  const context_visit here = visit();
  if (!here.lasts() || is_stopped()) throw std::system_error{errc::stopped};
  return engine_owner{admission::open(executor(), std::move(s), options_)};
}

bool keyed_base::claim_key() noexcept {
  std::size_t n = keys_.load(std::memory_order_relaxed);
  while (n < bounds_.most_keys) {
    if (keys_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool keyed_base::claim_waiter() noexcept {
  std::size_t n = waiting_.load(std::memory_order_relaxed);
  while (n < bounds_.most_waiting) {
    if (waiting_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void keyed_base::let_go_of_context() noexcept {
  time_ = nullptr;
  executor_ = {};
}

void keyed_base::end_with_context() noexcept {
  const std::lock_guard lock{mutex_};
  context_gone_ = true;
  note_stopped();
  let_go_of_context();
}

}  // namespace canigo::detail
