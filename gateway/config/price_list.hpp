#pragma once

#include "gateway/config/money.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

struct text_at;
class report;

/// The cost of calls for some models: in micro-dollars for a million tokens, and for each call.
struct price {
  std::string match;           ///< the model's name; it may end in '*', which is any text
  micro_usd input = 0;         ///< of tokens that a call brings
  micro_usd cached_input = 0;  ///< of those that the upstream has read from its cache
  micro_usd output = 0;        ///< of tokens that the upstream has made
  micro_usd per_call = 0;      ///< on top, of each call

  friend bool operator==(const price&, const price&) = default;
};

/// Whether the pattern, which may end in '*', is of this model.
bool is_of_model(std::string_view pattern, std::string_view model) noexcept;

/// The prices of models. A value.
struct price_list {
  static constexpr std::size_t most = 1'000;

  std::vector<price> all;

  /// The first price whose pattern matches; null: the model has none. Valid while the list is unchanged.
  const price* of(std::string_view model) const noexcept;
};

/// Reads the text of a file of prices. Each mistake is noted at `source`, the place that names the file, with its own
/// place in the file.
price_list parse_prices(std::string_view text, const text_at& source, report& problems);

/// Reads the file that "file:/PATH" names. Nothing, and an error: it can't be read, or something in it is wrong.
std::optional<price_list> read_prices(const text_at& source, report& problems);

}  // namespace canigo::gateway
