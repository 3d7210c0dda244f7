#include "gateway/policy/event_stream.hpp"

#include "gateway/policy/fields.hpp"
#include "gateway/policy/token_estimate.hpp"
#include "gateway/wire/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace canigo::gateway {
namespace {

using nlohmann::json;

constexpr std::string_view events_type = "text/event-stream";

/// Whether one of the comma-separated elements of this field value is the given media type. Parameters of the media
/// type are ignored.
bool names_type(std::string_view value, std::string_view type) noexcept {
  while (!value.empty()) {
    const auto end = std::min(value.find(','), value.size());
    const std::string_view element = value.substr(0, end);
    if (same_text(trim(element.substr(0, element.find(';'))), type)) return true;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return false;
}

/// Returns the title and the detail of an RFC 9457 problem document; empty if the document is no such problem. A
/// document with a member `error` does not count as a problem, because it is an error in the format of the API.
std::string problem_in(const json& document) {
  std::string words;
  if (document.contains("error")) return words;
  for (const char* name : {"title", "detail"}) {
    const auto found = document.find(name);
    if (found == document.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) continue;
    words.append(words.empty() ? "" : ": ").append(found->get_ref<const std::string&>());
  }
  return words;
}

std::string event_of(token_api api, const std::string& line) {
  switch (api) {
    case token_api::openai:
    case token_api::gemini:
      return "data: " + line + "\n\n";
    default:
      return "event: error\ndata: " + line + "\n\n";
  }
}

}  // namespace

bool asks_for_events(const message_head& request, std::string_view body) {
  const bool accepts = std::ranges::any_of(
      request.fields, [](const field& f) { return same_text(f.name, "Accept") && names_type(f.value, events_type); });
  return accepts || is_request_for_stream(body);
}

bool continues_events(const message_head& response) noexcept {
  constexpr int ok = 200;
  const auto coding = value_of(response, "Content-Encoding");
  return response.status == ok && names_type(value_of(response, "Content-Type").value_or(""), events_type) &&
         (!coding || same_text(trim(*coding), "identity"));
}

std::string waiting_comment(std::optional<std::size_t> position, duration estimate) {
  std::string text = ": waiting";
  if (position) text += fmt::format(", position {}", *position);
  constexpr duration longest_told = std::chrono::hours{24};
  if (estimate > duration{} && estimate < longest_told)
    text += fmt::format(", at least {} s", std::chrono::ceil<std::chrono::seconds>(estimate).count());
  return text + "\n\n";
}

std::string failure_event(token_api api, const refusal& why) {
  const std::string message = "canigo-gateway: " + why.detail;
  json event{{"error", {{"message", message}, {"type", why.error}}}};
  switch (api) {
    case token_api::anthropic:
      event["type"] = "error";
      break;
    case token_api::gemini:
      event["error"] = {{"code", why.status}, {"message", message}, {"status", why.error}};
      break;
    default:
      event["error"]["code"] = why.error;
  }
  return event_of(api, event.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string failure_event(token_api api, const refusal& why, std::string_view body) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (body.starts_with(byte_order_mark)) body.remove_prefix(byte_order_mark.size());
  const json document = json::parse(body, nullptr, false);
  if (!document.is_object()) return failure_event(api, why);
  if (const std::string problem = problem_in(document); !problem.empty()) {
    refusal told = why;
    told.detail += ": " + problem;
    return failure_event(api, told);
  }
  // An error document whose `error` is empty is not passed on, because SDKs would take the event for a part of the
  // answer.
  const json error = document.value("error", json{});
  const bool is_text = error.is_string() && !error.get_ref<const std::string&>().empty();
  if (!is_text && !(error.is_object() && !error.empty())) return failure_event(api, why);
  std::string line{body};
  // Removes line ends: in JSON they are only white space, but they would end the line of the event.
  std::erase_if(line, [](char c) { return c == '\r' || c == '\n'; });
  return event_of(api, line);
}

}  // namespace canigo::gateway
