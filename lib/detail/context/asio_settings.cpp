#include "canigo/detail/context/asio_settings.hpp"

namespace canigo::detail {

// asio_settings.hpp refers to this template with the Asio settings of the program. This file instantiates the template
// only for the Asio settings with which the library was built. So a program with other settings does not link.
template <class Setting>
void library_was_not_built_with() noexcept {}

}  // namespace canigo::detail
