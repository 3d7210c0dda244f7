#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace canigo::gateway {

/// The default values for the upstreams of one provider.
struct preset {
  std::string_view name;
  std::string_view text;  ///< TOML: keys of [[upstream]], with comments that name the sources of their values
};

/// The presets of the folder presets/, sorted by name. The build embeds them.
std::span<const preset> presets() noexcept;

/// Returns the preset with that name, or null.
inline const preset* find_preset(std::string_view name) noexcept {
  const auto found = std::ranges::find(presets(), name, &preset::name);
  return found == presets().end() ? nullptr : &*found;
}

}  // namespace canigo::gateway
