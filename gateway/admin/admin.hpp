#pragma once

#include "gateway/http/message.hpp"

#include <string>

namespace canigo::gateway {

class generation;
class service;

/// The whole response to a request to the admin's listener.
std::string admin_answer(service& s, const generation& g, const message_head& head, bool closes);

}  // namespace canigo::gateway
