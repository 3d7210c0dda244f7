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

/// The prices of calls for one model or for several models: in micro-dollars per million tokens, and per call.
struct price {
  std::string match;           ///< the model's name; a '*' at its end matches any text
  micro_usd input = 0;         ///< the price of a million tokens of the request
  micro_usd cached_input = 0;  ///< the price of a million request tokens that the upstream read from its cache
  micro_usd output = 0;        ///< the price of a million tokens that the upstream generated
  micro_usd per_call = 0;      ///< the price of each call, in addition to its tokens

  friend bool operator==(const price&, const price&) = default;
};

/// Whether the pattern matches this model. A '*' at the pattern's end matches any text.
bool is_of_model(std::string_view pattern, std::string_view model) noexcept;

/// The prices of calls, for all models that have a price. A value type.
struct price_list {
  static constexpr std::size_t most = 1'000;

  std::vector<price> all;

  /// Returns the first price whose pattern matches the model; null if none matches. The pointer is valid until the list
  /// changes.
  const price* of(std::string_view model) const noexcept;
};

/// Reads the text of a price file. `source`: the place in the configuration that names the price file. Each mistake is
/// reported at this place, and the message names the line of the mistake in the price file.
price_list parse_prices(std::string_view text, const text_at& source, report& problems);

/// Reads the price file that `source` names in the form "file:/PATH". Reports an error and returns nothing if the file
/// can't be read or has a mistake.
std::optional<price_list> read_prices(const text_at& source, report& problems);

}  // namespace canigo::gateway
