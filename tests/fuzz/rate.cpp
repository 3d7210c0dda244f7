// rate::parse: what it accepts prints as text that it accepts again, as the same rate; what it refuses it explains.

#include "canigo/rate.hpp"

#include "canigo/error.hpp"

#include "target.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace {

std::optional<canigo::rate> parse(std::string_view text) {
  try {
    return canigo::rate::parse(text);
  } catch (const std::system_error& e) {
    fuzz::require(e.code() == canigo::errc::invalid_argument, "a refusal is errc::invalid_argument");
    const std::string_view what = e.what();
    fuzz::require(what.starts_with("rate "), "a refusal names the field");
    fuzz::require(what.find("at character ") != what.npos, "a refusal says where");
    fuzz::require(what.size() < 300, "a refusal does not quote without end");
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto rate = parse(fuzz::input{data, size}.text());
  if (!rate) return 0;
  fuzz::require(rate->tokens() >= 1 && rate->period().count() >= rate->tokens(), "1 token to 1 per nanosecond");
  const std::string shown = to_string(*rate);
  const auto again = parse(shown);
  fuzz::require(again && again->tokens() == rate->tokens() && again->period() == rate->period(),
                "what it prints it reads, as it was written");
  fuzz::require(to_string(*again) == shown, "it prints the same again");
  fuzz::require(rate->reduced() == *rate, "lowest terms are the same rate");
  const auto burst = static_cast<std::uint64_t>(rate->tokens());
  fuzz::require(rate->time_for(burst) == rate->period(), "a period's tokens take a period");
  fuzz::require(rate->time_for(burst + 1) > rate->period() || rate->period() == canigo::duration::max(),
                "one token more takes longer");
  return 0;
}
