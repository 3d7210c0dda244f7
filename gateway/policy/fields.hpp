#pragma once

#include "gateway/wire/message.hpp"
#include "gateway/wire/text.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Returns the value of the first field with this name; nothing if there is no such field.
std::optional<std::string_view> value_of(const message_head& head, std::string_view name) noexcept;
std::size_t count_of(const message_head& head, std::string_view name) noexcept;
/// Whether the request uses NTLM or Negotiate, which authenticate the connection instead of the request. The next
/// request on this connection may come from another client, but the upstream would treat it as a request of this
/// client.
///
/// Source: RFC 4559, section 5; [MS-NTHT].
bool signs_in_connection(const message_head& head) noexcept;

/// Returns the elements of all Connection fields, as views into `head`.
std::vector<std::string_view> named_by_connection(const message_head& head);

/// Whether a field describes the connection instead of the message: "Connection", "Keep-Alive", "Proxy-*", "TE",
/// "Trailer", "Transfer-Encoding", "Upgrade".
bool is_of_connection(std::string_view name) noexcept;

/// Whether `names` contains `name`, compared without regard to case.
bool is_one_of(std::string_view name, const std::vector<std::string_view>& names) noexcept;

}  // namespace canigo::gateway
