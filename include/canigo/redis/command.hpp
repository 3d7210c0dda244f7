#pragma once

#include "canigo/error.hpp"
#include "canigo/time.hpp"

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace canigo::redis {

/// A command and its arguments: `command{"SET", key, 5}`. Arguments are strings of any bytes, or whole numbers.
///
/// It is not an aggregate, so a temporary is safe inside a co_await expression even under g++ 12.
class command {
 public:
  template <class Name, class... Args>
    requires std::convertible_to<const Name&, std::string_view>
  explicit command(const Name& name, const Args&... args) {
    arguments_.reserve(1 + sizeof...(args));
    add(name);
    (add(args), ...);
  }

  command& add(std::string_view argument) {
    arguments_.emplace_back(argument);
    return *this;
  }
  template <std::integral Number>
  command& add(Number n) {
    arguments_.push_back(std::to_string(n));
    return *this;
  }

  /// Adds an argument that the client replaces by the run id of the server when it sends the command. The run id has 40
  /// characters, and changes when the server restarts.
  command& add_run_id() {
    wants_run_id_ = true;
    return add(run_id_placeholder);
  }
  bool wants_run_id() const noexcept { return wants_run_id_; }
  static constexpr std::string_view run_id_placeholder = "????????????????????????????????????????";

  /// Sets the time limit of this command; it replaces client_options::timeout. `d` must be more than 0, otherwise this
  /// throws errc::invalid_argument. max: no time limit.
  command with_timeout(duration d) && {
    if (d <= duration::zero()) canigo::detail::throw_invalid("command.with_timeout: d", d, "more than 0");
    timeout_ = d;
    return std::move(*this);
  }
  std::optional<duration> timeout() const noexcept { return timeout_; }

  /// Whether to send ASKING before the command. With ASKING, a cluster node serves a slot that is being moved to the
  /// node.
  command& set_asks_first(bool yes) {
    asks_first_ = yes;
    return *this;
  }
  bool asks_first() const noexcept { return asks_first_; }

  /// Set this if the caller, after a loss of this command, sends its content again in a later command. The setting has
  /// two effects. The time limit of this command begins anew when this command is sent. The client may close an
  /// unresponsive connection although this command waits for its reply.
  command& set_is_restated(bool yes) {
    is_restated_ = yes;
    return *this;
  }
  bool is_restated() const noexcept { return is_restated_; }

  const std::vector<std::string>& arguments() const noexcept { return arguments_; }

  /// The bytes of the command in the Redis protocol.
  std::string encoded() const;

 private:
  std::vector<std::string> arguments_;
  std::optional<duration> timeout_;
  bool wants_run_id_ = false;
  bool asks_first_ = false;
  bool is_restated_ = false;
};

}  // namespace canigo::redis
