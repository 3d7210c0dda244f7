#include "canigo/version.hpp"

namespace canigo {

std::string_view version() noexcept { return CANIGO_VERSION; }

}  // namespace canigo
