#pragma once

#include "gateway/config/config.hpp"
#include "gateway/config/units.hpp"
#include "gateway/wire/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::gateway {

/// Returns the targets of an upstream as a set; the set of bit 0 for an upstream without targets.
target_set targets_of(const upstream& u) noexcept;

/// Returns the targets that serve a model: the targets that name the model, and those that name no models. Returns all
/// targets if `model` is empty.
target_set serving(const upstream& u, std::string_view model) noexcept;

/// Returns the targets that can be called without a model's name. For the others, target::paths has an entry for the
/// path that contains "{model}".
target_set callable_without_model(const upstream& u, std::string_view path) noexcept;

/// Returns, for each entry of a target's list of models, the targets that serve all models of that entry. For a target
/// without a list, it returns the set of all targets without one.
std::vector<target_set> substitutes(const upstream& u, std::size_t target);

/// Returns the upstream's settings for one target: the URL, credential, cap, provider and the form of refusals are the
/// target's.
upstream settings_at(const upstream& u, const target& t);

/// Returns the request target for one target of an upstream. If target::paths has an entry for the path, the path is
/// replaced, and the entry's query is put before the client's query. The model is percent-encoded (RFC 3986, 2.1).
std::string target_at(const upstream& u, const target& t, std::string_view path, std::string_view model);

/// Returns a key that calls of the same client or chat share; nothing if the call lacks the field, the cookie or the
/// body. `body`: the part of the body that was read.
std::optional<std::uint64_t> sticky_key(const sticky_options& o, const message_head& head, std::string_view body);

/// Returns the target for all calls with this key: of the targets with the lowest `prefer` in the set, always the same
/// one. If a target leaves the set, only its own keys move. Returns nothing if the set is empty.
///
/// Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 (rendezvous hashing).
std::optional<std::size_t> target_of_key(const upstream& u, target_set of, std::uint64_t key) noexcept;

/// Whether a status says that the target rejects the key or the account: 401 and 402. A 403 is often about the single
/// call.
constexpr bool refuses_key(int status) noexcept { return status == 401 || status == 402; }

}  // namespace canigo::gateway
