#include "canigo/detail/context/asio_settings.hpp"

namespace canigo::detail {

// The header refers to it for the settings of this file, so it comes into being for those.
template <class Setting>
void library_was_not_built_with() noexcept {}

}  // namespace canigo::detail
