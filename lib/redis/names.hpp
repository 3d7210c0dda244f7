#pragma once

#include <string>
#include <string_view>

namespace canigo::redis::detail {

/// As part of a key: what would end it, or its hash tag, is written as %xx.
std::string escaped(std::string_view name);

/// "host:pid:random", so that a person can see who it is.
std::string name_of_process();

}  // namespace canigo::redis::detail
