#pragma once

#include "loop.hpp"
#include "message_reader.hpp"
#include "wire.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace conversations {

/// Sends one request to the gateway's admin. `told` is called with the body of the answer, or with an empty text if
/// there is no answer.
void ask_admin(loop& l, std::uint16_t port, const std::string& method, const std::string& path,
               std::function<void(const std::string& body)> told);

}  // namespace conversations
