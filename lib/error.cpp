#include "canigo/error.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>

namespace canigo {
namespace {

// One row per code, with its text and its standard condition. errc{} in the third column means that no standard
// condition fits.
struct description {
  errc code;
  const char* text;
  std::errc condition;
};

constexpr description descriptions[] = {
    {errc::queue_full, "the queue is full", std::errc::resource_unavailable_try_again},
    {errc::evicted, "evicted from a full queue", std::errc::resource_unavailable_try_again},
    {errc::timed_out, "timed out", std::errc::timed_out},
    {errc::deadline_unreachable, "the deadline can't be met", std::errc::timed_out},
    {errc::stopped, "stopped", std::errc{}},
    {errc::invalid_priority, "invalid priority", std::errc::invalid_argument},
    {errc::invalid_argument, "invalid argument", std::errc::invalid_argument},
    {errc::too_large, "larger than the limit allows", std::errc::value_too_large},
    {errc::lease_lost, "the lease was lost", std::errc{}},
    {errc::store_unavailable, "the store is unavailable", std::errc{}},
    {errc::not_enough_memory, "not enough memory", std::errc::not_enough_memory},
    {errc::circuit_open, "the circuit is open", std::errc{}},
    {errc::overloaded, "the callee is overloaded", std::errc::resource_unavailable_try_again},
    {errc::too_many_keys, "too many keys", std::errc::resource_unavailable_try_again},
    {errc::shed, "shed by an overloaded limit; call less often, or later", std::errc::resource_unavailable_try_again},
    {errc::closed, "the channel is closed", std::errc::broken_pipe},
};

const description* find(int value) noexcept {
  const auto* row = std::ranges::find(descriptions, static_cast<errc>(value), &description::code);
  return row == std::end(descriptions) ? nullptr : row;
}

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "canigo"; }

  std::string message(int value) const override {
    const description* row = find(value);
    return row ? row->text : "unknown error " + std::to_string(value);
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    const description* row = find(value);
    if (row && row->condition != std::errc{}) return {static_cast<int>(row->condition), std::generic_category()};
    return {value, *this};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

namespace detail {

// Returns a short form of the text, on one line and in printable ASCII. The text may come from a command line or a
// file, so it may contain any bytes.
std::string printable(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string shown{text.substr(0, longest)};
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() > longest ? shown + "..." : shown;
}

std::exception_ptr to_exception(std::error_code code) noexcept {
  try {
    return std::make_exception_ptr(std::system_error{code});
  } catch (...) {
    return std::current_exception();
  }
}

error_at::error_at(std::error_code code, const std::string& place)
    : std::system_error{code, place}, size_{place.size()} {}

error_at::~error_at() = default;

void throw_invalid(std::string_view field, std::string_view value, std::string_view allowed, errc code) {
  std::string text{field};
  text.append(" is ").append(printable(value)).append("; allowed: ").append(allowed);
  throw std::system_error{code, text};
}

void throw_invalid(std::string_view field, duration value, std::string_view allowed, errc code) {
  throw_invalid(field, std::string_view{to_string(value)}, allowed, code);
}

}  // namespace detail
}  // namespace canigo
