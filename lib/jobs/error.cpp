#include "canigo/jobs/error.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace canigo::jobs {
namespace {

struct description {
  error code;
  std::errc like;  // the equivalent std::errc; errc{}: no std::errc is equivalent
  const char* text;
};

constexpr description descriptions[] = {
    {error::full, std::errc::no_space_on_device, "the store has no space left"},
    {error::read_only, std::errc::read_only_file_system, "the store can't be written"},
    {error::locked, std::errc::resource_unavailable_try_again, "another process keeps the store locked"},
    {error::corrupt, {}, "the store is damaged"},
    {error::newer_schema, {}, "a newer version of canigo made the store"},
    {error::cannot_open, {}, "the store can't be opened"},
    {error::io, std::errc::io_error, "the store can't be read or written"},
    {error::unknown_outcome, {}, "the store may have carried this out, or not"},
    {error::failed, {}, "the database refused"},
    {error::unknown_job, {}, "there is no such job"},
    {error::job_failed, {}, "the job has failed"},
    {error::job_crashed, {}, "the job broke its process too often"},
    {error::job_expired, std::errc::timed_out, "the job's deadline has passed"},
    {error::job_cancelled, {}, "the job was cancelled"},
    {error::not_notified, {}, "the store is not told of changes"},
};

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "jobs"; }

  std::string message(int value) const override {
    const auto* row = find(value);
    return row != std::end(descriptions) ? row->text : "unknown error " + std::to_string(value);
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    const auto* row = find(value);
    if (row == std::end(descriptions) || row->like == std::errc{}) return {value, *this};
    return {static_cast<int>(row->like), std::generic_category()};
  }

 private:
  static const description* find(int value) noexcept {
    return std::ranges::find(descriptions, static_cast<error>(value), &description::code);
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(error code) noexcept { return {static_cast<int>(code), error_category()}; }

}  // namespace canigo::jobs
