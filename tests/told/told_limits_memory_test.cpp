// Reading what servers tell of their limits takes no memory. A program of its own, as it replaces the heap.

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "told/answers.hpp"
#include "told/read_answer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

using namespace told_tests;

TEST_CASE("what a server tells of its limits is read without memory", "[told]") {
  const allocations::counted all;
  std::size_t quotas = 0;
  for (const answer& a : answers) quotas += read_fields(a.fields, midnight, std::chrono::hours{1}).quotas().size();
  const std::int64_t allocated = all.so_far();
  CHECK(allocated == 0);
  CHECK(quotas > 0);
}
