#include "canigo/detail/context/asio_settings.hpp"

namespace canigo::detail {

// The header refers to this template with the Asio settings of the program. It is instantiated only for the settings of
// this file.
template <class Setting>
void library_was_not_built_with() noexcept {}

}  // namespace canigo::detail
