#include "canigo/detail/keys/key_table.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <string>

using canigo::detail::key_table;

namespace key_table_test {

using table = key_table<std::string, int>;

std::uint64_t hash_of(const std::string& key) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : key) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h * 0x9e3779b97f4a7c15;
}

void put(table& t, const std::string& key, int value) {
  if (t.is_crowded()) t.grow(hash_of);
  t.insert(hash_of(key), key, value);
}

TEST_CASE("a key table does what a map does, whatever is put and erased", "[key_table]") {
  std::mt19937_64 random{4711};
  for (int round = 0; round < 30; ++round) {
    table t;
    std::map<std::string, int> model;
    const std::uint64_t keys = 1 + random() % 400;
    for (int step = 0; step < 3'000; ++step) {
      const std::string key = "key " + std::to_string(random() % keys);
      auto* e = t.find(hash_of(key), key);
      const auto known = model.find(key);
      REQUIRE((e != nullptr) == (known != model.end()));
      if (e != nullptr) REQUIRE(e->value == known->second);
      if (e == nullptr) {
        put(t, key, step);
        model[key] = step;
      } else if (random() % 3 != 0) {
        t.erase(*e);
        model.erase(known);
      }
      REQUIRE(t.size() == model.size());
    }
    std::size_t seen = 0;
    t.for_each([&](table::entry& e) {
      ++seen;
      CHECK(model.at(e.key) == e.value);
    });
    CHECK(seen == model.size());
  }
}

TEST_CASE("a key table grows by half, and is never more than seven eighths full", "[key_table]") {
  table t;
  CHECK(t.is_crowded());
  CHECK(t.bytes() == 0);
  for (int i = 0; i < 10'000; ++i) {
    put(t, std::to_string(i), i);
    REQUIRE(t.size() * 8 <= t.capacity() * 7);
  }
  CHECK(t.capacity() < 10'000 * 2);
  CHECK(t.bytes() == t.capacity() * (sizeof(table::entry) + 4));
}

TEST_CASE("a sweep looks at each place in turn, and erases the entries that are to go", "[key_table]") {
  table t;
  for (int i = 0; i < 1'000; ++i) put(t, std::to_string(i), i);
  std::size_t erased = 0;
  std::size_t looked = 0;
  for (int turn = 0; turn < 400; ++turn) {
    erased += t.sweep(10, [&](const table::entry& e) {
      ++looked;
      return e.value % 2 == 0;
    });
  }
  CHECK(erased == 500);
  CHECK(t.size() == 500);
  CHECK(looked < 4'000 + 500);
  for (int i = 0; i < 1'000; ++i) {
    REQUIRE((t.find(hash_of(std::to_string(i)), std::to_string(i)) != nullptr) == (i % 2 == 1));
  }
  CHECK(table{}.sweep(10, [](const table::entry&) { return true; }) == 0);
}

TEST_CASE("keys of one hash are all found", "[key_table]") {
  table t;
  const auto same = [](const std::string&) { return std::uint64_t{~0ull}; };
  for (int i = 0; i < 500; ++i) {
    if (t.is_crowded()) t.grow(same);
    t.insert(~0ull, std::to_string(i), i);
  }
  for (int i = 0; i < 500; i += 2) t.erase(*t.find(~0ull, std::to_string(i)));
  for (int i = 0; i < 500; ++i) CHECK((t.find(~0ull, std::to_string(i)) != nullptr) == (i % 2 == 1));
  CHECK(t.find_if(~0ull, [](const table::entry& e) { return e.value == 77; })->key == "77");
}

}  // namespace key_table_test
