#include "gateway/wire/json_scan.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>

namespace {

using canigo::gateway::json_end;
using canigo::gateway::most_json_depth;
using canigo::gateway::scan_json;
using canigo::gateway::told_of_text;

class recorder final : public canigo::gateway::json_visitor {
 public:
  void begin_object() override { said += "{ "; }
  void end_object() override { said += "} "; }
  void begin_list() override { said += "[ "; }
  void end_list() override { said += "] "; }
  void name(std::string_view n) override { said.append(n).append(": "); }
  void text(std::string_view beginning, std::size_t size) override {
    said.append("'").append(beginning).append("'").append(std::to_string(size)).append(" ");
  }
  void whole_number(std::uint64_t n) override { said += "+" + std::to_string(n) + " "; }
  void other_number(double n) override { said += "~" + std::to_string(n) + " "; }
  void boolean(bool b) override { said += b ? "true " : "false "; }
  void null() override { said += "null "; }

  std::string said;
};

std::string scanned(std::string_view document, json_end end = json_end::blanks) {
  recorder r;
  const bool is_json = scan_json(document, r, end);
  return is_json ? r.said : "refused";
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("gateway: a document is told in its order", "[gateway]") {
  CHECK(scanned(R"( {"a": [1, -2, 3.5, 1e2], "b": {"c": "x"}, "d": true, "e": null} )") ==
        "{ a: [ +1 ~-2.000000 ~3.500000 ~100.000000 ] b: { c: 'x'1 } d: true e: null } ");
  CHECK(scanned("18446744073709551615") == "+18446744073709551615 ");
  CHECK(scanned("18446744073709551616") == "~18446744073709551616.000000 ");
  CHECK(scanned("[0e309, -0.0e999, 1e-999]") == "[ ~0.000000 ~0.000000 ~0.000000 ] ");
  CHECK(scanned("[1e999, -1e999]") == "[ ~inf ~-inf ] ");
  CHECK(scanned("\xef\xbb\xbf{}") == "{ } ");
}

TEST_CASE("gateway: names and texts are decoded, and a text's first bytes are told", "[gateway]") {
  CHECK(scanned(R"({"us\u0061ge": "d\u0061ta:\n"})") == "{ usage: 'data:\n'6 } ");
  CHECK(scanned(R"({"\ud83d\ude00\"": ""})") == "{ \xf0\x9f\x98\x80\": ''0 } ");
  const std::string most(told_of_text, 'x');
  CHECK(scanned('"' + most + '"') == "'" + most + "'64 ");
  CHECK(scanned('"' + most + "y\"") == "'" + most + "'65 ");
  CHECK(scanned("\"\\u0078" + most + '"') == "'" + most + "'65 ");
  const std::string name(10'000, 'n');
  CHECK(scanned("{\"\\u006e" + name + "\": 1}") == "{ n" + name + ": +1 } ");
}

TEST_CASE("gateway: half a character that stands alone is read as U+FFFD", "[gateway]") {
  const std::string_view unknown = "\xef\xbf\xbd";
  const auto told = [](std::string_view text) {
    return "'" + std::string{text} + "'" + std::to_string(text.size()) + " ";
  };
  const std::string u{unknown};
  CHECK(scanned(R"("a\ud83d")") == told("a" + u));
  CHECK(scanned(R"("\uDE00\ud83dx")") == told(u + u + "x"));
  CHECK(scanned(R"("\ud83d\ud83d\ude00")") == told(u + "\xf0\x9f\x98\x80"));
  CHECK(scanned(R"("\\ud83d")") == told("\\ud83d"));
  CHECK(scanned(R"({"\ud83d": 1})") == "{ " + u + ": +1 } ");
  for (const std::string_view text : {R"("\ud83)", R"("\ud83")", R"("\ud8zz")", "\"\\"})
    CHECK(scanned(text) == "refused");
}

TEST_CASE("gateway: what is no JSON is refused", "[gateway]") {
  for (const std::string_view text :
       {"", " ", "{", "{}{}", "{} x", "[1,]", "{a: 1}", "\"\xff\"", "01", "+1", "nul", "// a\n1", "'a'"}) {
    CHECK(scanned(text) == "refused");
  }
  CHECK(scanned(std::string_view{"1\0", 2}) == "refused");
  CHECK(scanned("{\"a\": 1} x", json_end::anything) == "{ a: +1 } ");
  CHECK(scanned("{\"a\": 1", json_end::anything) == "refused");
}

TEST_CASE("gateway: a document may be deep, but not without end", "[gateway]") {
  CHECK(scanned(nested(most_json_depth)) != "refused");
  CHECK(scanned(nested(most_json_depth + 1)) == "refused");
  CHECK(scanned(nested(1'000'000)) == "refused");
}
