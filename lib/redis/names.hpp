#pragma once

#include <string>
#include <string_view>

namespace canigo::redis::detail {

/// The name as a part of a key. Characters that would end the part, or the hash tag, become %xx.
std::string escaped(std::string_view name);

/// "host:pid:random", so that a person can see which process it is.
std::string name_of_process();

}  // namespace canigo::redis::detail
