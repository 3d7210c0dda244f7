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

/// Returns the set of all targets of an upstream; for an upstream without targets, the set that contains only index 0.
target_set targets_of(const upstream& u) noexcept;

/// Returns the targets that serve a model: those that name the model, and those that name no models. Returns all
/// targets if `model` is empty.
target_set serving(const upstream& u, std::string_view model) noexcept;

/// Returns the targets that can serve `path` for a call that names no model. The other targets can't serve such a call,
/// because they replace `path` by a path with "{model}" in it.
target_set callable_without_model(const upstream& u, std::string_view path) noexcept;

/// Returns one set for each entry of the target's list of models: the targets that serve all models of that entry. An
/// entry is the name of a model, or a pattern such as "gpt-*". If the target has no list of models, returns one set:
/// all targets without a list of models.
std::vector<target_set> substitutes(const upstream& u, std::size_t target);

/// Returns the upstream's settings for one target: its URL, credential, cap, provider and form of refusals are those of
/// the target.
upstream settings_at(const upstream& u, const target& t);

/// Returns the request target for one target of an upstream. If target::paths has an element for the path, the path is
/// replaced, and the element's query is put before the client's query. The model is percent-encoded (RFC 3986, 2.1).
std::string target_at(const upstream& u, const target& t, std::string_view path, std::string_view model);

/// Returns a key that calls of the same client or chat share. Returns nothing if the call lacks the header, the cookie
/// or the body from which the key is made. `body`: the part of the body that was read.
std::optional<std::uint64_t> sticky_key(const sticky_options& o, const message_head& head, std::string_view body);

/// Returns the target for all calls with this key. Only those targets of the set that have the lowest `prefer` are
/// used. The same key and the same targets always give the same result. If one of these targets leaves the set, only
/// its keys get another target. Returns nothing if the set is empty.
///
/// Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 (rendezvous hashing).
std::optional<std::size_t> target_of_key(const upstream& u, target_set of, std::uint64_t key) noexcept;

/// Whether a status says that the target rejects the key or the account: 401 and 402 do. A 403 does not count, because
/// it is often about the single call.
constexpr bool refuses_key(int status) noexcept { return status == 401 || status == 402; }

}  // namespace canigo::gateway
