#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace canigo::gateway {

/// The values of a provider's upstream that the file leaves out.
struct preset {
  std::string_view name;
  std::string_view text;  ///< in TOML: keys of [[upstream]], and the sources of their values
};

/// The presets of presets/, as the build embeds them, sorted by name.
std::span<const preset> presets() noexcept;

/// Null: no preset has that name.
inline const preset* find_preset(std::string_view name) noexcept {
  const auto found = std::ranges::find(presets(), name, &preset::name);
  return found == presets().end() ? nullptr : &*found;
}

}  // namespace canigo::gateway
