#include "canigo/jobs/conformance.hpp"

#include "conformance_cases.hpp"

#include <algorithm>

namespace canigo::jobs::conformance {

void fail(const std::string& text, const place& at) {
  const std::string_view path = at.file_name();
  throw failure{std::string{path.substr(path.rfind('/') + 1)} + ":" + std::to_string(at.line()) + ": " + text};
}

std::vector<claimed_job> tool::claim(std::size_t limit, std::string queue) {
  return wait(store_->claim({.queue = std::move(queue), .limit = limit}));
}

claimed_job tool::claim_one_of(std::string queue, const place& at) {
  auto list = claim(1, std::move(queue));
  if (list.size() != 1) conformance::fail("a job is due, and none came", at);
  return std::move(list.front());
}

std::vector<job_id> tool::ids(std::size_t limit, std::string queue) {
  std::vector<job_id> found;
  for (const claimed_job& j : claim(limit, std::move(queue))) found.push_back(j.lease.id);
  return found;
}

job_info tool::look(job_id id, const place& at) {
  auto found = wait(store_->look(id));
  if (!found) conformance::fail("there is no job " + std::to_string(id), at);
  return std::move(*found);
}

std::span<const test_case> cases() noexcept {
  static const std::vector<test_case> all = [] {
    std::vector<test_case> list;
    add_lease_cases(list);
    add_order_cases(list);
    add_failure_cases(list);
    add_change_cases(list);
    add_unique_cases(list);
    add_content_cases(list);
    add_batch_cases(list);
    std::ranges::sort(list, {}, [](const test_case& c) { return std::pair{c.number, c.name}; });
    return list;
  }();
  return all;
}

}  // namespace canigo::jobs::conformance
