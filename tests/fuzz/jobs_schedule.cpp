// jobs::schedule::cron: what it accepts comes, in order, and means the same again; what it refuses it explains.

#include "canigo/error.hpp"
#include "canigo/jobs/schedule.hpp"

#include "target.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>

using canigo::jobs::instant;
using canigo::jobs::schedule;
using namespace std::chrono_literals;

namespace {

std::optional<schedule> parse(std::string_view text) {
  try {
    return schedule::cron(text);
  } catch (const std::system_error& e) {
    fuzz::require(e.code() == canigo::errc::invalid_argument, "a refusal is errc::invalid_argument");
    const std::string_view what = e.what();
    fuzz::require(what.starts_with("schedule.cron"), "a refusal names the field");
    fuzz::require(what.find("; allowed: ") != what.npos, "a refusal says what is allowed");
    fuzz::require(what.size() < 2000, "a refusal does not quote without end");
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::input{data, size}.text();
  const auto s = parse(text);
  if (!s) return 0;
  const auto again = parse(s->text());
  fuzz::require(again.has_value(), "its text is read again");
  instant last{std::chrono::sys_days{std::chrono::year{2026} / 2 / 28}};
  for (int i = 0; i < 20; ++i) {
    const instant next = s->next_after(last);
    fuzz::require(next > last && next <= last + 24h * 366 * 41, "it comes, and later than before");
    fuzz::require(next.time_since_epoch() % 1min == 0us, "it comes at a whole minute");
    fuzz::require(s->next_after(next - 1us) == next, "nothing comes in between");
    fuzz::require(again->next_after(last) == next, "its text means the same");
    last = next;
  }
  return 0;
}
