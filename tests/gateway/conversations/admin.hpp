#pragma once

#include "loop.hpp"
#include "message_reader.hpp"
#include "wire.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace conversations {

/// Asks the gateway's admin once; `told` gets the body of the answer, or nothing if there is none.
void ask_admin(loop& l, std::uint16_t port, const std::string& method, const std::string& path,
               std::function<void(const std::string& body)> told);

}  // namespace conversations
