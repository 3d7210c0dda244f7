#include "canigo/detail/queue/units.hpp"

#include "support/refusal.hpp"

#include <string>

using namespace canigo;
using detail::amounts_by_unit;
using detail::unit_record;
using detail::unit_records;
using detail::unit_table;

TEST_CASE("a rate without a unit has that of the first rate", "[units]") {
  const unit_table t{{"requests", "tokens", "", "tokens", "bytes"}, "rates"};
  CHECK(t.size() == 3);
  const std::size_t expected[] = {0, 1, 0, 1, 2};
  for (std::size_t rate = 0; rate < 5; ++rate) CHECK(t.of_rate(rate) == expected[rate]);
  CHECK(unit_table({"", "tokens"}, "rates").of_rate(1) == 1);
  CHECK(unit_table({"", ""}, "rates").size() == 1);
  CHECK(unit_table({}, "rates").size() == 1);
}

TEST_CASE("a unit is found by name and by number", "[units]") {
  const unit_table t{{"requests", "tokens"}, "rates"};
  CHECK(t.find("requests") == 0);
  CHECK(t.find("tokens") == 1);
  CHECK(t.find(1) == 1);
  CHECK(t.find(2) == t.size());
  CHECK(t.find(-1) == t.size());
  CHECK(t.find("bytes") == t.size());
  CHECK(t.find("") == t.size());
  CHECK(unit_table({"", "tokens"}, "rates").find("") == 2);
}

TEST_CASE("a request gets its amount of each unit, and nothing of those that it does not name", "[units]") {
  const unit_table t{{"requests", "tokens", "bytes"}, "rates"};
  amounts_by_unit amounts;
  REQUIRE(t.resolve(3, {{"bytes", 40}}, amounts));
  CHECK(amounts == amounts_by_unit{3, 0, 40});
  REQUIRE(t.resolve(1, {{2, 5}, {"tokens", 6}}, amounts));
  CHECK(amounts == amounts_by_unit{1, 6, 5});
  REQUIRE(t.resolve(1, {}, amounts));
  CHECK(amounts == amounts_by_unit{1});
}

TEST_CASE("what is wrong with the amounts of a request is named", "[units]") {
  const unit_table t{{"requests", "tokens", "bytes"}, "rates"};
  amounts_by_unit amounts;
  const auto wrong = [&](const unit_amounts& a) {
    CHECK_FALSE(t.resolve(1, a, amounts));
    const std::string text = refusal([&] { t.check(a); });
    return text.substr(0, text.rfind(": invalid argument"));
  };
  CHECK(wrong({{"images", 1}}) == R"(request.amounts[0].unit is "images"; allowed: "tokens", "bytes")");
  CHECK(wrong({{"bytes", 1}, {3, 1}}) == R"(request.amounts[1].unit is 3; allowed: "tokens", "bytes")");
  CHECK(wrong({{"tokens", 1}, {1, 2}}) == "request.amounts[1].unit is 1 again; allowed: each unit once");
  CHECK(wrong({{"requests", 2}}) == R"(request.amounts[0].unit is "requests"; allowed: "tokens", "bytes")"
                                    "; request.tokens is the amount of that unit");
  t.check({{"tokens", 1}, {"bytes", 0}});
}

TEST_CASE("a limit has up to five units", "[units]") {
  CHECK(unit_table({"a", "b", "c", "d", "e", "a"}, "rates").size() == 5);
  CHECK(refusal([] {
          unit_table({"a", "b", "c", "d", "e", "f"}, "limiter_options.rates");
        }).find(R"(limiter_options.rates[5].unit is "f"; allowed: "a", "b", "c", "d", "e")") == 0);
}

TEST_CASE("a record that comes back is the next to be taken, and a promised one is kept", "[units]") {
  unit_records records;
  unit_record* const first = records.take();
  REQUIRE(first != nullptr);
  records.put_back(first);
  REQUIRE(records.reserve());
  records.promise(time_point{duration{7}});
  unit_record* const second = records.take();
  CHECK(second != first);
  CHECK(records.take_promised() == first);
  CHECK(first->granted_at == time_point{duration{7}});
  records.put_back(first);
  records.put_back(second);
}

TEST_CASE("a promised record is found by the set, the sublimit and the amounts that were asked for", "[units]") {
  unit_records records;
  const canigo::detail::amounts_by_unit few{1}, many{7};
  const auto promise = [&](std::uint64_t asked, const canigo::detail::amounts_by_unit& amounts) {
    REQUIRE(records.reserve());
    unit_record& r = records.promise(time_point{});
    r.asked = asked;
    r.amounts = amounts;
    return &r;
  };
  unit_record *const first = promise(1, few), *const second = promise(2, few);
  unit_record *const third = promise(2, many), *const fourth = promise(1, many);
  CHECK(records.take_promised({1}, few) == first);
  CHECK(records.take_promised({2}, many) == third);
  CHECK(records.take_promised({2}, few) == second);
  CHECK(records.take_promised({1}, many) == fourth);
  unit_record *const fifth = promise(1, few), *const sixth = promise(1, few);
  fifth->sublimit = 3;
  sixth->sublimit = 4;
  CHECK(records.take_promised({1, 3}, few) == fifth);
  CHECK(records.take_promised({1, 4}, few) == sixth);
  for (unit_record* r : {first, second, third, fourth, fifth, sixth}) records.put_back(r);
}
