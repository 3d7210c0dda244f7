// A store in a file while memory runs out at any point. A program of its own, as it replaces the heap.

#include "canigo/error.hpp"
#include "canigo/jobs/error.hpp"
#include "canigo/jobs/sqlite_store.hpp"

#include "sqlite_world.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace canigo;
using allocations::failing, allocations::for_every_allocation;

TEST_CASE("a store in a file that lacks memory at any point carries each step out whole or not at all", "[jobs]") {
  sqlite_world world;
  const auto store = world.open();
  const auto count = [&] {
    jobs::list_request all;
    return world.wait(store->list(std::move(all))).size();
  };
  std::size_t before = count();
  const auto points = for_every_allocation([&](std::int64_t k) {
    std::vector<jobs::new_job> two{{.kind = "a"}, {.kind = "b", .unique_key = "key " + std::to_string(k)}};
    std::error_code error;
    bool has_failed = false;
    {
      failing memory{k, allocations::unaligned};
      try {
        world.wait(store->put_all(std::move(two)));
      } catch (const std::bad_alloc&) {
        error = errc::not_enough_memory;
      } catch (const std::system_error& e) {
        error = e.code();
      }
      has_failed = memory.stop();
    }
    INFO("allocation " << k << ": " << error.message());
    const std::size_t now = count();
    if (error) {
      CHECK((now == before || now == before + 2));  // there may be no memory to say that it was carried out
    } else {
      CHECK(now == before + 2);
    }
    before = now;
    return has_failed;
  });
  CHECK(points > 5);
}
