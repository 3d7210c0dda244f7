#include "canigo/redis/error.hpp"

#include "script.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace canigo::redis {
namespace {

struct description {
  error code;
  std::string_view word;  // the first word of an error reply
  const char* text;
};

constexpr description descriptions[] = {
    {error::command_failed, "ERR", "the command failed"},
    {error::no_script, "NOSCRIPT", "the script is not known"},
    {error::read_only, "READONLY", "the server is a replica"},
    {error::loading, "LOADING", "the server is loading its data"},
    {error::master_down, "MASTERDOWN", "the replica has lost its master"},
    {error::cluster_down, "CLUSTERDOWN", "the cluster is down"},
    {error::moved, "MOVED", "another node has the key"},
    {error::moved, "ASK", "another node has the key"},
    {error::busy, "BUSY", "the server is busy with a script"},
    {error::busy, "TRYAGAIN", "the keys are on their way to another node"},
    {error::out_of_memory, "OOM", "the server is out of memory"},
    {error::auth_required, "NOAUTH", "the server wants a password"},
    {error::wrong_password, "WRONGPASS", "wrong user or password"},
    {error::no_permission, "NOPERM", "the user has no permission"},
    {error::wrong_type, "WRONGTYPE", "the key holds another type"},
    {error::connection_lost, {}, "the connection was lost before the reply came"},
    {error::bad_reply, {}, "the reply is malformed"},
    {error::no_master, {}, "no master was found"},
    {error::other_shape, {}, "processes with other rates, units or cap use this limit"},
    {error::no_replicas, "NOREPLICAS", "too few replicas follow the master"},
};

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "redis"; }

  std::string message(int value) const override {
    const auto* row = std::ranges::find(descriptions, static_cast<error>(value), &description::code);
    return row != std::end(descriptions) ? row->text : "unknown error " + std::to_string(value);
  }
};

class form_category_type final : public std::error_category {
 public:
  const char* name() const noexcept override { return "redis form"; }

  std::string message(int value) const override {
    return "processes of another version use this limit, in form " + std::to_string(value) + "; this one's is form " +
           std::to_string(detail::limit_form);
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category instance;
  return instance;
}

const std::error_category& form_category() noexcept {
  static const form_category_type instance;
  return instance;
}

std::error_code make_error_code(error code) noexcept { return {static_cast<int>(code), error_category()}; }

error error_of(std::string_view text) noexcept {
  // Redis 6 puts another text before the error of a script. This code removes that text.
  if (const auto inner = text.find(": -"); inner != text.npos && text.starts_with("ERR Error running script")) {
    text.remove_prefix(inner + 3);
  }
  // Redis 7.0 and Redis 7.2 report with these texts that a command inside a script is not permitted.
  for (const std::string_view said : {"The user executing the script can't", "ACL failure in script"})
    if (text.find(said) != text.npos) return error::no_permission;
  const std::string_view word = text.substr(0, text.find(' '));
  const auto* row = word.empty() ? std::end(descriptions) : std::ranges::find(descriptions, word, &description::word);
  return row != std::end(descriptions) ? row->code : error::command_failed;
}

}  // namespace canigo::redis
