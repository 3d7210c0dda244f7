#pragma once

#include "gateway/http/message.hpp"

#include <string>

namespace canigo::gateway {

class service;

/// The whole response to a request to the admin's listener.
std::string admin_answer(service& s, const message_head& head, bool closes);

}  // namespace canigo::gateway
