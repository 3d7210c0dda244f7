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

/// The prices of calls for some models, in micro-dollars per million tokens and per call.
struct price {
  std::string match;           ///< the model's name; a '*' at its end matches any text
  micro_usd input = 0;         ///< the price of the request's tokens
  micro_usd cached_input = 0;  ///< the price of request tokens that the upstream read from its cache
  micro_usd output = 0;        ///< the price of the tokens that the upstream generated
  micro_usd per_call = 0;      ///< the price of each call, besides its tokens

  friend bool operator==(const price&, const price&) = default;
};

/// Whether the pattern matches this model. A '*' at its end matches any text.
bool is_of_model(std::string_view pattern, std::string_view model) noexcept;

/// The prices of models. A value.
struct price_list {
  static constexpr std::size_t most = 1'000;

  std::vector<price> all;

  /// Returns the first price whose pattern matches the model, or null. The pointer is valid while the list is
  /// unchanged.
  const price* of(std::string_view model) const noexcept;
};

/// Reads the text of a price file. Each mistake is reported at `source`, which is where the configuration names the
/// file, together with its line in the price file.
price_list parse_prices(std::string_view text, const text_at& source, report& problems);

/// Reads the price file that "file:/PATH" names. Returns nothing, after reporting an error, if the file can't be read
/// or has a mistake.
std::optional<price_list> read_prices(const text_at& source, report& problems);

}  // namespace canigo::gateway
