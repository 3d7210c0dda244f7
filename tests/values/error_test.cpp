#include "canigo/error.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

using canigo::errc;

namespace {

const std::vector<errc> all_codes = {
    errc::queue_full,           errc::evicted,           errc::timed_out,
    errc::deadline_unreachable, errc::stopped,           errc::invalid_priority,
    errc::invalid_argument,     errc::too_large,         errc::lease_lost,
    errc::store_unavailable,    errc::not_enough_memory, errc::circuit_open,
    errc::overloaded,           errc::too_many_keys,     errc::shed,
    errc::closed,
};

template <typename Call>
std::system_error thrown_by(Call call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  return std::system_error{std::error_code{}};
}

}  // namespace

TEST_CASE("every error code has the category canigo and a text of its own", "[error]") {
  std::set<std::string> texts;
  int value = 0;
  for (errc code : all_codes) {
    const std::error_code ec = code;
    CHECK(ec.value() == ++value);  // consecutive from 1: the list above is complete and none is "success"
    CHECK(ec);
    CHECK(std::string{ec.category().name()} == "canigo");
    CHECK(ec.message().find("unknown") == std::string::npos);
    texts.insert(ec.message());
  }
  CHECK(texts.size() == all_codes.size());
  CHECK(std::error_code(value + 1, canigo::error_category()).message() == "unknown error " + std::to_string(value + 1));
}

TEST_CASE("a refused value is shown whole up to 80 bytes, and on one line", "[error]") {
  const auto shown = [](const std::string& value) {
    const std::string said = thrown_by([&] { canigo::detail::throw_invalid("field", value, "others"); }).what();
    return said.substr(0, said.find("; allowed: others"));
  };
  CHECK(shown("") == "field is ");
  CHECK(shown(std::string(80, 'x')) == "field is " + std::string(80, 'x'));
  CHECK(shown(std::string(81, 'x')) == "field is " + std::string(80, 'x') + "...");
  CHECK(shown("\x1f ~\x7f\x80") == "field is ? ~??");
}

TEST_CASE("an error code equals the standard condition it means", "[error]") {
  CHECK(make_error_code(errc::timed_out) == std::errc::timed_out);
  CHECK(make_error_code(errc::deadline_unreachable) == std::errc::timed_out);
  CHECK(make_error_code(errc::invalid_argument) == std::errc::invalid_argument);
  CHECK(make_error_code(errc::invalid_priority) == std::errc::invalid_argument);
  CHECK(make_error_code(errc::too_large) == std::errc::value_too_large);
  CHECK(make_error_code(errc::queue_full) == std::errc::resource_unavailable_try_again);
  CHECK(make_error_code(errc::evicted) == std::errc::resource_unavailable_try_again);
  CHECK(make_error_code(errc::overloaded) == std::errc::resource_unavailable_try_again);
  CHECK(make_error_code(errc::not_enough_memory) == std::errc::not_enough_memory);
  CHECK(make_error_code(errc::too_many_keys) == std::errc::resource_unavailable_try_again);
  CHECK(make_error_code(errc::closed) == std::errc::broken_pipe);
  CHECK(make_error_code(errc::timed_out) != make_error_code(errc::deadline_unreachable));
}

TEST_CASE("no error code looks like a cancellation", "[error]") {
  for (errc code : all_codes) CHECK(make_error_code(code) != std::errc::operation_canceled);
  CHECK(make_error_code(errc::stopped).default_error_condition().category() == canigo::error_category());
  CHECK(std::error_code(9999, canigo::error_category()).default_error_condition().category() ==
        canigo::error_category());
}

TEST_CASE("an invalid argument names field, value and range", "[error]") {
  const auto number = thrown_by([] { canigo::detail::throw_invalid("priorities", -1, "1 to 1024"); });
  CHECK(number.code() == errc::invalid_argument);
  CHECK(std::string{number.what()}.starts_with("priorities is -1; allowed: 1 to 1024: invalid argument"));

  const auto text = thrown_by([] { canigo::detail::throw_invalid("class", "3", "0 to 2", errc::invalid_priority); });
  CHECK(text.code() == errc::invalid_priority);
  CHECK(std::string{text.what()}.starts_with("class is 3; allowed: 0 to 2: invalid priority"));

  const auto span =
      thrown_by([] { canigo::detail::throw_invalid("ageing", std::chrono::milliseconds{-1500}, "1ns or more"); });
  CHECK(std::string{span.what()}.starts_with("ageing is -1500ms; allowed: 1ns or more: invalid argument"));

  const auto largest = std::numeric_limits<std::uint64_t>::max();
  CHECK(std::string{thrown_by([&] { canigo::detail::throw_invalid("burst", largest, "less"); }).what()}.find(
            "burst is 18446744073709551615;") == 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::string{thrown_by([&] { canigo::detail::throw_invalid("factor", nan, "0 to 1"); }).what()}.find(
            "nan; allowed: 0 to 1") != std::string::npos);
}

TEST_CASE("an invalid argument stays short and on one line", "[error]") {
  const std::string wild = "a\nb\x1b[31m\xc3\xa4\x7f" + std::string(5000, 'x');
  const std::string what = thrown_by([&] { canigo::detail::throw_invalid("rate", wild, "N/period"); }).what();
  CHECK(what.size() < 200);
  CHECK(what.find("a?b?[31m???x") != std::string::npos);
  CHECK(what.find("xxx...; allowed: N/period") != std::string::npos);
}
