#include "run_report.hpp"

#include "canigo/error.hpp"
#include "canigo/jobs/job.hpp"

#include <asio/error.hpp>

#include <utility>

namespace canigo::jobs::detail {
namespace {

bool is_hopeless(const std::exception_ptr& e) noexcept {
  try {
    std::rethrow_exception(e);
  } catch (const hopeless&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Returns true if the stopping service has ended the run, or if the pool has refused the run. Returns false if the
/// handler has ended the run.
bool is_undone(const run_end& end) noexcept {
  const std::error_code code = code_of(end.error);
  if (!end.has_begun) return static_cast<bool>(code);  // an error code here means that the pool refused the run
  return end.is_service_stopping && !end.was_told_to_end &&
         (code == errc::stopped || code == net::error::operation_aborted);
}

}  // namespace

run_report report_of(run_end end, std::uint32_t attempt, const backoff& retry, std::uint64_t random) {
  using type = run_report::type;
  if (!end.error) {
    if (end.snooze) return {.what = type::snooze, .span = *end.snooze};
    return {.what = type::complete, .text = std::move(end.result)};
  }
  if (end.is_lost) return {};
  if (is_undone(end)) return {.what = type::give_back};
  const duration span = is_hopeless(end.error) ? duration::max() : retry.delay(attempt, random);
  return {.what = type::fail, .text = text_of(end.error), .span = span};
}

net::awaitable<verdict> send(store& s, lease l, const run_report& r) {
  switch (r.what) {
    case run_report::type::complete:
      return s.complete(l, r.text);
    case run_report::type::fail:
      return s.fail(l, r.text, r.span);
    case run_report::type::snooze:
      return s.snooze(l, r.span);
    default:
      return s.give_back(l);
  }
}

std::error_code code_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& s) {
    return s.code();
  } catch (...) {
    return {};
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& x) {
    return x.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace canigo::jobs::detail
