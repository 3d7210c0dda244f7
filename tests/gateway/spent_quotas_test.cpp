#include "gateway/policy/spent_quotas.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using canigo::time_point;
using canigo::gateway::spent_quota;
using canigo::gateway::spent_quotas;

namespace {

const time_point now{100h};

spent_quota spent(std::string tenant, std::string model, std::string name, time_point until) {
  spent_quota q;
  q.tenant = std::move(tenant);
  q.model = std::move(model);
  q.name = std::move(name);
  q.until = until;
  return q;
}

std::string name_of_found(const spent_quotas& all, std::string_view tenant, std::string_view model, time_point t) {
  const spent_quota* const q = all.find(tenant, model, t);
  return q == nullptr ? "" : q->name;
}

}  // namespace

TEST_CASE("gateway: a used up quota refuses its model, or all models, of its tenant until the reset", "[gateway]") {
  spent_quotas all;
  CHECK(all.find("", "", now) == nullptr);
  all.note(spent("", "m", "of m", now + 5h), now);
  CHECK(name_of_found(all, "", "m", now) == "of m");
  CHECK(name_of_found(all, "", "m", now + 5h - 1ns) == "of m");
  CHECK(name_of_found(all, "", "m", now + 5h).empty());
  CHECK(name_of_found(all, "", "n", now).empty());
  CHECK(name_of_found(all, "", "", now).empty());
  CHECK(name_of_found(all, "t", "m", now).empty());
  all.note(spent("t", "", "of t", now + 2h), now);
  CHECK(name_of_found(all, "t", "m", now) == "of t");
  CHECK(name_of_found(all, "t", "", now) == "of t");
  CHECK(name_of_found(all, "u", "m", now).empty());
  CHECK(all.all(now).size() == 2);
  CHECK(all.all(now + 3h).size() == 1);
  all.forget();
  CHECK(all.all(now).empty());
  CHECK(all.find("", "m", now) == nullptr);
}

TEST_CASE("gateway: of the same quota the last word counts, and few are known", "[gateway]") {
  spent_quotas all;
  all.note(spent("", "m", "first", now + 5h), now);
  all.note(spent("", "m", "second", now + 1h), now);
  CHECK(all.all(now).size() == 1);
  CHECK(name_of_found(all, "", "m", now + 1h).empty());
  for (std::size_t i = 0; i < spent_quotas::most; ++i)
    all.note(spent("", std::to_string(i), "of a stranger", now + 5h), now);
  CHECK(all.all(now).size() == spent_quotas::most);
  CHECK(name_of_found(all, "", "m", now).empty());
  CHECK(name_of_found(all, "", "0", now) == "of a stranger");
  all.note(spent("", "m", "third", now + 9h), now + 6h);
  CHECK(all.all(now + 6h).size() == 1);
}
