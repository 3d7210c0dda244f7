#include "canigo/jobs/error.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"

#include <set>
#include <string>
#include <system_error>

using namespace canigo;

TEST_CASE("each error of jobs has a text of its own", "[jobs]") {
  std::set<std::string> texts;
  constexpr int last = static_cast<int>(jobs::error::not_notified);
  for (int code = 1; code <= last; ++code) texts.insert(jobs::error_category().message(code));
  CHECK(texts.size() == last);
  CHECK(jobs::error_category().message(last + 1) == "unknown error " + std::to_string(last + 1));
  CHECK(std::string{jobs::error_category().name()} == "jobs");
}

TEST_CASE("errors of jobs equal the system's where one fits", "[jobs]") {
  const auto code = [](jobs::error e) { return make_error_code(e); };
  CHECK(code(jobs::error::full) == std::errc::no_space_on_device);
  CHECK(code(jobs::error::read_only) == std::errc::read_only_file_system);
  CHECK(code(jobs::error::locked) == std::errc::resource_unavailable_try_again);
  CHECK(code(jobs::error::io) == std::errc::io_error);
  CHECK(code(jobs::error::job_expired) == std::errc::timed_out);
  CHECK(code(jobs::error::corrupt) != std::errc::io_error);
  CHECK(code(jobs::error::job_cancelled) != std::errc::operation_canceled);
  CHECK(code(jobs::error::full) != make_error_code(errc::queue_full));
  CHECK(std::error_code{jobs::error::corrupt} == jobs::error::corrupt);
}
