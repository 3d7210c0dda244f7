#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::gateway {

struct field {
  std::string name;
  std::string value;
};

/// The head of a request or a response, as it was read.
struct message_head {
  std::string method;  ///< the method of a request; empty for a response
  std::string target;
  int status = 0;    ///< the status of a response; 0 for a request
  int version = 11;  ///< the version of HTTP: 10 for HTTP/1.0, 11 for HTTP/1.1
  std::vector<field> fields;
};

}  // namespace canigo::gateway
