#include "store_health.hpp"

#include "run_report.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo::jobs::detail {
namespace {

/// The error text for a lack of memory.
constexpr const char* no_memory = "no memory";

}  // namespace

void store_health::failed(std::size_t of, const std::exception_ptr& error) noexcept {
  const std::error_code code = code_of(error);
  std::string text;
  try {
    text = text_of(error);
  } catch (...) {
    text = no_memory;  // this assignment allocates nothing, because so short a text fits into the string object
  }
  store_failure event{.code = code, .text = text};
  {
    const std::lock_guard lock{mutex_};
    failure& f = failures_[of];
    event.failures = ++f.in_a_row;
    f.place = ++all_;
    f.code = code;
    if (observer_ == nullptr) {
      f.text = std::move(text);
    } else {
      try {
        f.text = text;
      } catch (...) {
        f.text = no_memory;
      }
    }
  }
  if (observer_ != nullptr) observer_->store_failed(event);
}

void store_health::succeeded(std::size_t of, bool has_written) noexcept {
  bool is_back = false;
  {
    const std::lock_guard lock{mutex_};
    const auto fails = [](const failure& f) { return f.in_a_row > 0; };
    if (std::ranges::none_of(failures_, fails)) return;
    failures_[of] = {};
    if (of >= claims) failures_[opening] = {};
    if (has_written) {
      for (const auto other : {runs, schedules}) failures_[other] = {};
    }
    is_back = std::ranges::none_of(failures_, fails);
  }
  if (is_back && observer_ != nullptr) observer_->store_recovered();
}

void store_health::show(service_stats& s) const {
  const std::lock_guard lock{mutex_};
  s.store_failures = all_;
  const auto last =
      std::ranges::max_element(failures_, {}, [](const failure& f) { return f.in_a_row > 0 ? f.place : 0; });
  if (last->in_a_row == 0) return;
  s.last_error = last->text;
  s.last_error_code = last->code;
}

}  // namespace canigo::jobs::detail
