#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace canigo::gateway {

/// The default values for upstreams of one provider.
struct preset {
  std::string_view name;
  std::string_view text;  ///< TOML: keys of [[upstream]], with comments that name the sources of their values
};

/// Returns the presets in the folder presets/, sorted by name. The build embeds their texts.
std::span<const preset> presets() noexcept;

/// Returns the preset with this name; null if there is none.
inline const preset* find_preset(std::string_view name) noexcept {
  const auto found = std::ranges::find(presets(), name, &preset::name);
  return found == presets().end() ? nullptr : &*found;
}

}  // namespace canigo::gateway
