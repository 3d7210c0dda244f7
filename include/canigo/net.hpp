#pragma once

#include "canigo/detail/context/asio_settings.hpp"

// Asio has no header with forward declarations, so the namespace is declared here.
#include <asio/any_io_executor.hpp>

namespace canigo {

/// The Asio namespace that the library uses.
namespace net = ::asio;

}  // namespace canigo
