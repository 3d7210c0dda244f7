#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace canigo::gateway {

/// The values that an upstream of a provider has where the file says nothing else.
struct preset {
  std::string_view name;
  std::string_view text;  ///< in TOML: keys of [[upstream]], and where they are from
};

/// Those of presets/, as the build embeds them, sorted by name.
std::span<const preset> presets() noexcept;

/// Null: no preset has that name.
inline const preset* find_preset(std::string_view name) noexcept {
  const auto found = std::ranges::find(presets(), name, &preset::name);
  return found == presets().end() ? nullptr : &*found;
}

}  // namespace canigo::gateway
