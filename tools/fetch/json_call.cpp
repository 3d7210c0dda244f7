#include "json_call.hpp"

#include "request.hpp"
#include "text.hpp"
#include "url.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace fetch {

namespace {

using nlohmann::json;

/// The error for a wrong member of the JSON object. Its text names the member.
struct bad_member : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string shown(const json& value) {
  // A list or an object is shown only by its type: dump() would use stack in proportion to the depth of the value.
  if (value.is_structured()) return value.type_name();
  constexpr std::size_t most = 40;
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > most) text.replace(most, std::string::npos, "…");
  return text;
}

[[noreturn]] void refuse(std::string_view member, std::string_view value, std::string_view allowed) {
  throw bad_member{fmt::format("{} is {}; allowed: {}", member, value, allowed)};
}

const std::string& text_of(std::string_view member, const json& value) {
  // The message names only the type of the value, because even a value of a wrong type may be a secret.
  if (!value.is_string()) refuse(member, value.type_name(), "a string");
  return value.get_ref<const std::string&>();
}

void set_url(call& c, const json& value, int /*priorities*/) {
  c.url = text_of("url", value);
  const auto show = [&] { return printable_url(c.url).substr(0, 80); };
  if (!is_http(c.url)) refuse("url", show(), "http://HOST… or https://HOST…");
  for (const char letter : c.url) {
    if (static_cast<unsigned char>(letter) <= ' ') refuse("url", show(), "neither blanks nor control characters");
  }
}

void set_priority(call& c, const json& value, int priorities) {
  const bool is_good = value.is_number_integer() && value >= 0 && value < priorities;
  if (!is_good) refuse("priority", shown(value), fmt::format("0 to {}", priorities - 1));
  c.priority = value.get<int>();
}

void set_id(call& c, const json& value, int /*priorities*/) {
  if (!value.is_string() && !value.is_number_integer()) refuse("id", shown(value), "a string or a whole number");
  c.id_is_number = !value.is_string();
  c.id = c.id_is_number ? value.dump() : value.get_ref<const std::string&>();
}

void set_method(call& c, const json& value, int /*priorities*/) {
  c.method = text_of("method", value);
  if (!problem_of_method(c.method).empty()) refuse("method", shown(value), problem_of_method(c.method));
}

void add_header(call& c, const std::string& name, const json& value) {
  const std::string& text = text_of("headers: " + printable(name), value);
  if (const auto problem = problem_of_header(name, text); !problem.empty()) throw bad_member{"headers: " + problem};
  c.headers.add(name, text);
}

void set_headers(call& c, const json& value, int /*priorities*/) {
  if (!value.is_object()) refuse("headers", value.type_name(), "an object of strings, or of arrays of strings");
  for (const auto& [name, field] : value.items()) {
    if (!field.is_array()) {
      add_header(c, name, field);
    } else {
      for (const json& one : field) add_header(c, name, one);
    }
  }
}

void set_body(call& c, const json& value, int /*priorities*/) { c.body = text_of("body", value); }

void set_body_file(call& c, const json& value, int /*priorities*/) {
  c.body_file = text_of("body_file", value);
  if (c.body_file.empty() || c.body_file.find('\0') != std::string::npos)
    refuse("body_file", shown(value), "the path of a file");
}

using setter = void (*)(call&, const json&, int);
const std::map<std::string, setter, std::less<>> members{
    {"body", set_body},     {"body_file", set_body_file}, {"headers", set_headers}, {"id", set_id},
    {"method", set_method}, {"priority", set_priority},   {"url", set_url},
};

call call_of(const json& object, int priorities) {
  call c;
  for (const auto& [name, value] : object.items()) {
    const auto member = members.find(name);
    if (member == members.end()) {
      refuse("a member", shown(name), "body, body_file, headers, id, method, priority, url");
    }
    member->second(c, value, priorities);
  }
  if (c.url.empty()) throw bad_member{"url is missing; allowed: http://HOST… or https://HOST…"};
  if (c.body && !c.body_file.empty()) throw bad_member{"body and body_file are both given; allowed: one of them"};
  const bool has_body = (c.body && !c.body->empty()) || !c.body_file.empty();
  if (has_body && (c.method == "GET" || c.method == "HEAD"))
    refuse("method", c.method, "one that may have a body, as POST");
  return c;
}

/// Refuses an object in which a member occurs twice, because programs differ in which of the two they read.
class refuse_twice {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) names_[depth + 1].clear();
    if (event == json::parse_event_t::key && !names_[depth].insert(parsed.get<std::string>()).second) {
      throw bad_member{fmt::format("a member is {} again; allowed: each once", shown(parsed))};
    }
    return true;
  }

 private:
  std::map<int, std::set<std::string>> names_;
};

}  // namespace

std::string json_library() {
  return fmt::format("nlohmann_json/{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH);
}

parsed_line parse_json(std::string_view text, int priorities) {
  try {
    return {call_of(json::parse(text, refuse_twice{}), priorities), {}};
  } catch (const bad_member& e) {
    return {{}, e.what()};
  } catch (const json::parse_error& e) {
    return {{}, fmt::format("no JSON: the mistake is at byte {}", e.byte)};
  } catch (const json::exception&) {  // a number in the object is too large for its type
    return {{}, "no JSON that can be read: a number is too large"};
  }
}

}  // namespace fetch
