#pragma once

namespace canigo {

/// Whether a limit or a policy acts on its decisions, or only counts them.
enum class enforcement {
  enforce,  ///< refuses and delays
  shadow,   ///< each request goes at once; the statistics count those that it would have refused or delayed
};

}  // namespace canigo
