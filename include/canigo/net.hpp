#pragma once

#include "canigo/detail/context/asio_settings.hpp"

// Asio has no forward-declaration header and names the namespace only where something is declared.
#include <asio/any_io_executor.hpp>

namespace canigo {

/// Asio, in the flavour that the library is built on.
namespace net = ::asio;

}  // namespace canigo
