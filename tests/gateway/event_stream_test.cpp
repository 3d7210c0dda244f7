#include "gateway/policy/event_stream.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using canigo::gateway::asks_for_events;
using canigo::gateway::continues_events;
using canigo::gateway::failure_event;
using canigo::gateway::refusal;
using canigo::gateway::token_api;
using canigo::gateway::waiting_comment;
using gateway_test::head_of;

namespace {

bool asks(const std::string& fields, std::string_view body = {}) {
  return asks_for_events(head_of("POST / HTTP/1.1\nHost: a\n" + fields), body);
}

bool continues(const std::string& head) {
  auto response = head_of("HTTP/1.1 " + head);
  response.status = std::stoi(head);
  return continues_events(response);
}

const refusal late{429, "wait_timed_out", "no place \"was\" free"};

}  // namespace

TEST_CASE("gateway: a client reads events if it says so", "[gateway][events]") {
  for (const std::string accept : {"text/event-stream", "TEXT/Event-Stream", "application/json, text/event-stream",
                                   "text/event-stream;q=0.9, */*", " text/event-stream ;charset=utf-8"})
    CHECK(asks("Accept: " + accept + "\n"));
  for (const std::string accept :
       {"*/*", "text/*", "application/json", "text/event-streams", "a/b;x=text/event-stream", ""})
    CHECK_FALSE(asks("Accept: " + accept + "\n"));
  CHECK(asks("Accept: */*\naccept: text/event-stream\n"));
  CHECK_FALSE(asks("X-Accept: text/event-stream\n"));
}

TEST_CASE("gateway: a client reads events if its body asks for a stream", "[gateway][events]") {
  CHECK(asks("", R"({"model":"m","stream":true})"));
  CHECK(asks("", " {\"stream\" : true}\n"));
  for (const std::string_view body :
       {R"({"stream":false})", R"({"stream":"true"})", R"({"a":{"stream":true}})", R"([{"stream":true}])",
        R"({"stream":true)", R"({"stream":true,"stream":false})", "", "stream=true", "\xff"}) {
    CAPTURE(body);
    CHECK_FALSE(asks("", body));
  }
}

TEST_CASE("gateway: only a plain stream of events follows another one", "[gateway][events]") {
  CHECK(continues("200 OK\nContent-Type: text/event-stream\n"));
  CHECK(continues("200 OK\ncontent-type: Text/Event-Stream; charset=utf-8\nContent-Encoding: identity\n"));
  for (const std::string head :
       {"200 OK\n", "200 OK\nContent-Type: application/json\n", "201 Created\nContent-Type: text/event-stream\n",
        "429 No\nContent-Type: text/event-stream\n",
        "200 OK\nContent-Type: text/event-stream\nContent-Encoding: gzip\n"}) {
    CAPTURE(head);
    CHECK_FALSE(continues(head));
  }
}

TEST_CASE("gateway: a comment tells the position and the least wait as far as they are known", "[gateway][events]") {
  CHECK(waiting_comment(12, 33'001ms) == ": waiting, position 12, at least 34 s\n\n");
  CHECK(waiting_comment(1, 0ms) == ": waiting, position 1\n\n");
  CHECK(waiting_comment(std::nullopt, 2s) == ": waiting, at least 2 s\n\n");
  CHECK(waiting_comment(std::nullopt, 0s) == ": waiting\n\n");
  CHECK(waiting_comment(7, canigo::duration::max()) == ": waiting, position 7\n\n");
  CHECK(waiting_comment(7, 24h - 1s) == ": waiting, position 7, at least 86399 s\n\n");
  CHECK(waiting_comment(7, 24h) == ": waiting, position 7\n\n");
}

TEST_CASE("gateway: a failure is an event in the form of the API's errors", "[gateway][events]") {
  const std::string message = R"("message":"canigo-gateway: no place \"was\" free")";
  CHECK(failure_event(token_api::openai, late) ==
        R"(data: {"error":{"code":"wait_timed_out",)" + message + ",\"type\":\"wait_timed_out\"}}\n\n");
  CHECK(failure_event(token_api::anthropic, late) ==
        "event: error\ndata: {\"error\":{" + message + R"(,"type":"wait_timed_out"},"type":"error"})" + "\n\n");
  CHECK(failure_event(token_api::gemini, late) ==
        R"(data: {"error":{"code":429,)" + message + ",\"status\":\"wait_timed_out\"}}\n\n");
  for (const token_api api : {token_api::none, token_api::bytes, token_api::cohere, token_api::bedrock})
    CHECK(failure_event(api, late) ==
          R"(event: error
data: {"error":{"code":"wait_timed_out",)" +
              message + ",\"type\":\"wait_timed_out\"}}\n\n");
}

TEST_CASE("gateway: the words of a problem go out behind those of the gateway", "[gateway][events]") {
  const auto event_with = [](std::string_view words) {
    refusal told = late;
    told.detail += words;
    return failure_event(token_api::openai, told);
  };
  const auto event_of = [](std::string_view body) { return failure_event(token_api::openai, late, body); };
  CHECK(event_of(R"({"type":"about:blank","title":"Too many","status":429,"detail":"Wait \"a\" bit"})") ==
        event_with(": Too many: Wait \"a\" bit"));
  CHECK(event_of(R"({"title":"Too many"})") == event_with(": Too many"));
  CHECK(event_of(R"({"detail":"Wait","title":null})") == event_with(": Wait"));
  // What SDKs read as an error is one.
  CHECK(event_of(R"({"title":"t","error":{"message":"m"}})") ==
        "data: {\"title\":\"t\",\"error\":{\"message\":\"m\"}}\n\n");
  CHECK(event_of(R"({"title":"t","error":{}})") == event_with(""));
}

TEST_CASE("gateway: an error of the API goes out as it is, in one line", "[gateway][events]") {
  CHECK(failure_event(token_api::openai, late, "\xef\xbb\xbf{\"error\":\"e\"}") == "data: {\"error\":\"e\"}\n\n");
  const std::string body = "{\r\n  \"error\": {\"message\": \"a\\nb\", \"n\": 1.0}\n}\n";
  CHECK(failure_event(token_api::openai, late, body) ==
        "data: {  \"error\": {\"message\": \"a\\nb\", \"n\": 1.0}}\n\n");
  CHECK(failure_event(token_api::anthropic, late, R"({"type":"error","error":{"type":"overloaded_error"}})") ==
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n");
  for (const std::string_view other :
       {"", "{", R"({"title":7,"detail":""})", R"({"type":"about:blank","status":429})", "[]", "no",
        R"({"message":"m"})", R"({"error":null,"output":[]})", R"({"error":{}})", R"({"error":""})",
        R"({"error":false})", R"({"error":[]})", "{\"error\":\"\xff\"}"}) {
    CAPTURE(other);
    CHECK(failure_event(token_api::openai, late, other) == failure_event(token_api::openai, late));
  }
}
