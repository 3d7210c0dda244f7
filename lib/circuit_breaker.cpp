#include "canigo/circuit_breaker.hpp"

#include "canigo/detail/around/breaker_core.hpp"
#include "canigo/error.hpp"

#include <string>
#include <utility>

namespace canigo {

namespace {

/// Returns the text of the error. The text does not contain the value of `open_for`, because this value differs from
/// call to call.
std::string why_refused(duration open_for, const std::string& name) {
  const std::string who = name.empty() ? "circuit_breaker" : "circuit_breaker " + name;
  if (open_for == duration::max()) return who + ": forced open";
  return open_for == duration::zero() ? who + ": its probes are under way" : who;
}

}  // namespace

circuit_open_error::circuit_open_error(duration open_for, const std::string& name)
    : std::system_error{make_error_code(errc::circuit_open), why_refused(open_for, name)}, open_for_{open_for} {}

void circuit_pass::succeeded() noexcept {
  if (core_ != nullptr) std::exchange(core_, nullptr)->leave(epoch_, since_, detail::breaker_core::end::succeeded);
}

void circuit_pass::failed() noexcept {
  if (core_ != nullptr) std::exchange(core_, nullptr)->leave(epoch_, since_, detail::breaker_core::end::failed);
}

void circuit_pass::failed_with(const std::exception_ptr& error) {
  if (core_ == nullptr) return;
  core_->is_failure(error) ? failed() : leave();
}

void circuit_pass::begin() noexcept {
  if (core_ != nullptr) since_ = core_->now();
}

void circuit_pass::leave() noexcept {
  std::exchange(core_, nullptr)->leave(epoch_, since_, detail::breaker_core::end::unreported);
}

circuit_breaker::circuit_breaker(const net::any_io_executor& executor, const circuit_breaker_options& options)
    : core_{detail::breaker_core::open(executor, options)} {}

circuit_breaker::~circuit_breaker() { core_->release_ref(); }

circuit_pass circuit_breaker::enter() {
  const auto e = core_->enter();
  if (!e.goes) throw circuit_open_error{e.open_for, core_->name()};
  return {*core_, e.epoch, e.since};
}

std::optional<circuit_pass> circuit_breaker::try_enter() noexcept {
  const auto e = core_->enter();
  if (!e.goes) return std::nullopt;
  return circuit_pass{*core_, e.epoch, e.since};
}

void circuit_breaker::force_open() noexcept {
  core_->change([](circuit& c, time_point now) { c.force_open(now); });
}

void circuit_breaker::force_closed() noexcept {
  core_->change([](circuit& c, time_point now) { c.force_closed(now); });
}

void circuit_breaker::reset() noexcept {
  core_->change([](circuit& c, time_point now) { c.reset(now); });
}

void circuit_breaker::set_mode(enforcement mode) {
  if (mode != enforcement::enforce && mode != enforcement::shadow) {
    detail::throw_invalid("circuit_breaker.set_mode: mode", static_cast<int>(mode), "enforce, shadow");
  }
  core_->set_mode(mode);
}

circuit_state circuit_breaker::state() const noexcept {
  return core_->look([](const circuit& c, const detail::circuit_counts&, time_point now) { return c.state(now); });
}

circuit_breaker_stats circuit_breaker::stats() const noexcept {
  return core_->look([](const circuit& c, const detail::circuit_counts& n, time_point now) {
    return circuit_breaker_stats{.state = c.state(now),
                                 .open_for = c.open_for(now),
                                 .counted = c.counted(now),
                                 .changes = c.last_change().number,
                                 .succeeded = n.succeeded,
                                 .failed = n.failed,
                                 .slow = n.slow,
                                 .unreported = n.unreported,
                                 .refused = n.refused,
                                 .would_refuse = n.would_refuse,
                                 .opened = n.opened};
  });
}

}  // namespace canigo
