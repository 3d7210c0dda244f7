#include "canigo/http/headers.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using canigo::http::headers;
using std::string_view;

namespace {

std::string text_of(const headers& list) {
  std::string text;
  for (const auto [name, value] : list) text.append(name).append("=").append(value).append(";");
  return text;
}

}  // namespace

TEST_CASE("a header is found in any case") {
  headers list;
  list.add("Content-Type", "text/plain");
  CHECK(list.find("content-type") == string_view{"text/plain"});
  CHECK(list.find("CONTENT-TYPE") == string_view{"text/plain"});
  CHECK_FALSE(list.contains("Content-Typ"));
  CHECK_FALSE(list.contains(""));
}

TEST_CASE("headers of one name stay apart and in order") {
  headers list;
  list.add("Set-Cookie", "a=1");
  list.add("Server", "x");
  list.add("set-cookie", "b=2");
  CHECK(list.find("Set-Cookie") == string_view{"a=1"});
  CHECK(list.find_all("Set-Cookie") == std::vector<string_view>{"a=1", "b=2"});
  CHECK(list.find_all("nothing").empty());
  CHECK(text_of(list) == "Set-Cookie=a=1;Server=x;set-cookie=b=2;");
}

TEST_CASE("setting a header replaces all of its name, even by a view of itself") {
  headers list;
  list.add("A", "1");
  list.add("B", "2");
  list.add("a", "3");
  list.set("A", *list.find("B"));
  CHECK(text_of(list) == "B=2;A=2;");
  list.set("A", *list.find("A"));
  CHECK(text_of(list) == "B=2;A=2;");
}

TEST_CASE("a header may be added from a view into the same list, however often that grows it") {
  headers list;
  list.add("Name", "value");
  for (int i = 0; i < 200; ++i) list.add(list[0].name, list[0].value);
  for (const auto h : list) {
    CHECK(h.name == "Name");
    CHECK(h.value == "value");
  }
  CHECK(list.size() == 201);
}

TEST_CASE("a list of headers that grows moves its text seldom") {
  headers list;
  int moves = 0;
  const char* text = nullptr;
  for (int i = 0; i < 10'000; ++i) {
    list.add("name", "a value");
    moves += std::exchange(text, list[0].name.data()) != list[0].name.data() ? 1 : 0;
  }
  CHECK(moves < 20);
}

TEST_CASE("a list of headers that is cleared puts the next ones where the last were") {
  headers list;
  list.add("name", "a value");
  const char* const text = list[0].name.data();
  for (int i = 0; i < 1000; ++i) {
    list.clear();
    list.add("name", "another");
    REQUIRE(list[0].name.data() == text);
  }
}

TEST_CASE("a folded line belongs to the header before it") {
  headers list;
  list.append_to_last("ignored");
  CHECK(list.empty());
  list.add("A", "1");
  list.append_to_last(" 2");
  CHECK(list.find("A") == string_view{"1 2"});
}

TEST_CASE("a cleared list is empty and usable") {
  headers list;
  list.add("A", "1");
  list.remove("a");
  CHECK(list.empty());
  list.add("B", "2");
  list.clear();
  CHECK(list.size() == 0);
  list.add("C", "");
  CHECK(list.find("C") == string_view{""});
}

TEST_CASE("headers are a range") {
  headers list;
  list.add("A", "1");
  list.add("B", "2");
  auto it = list.begin();
  CHECK((*it++).name == "A");
  CHECK((*it).name == "B");
  CHECK(++it == list.end());
}

TEST_CASE("more text than the list can have is refused, and what is there stays") {
  const string_view huge{"x", std::size_t{1} << 32};  // its size is all that is looked at
  headers list;
  list.add("A", "1");
  CHECK_THROWS_AS(list.add(huge, "2"), std::system_error);
  CHECK_THROWS_AS(list.add("B", huge), std::system_error);
  CHECK_THROWS_AS(list.append_to_last(huge), std::system_error);
  CHECK(text_of(list) == "A=1;");
}

TEST_CASE("a value that is not the last text any more is not extended") {
  headers list;
  list.append_to_last("nothing to append to");
  list.add("A", "1");
  list.add("B", "2");
  list.remove("B");
  list.append_to_last("3");
  CHECK(text_of(list) == "A=1;");
}
