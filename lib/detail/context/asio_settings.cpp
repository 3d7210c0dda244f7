#include "canigo/detail/context/asio_settings.hpp"

namespace canigo::detail {

// asio_settings.hpp refers to this template with the Asio settings of the program. This file instantiates it only for
// the library's own settings, so a program with other settings does not link.
template <class Setting>
void library_was_not_built_with() noexcept {}

}  // namespace canigo::detail
