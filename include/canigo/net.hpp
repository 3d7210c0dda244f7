#pragma once

#include "canigo/detail/context/asio_settings.hpp"

// Asio has no header with forward declarations. So this header is included, because it declares Asio's namespace.
#include <asio/any_io_executor.hpp>

namespace canigo {

/// The Asio namespace that the library uses.
namespace net = ::asio;

}  // namespace canigo
