#include "gateway/policy/usage_reader.hpp"

#include "gateway/preset_upstream.hpp"
#include "support/catch.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gateway = canigo::gateway;
using gateway::token_usage;
using gateway::usage_form;

namespace {

const gateway::usage_names& names_of(std::string_view provider) {
  static std::map<std::string, gateway::usage_names, std::less<>> known;
  const auto found = known.find(provider);
  if (found != known.end()) return found->second;
  return known.emplace(provider, gateway_test::upstream_of(provider).tokens.usage).first->second;
}

/// The usage of a body in pieces of that size; the same for all sizes.
std::optional<token_usage> read(usage_form form, std::string_view body, std::string_view provider = "generic") {
  const gateway::usage_names& names = names_of(provider);
  gateway::usage_reader whole{form, names};
  whole.take(body);
  const auto usage = whole.finish();
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}}) {
    if (body.size() > 100'000 && size < 1000) continue;
    gateway::usage_reader r{form, names};
    for (std::size_t at = 0; at < body.size(); at += size) r.take(body.substr(at, size));
    CAPTURE(size);
    CHECK(r.finish() == usage);
  }
  return usage;
}

std::optional<token_usage> of_json(std::string_view body) { return read(usage_form::json, body); }
std::optional<token_usage> of_events(std::string_view body) { return read(usage_form::events, body); }

}  // namespace

TEST_CASE("gateway: a document tells its usage in the words of its interface", "[gateway][usage]") {
  CHECK(of_json(R"({"id":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,
                    "completion_tokens_details":{"reasoning_tokens":5,"output_tokens":99}}})") == token_usage{9, 12});
  CHECK(of_json(R"({"usage":{"input_tokens":9,"output_tokens":12}})") == token_usage{9, 12});
  // Beside values of every kind.
  CHECK(of_json(R"({"a":true,"b":false,"c":null,"d":-1,"e":1.5,"f":"","g":[1,{}],"usage":{"x":true,"y":null,"z":-2,
                    "input_tokens":9,"w":0.5,"v":"s","u":[],"output_tokens":12},"h":1})") == token_usage{9, 12});
  CHECK(of_json(R"({"usage":{"prompt_tokens":9,"total_tokens":9}})") == token_usage{9, 0});
  CHECK(of_json(R"({"usage":{"input_tokens":9,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,
                    "output_tokens":12}})") == token_usage{12, 12, 0, 100});
  // What is read from a cache is no more than the input, and a value of it that is no number counts as none.
  CHECK(
      of_json(R"({"usage":{"prompt_tokens":9,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10}}})") ==
      token_usage{9, 12, 9});
  for (const std::string value : {"null", "\"x\"", "-1", "true", "1.5"}) {
    CAPTURE(value);
    CHECK(of_json(R"({"usage":{"prompt_tokens":9,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":)" +
                  value + "}}}") == token_usage{9, 12});
  }
  CHECK(of_json(R"({"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12,"thoughtsTokenCount":3,
                    "totalTokenCount":24}})") == token_usage{9, 15});
  CHECK(of_json(R"([{"usageMetadata":{"promptTokenCount":9}},{"usageMetadata":{"promptTokenCount":9,
                    "candidatesTokenCount":12}}])") == token_usage{9, 12});
}

TEST_CASE("gateway: what is no usage is none", "[gateway][usage]") {
  for (const std::string_view body : {"",
                                      "{}",
                                      "null",
                                      "hello",
                                      R"({"usage":null})",
                                      R"({"usage":{}})",
                                      R"({"usage":[{"prompt_tokens":9}]})",
                                      R"({"usage":{"prompt_tokens":"9"}})",
                                      R"({"usage":{"prompt_tokens":-9}})",
                                      R"({"usage":{"prompt_tokens":9.5}})",
                                      R"({"usage":{"prompt_tokens":1000000001}})",
                                      R"({"usage":{"prompt_tokens":9})",
                                      R"({"a":{"usage":{"prompt_tokens":9}}})",
                                      R"({"choices":[{"usage":{"prompt_tokens":9}}]})",
                                      R"([[{"usage":{"prompt_tokens":9}}]])",
                                      R"({"a":"\"usage\":{\"prompt_tokens\":9}"})",
                                      R"({"usage":{"a":{"prompt_tokens":9}}})",
                                      R"({"prompt_tokens":9})",
                                      R"({"usage":{"prompt_tokens":-90,"completion_tokens":10}})",
                                      R"({"usage":{"prompt_tokens":1.5,"completion_tokens":0}})",
                                      R"({"usage":{"prompt_tokens":9,"completion_tokens":"5"}})",
                                      R"({"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":10}})",
                                      R"({"usage":{"prompt_tokens":9,"completion_tokens":true}})"}) {
    CAPTURE(body);
    CHECK_FALSE(of_json(body));
  }
  CHECK_FALSE(read(usage_form::none, R"({"usage":{"prompt_tokens":9}})"));
  CHECK(of_json(R"({"usage":{"prompt_tokens":1000000000}})") == token_usage{1'000'000'000, 0});
  CHECK(of_json(R"({"usage":{"prompt_tokens":1e2,"completion_tokens":10}})") == token_usage{100, 10});
  CHECK(of_json(R"({"usage":{"prompt_tokens":9,"completion_tokens":null}})") == token_usage{9, 0});
  CHECK_FALSE(of_json(std::string(100'000, '[')));
}

TEST_CASE("gateway: of a large document the last 16 KiB are read", "[gateway][usage]") {
  const std::string usage = R"("usage" : {"prompt_tokens":9,"completion_tokens":12})";
  const std::string filling(gateway::usage_reader::most_document, 'x');
  CHECK(of_json("{\"a\":\"" + filling + "\"," + usage + "}") == token_usage{9, 12});
  CHECK(of_json("{\"a\":\"" + filling + "\"," + usage + ",\"b\":\"" + std::string(16'000, 'y') + "\"}") ==
        token_usage{9, 12});
  CHECK_FALSE(of_json("{\"a\":\"" + filling + "\"," + usage + ",\"b\":\"" + std::string(17'000, 'y') + "\"}"));
  CHECK_FALSE(of_json("{" + usage + ",\"a\":\"" + filling + "\"}"));
  // In a string it is text of somebody.
  CHECK_FALSE(of_json("{\"a\":\"" + filling + R"(\"usage\":{\"prompt_tokens\":9})" + "\"}"));
  CHECK(of_json("{\"a\":\"" + filling + "\"," + usage + R"(,"b":"\"usage\":{\"prompt_tokens\":1}"})") ==
        token_usage{9, 12});
  // The last one that is one.
  CHECK(of_json("{\"a\":\"" + filling + "\"," + usage + R"(,"usage":null,"usages":{"prompt_tokens":1}})") ==
        token_usage{9, 12});
  CHECK_FALSE(of_json("{\"a\":\"" + filling + R"(","usage":{"prompt_tokens":9)"));
  CHECK_FALSE(of_json(filling + filling + "\"usage"));
  CHECK_FALSE(of_json("\"usage" + filling));
  // One byte decides which way is gone.
  const std::string frame = "{\"a\":\"\"," + usage + "}";
  for (const std::size_t over : {std::size_t{0}, std::size_t{1}}) {
    const std::string text(gateway::usage_reader::most_document - frame.size() + over, 'z');
    CHECK(of_json("{\"a\":\"" + text + "\"," + usage + "}") == token_usage{9, 12});
  }
}

TEST_CASE("gateway: events tell the usage as they go", "[gateway][usage]") {
  CHECK(of_events("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n"
                  "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12}}\n\n"
                  "data: [DONE]\n\n") == token_usage{9, 12});
  CHECK(of_events(
            "event: message_start\n"
            "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
            "event: ping\ndata: {\"type\": \"ping\"}\n\n"
            "event: message_delta\n"
            "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n"
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") == token_usage{25, 15});
  CHECK(of_events("data: {\"usageMetadata\":{\"promptTokenCount\":4}}\r\n\r\n"
                  "data: {\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":8}}\r\n\r\n") ==
        token_usage{4, 8});
  CHECK(of_events("event: response.completed\n"
                  "data: {\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":5}}}\n\n") ==
        token_usage{3, 5});
  // Every end of a line, lines of data that belong together, a mark at the beginning, comments.
  CHECK(of_events("\xef\xbb\xbf"
                  "data:{\r: comment\rdata:\"usage\":\rdata: {\"input_tokens\":3}}\r\r") == token_usage{3, 0});
  CHECK(of_events("data: {\"usage\":{\"input_tokens\":3}}\n\r\n") == token_usage{3, 0});
}

TEST_CASE("gateway: events that are no usage change nothing", "[gateway][usage]") {
  const std::string good = "data: {\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n\n";
  for (const std::string bad :
       {"data: {\"usage\":\n\n", "data: {\"usage\":{\"input_tokens\":9}\n\n", "data: \"usage\"\n\n",
        "id: {\"usage\":{\"input_tokens\":9}}\n\n", ": {\"usage\":{\"input_tokens\":9}}\n\n",
        "data: {\"usage\":null}\n\n", "data: {\"usage\":{\"input_tokens\":9,}}\n\n",
        "xdata: {\"usage\":{\"input_tokens\":9}}\n\n",
        // One that is not ended does not count.
        "data: {\"usage\":{\"input_tokens\":9}}\n", "data: {\"usage\":{\"input_tokens\":9}}"}) {
    CAPTURE(bad);
    CHECK(of_events(good + bad) == token_usage{3, 4});
    CHECK_FALSE(of_events(bad));
  }
}

TEST_CASE("gateway: an event that is too large is passed over, and the next one is read", "[gateway][usage]") {
  const std::string usage = "\"usage\":{\"input_tokens\":3}";
  const std::string good = "data: {" + usage + "}\n\n";
  const std::size_t most = gateway::usage_reader::most_event;
  const auto event_of = [&](std::size_t size) {
    const std::string head = "data: {" + usage + ",\"a\":\"", tail = "\"}";
    return head + std::string(size - head.size() - tail.size(), 'x') + tail;
  };
  CHECK(of_events(event_of(most) + "\n\n") == token_usage{3, 0});
  CHECK_FALSE(of_events(event_of(most + 1) + "\n\n"));
  CHECK(of_events(event_of(most + 1) + "\n\n" + good) == token_usage{3, 0});
  CHECK(of_events(event_of(4 * most) + "\r\n\r\n" + good) == token_usage{3, 0});
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "data: " + std::string(1'000, ' ') + "\n";
  CHECK_FALSE(of_events("data: {" + usage + "}\n" + lines + "\n"));
  CHECK(of_events(lines + "\n" + good) == token_usage{3, 0});
}

TEST_CASE("gateway: the form of a response is that of its Content-Type", "[gateway][usage]") {
  const std::pair<std::string_view, usage_form> rows[] = {{"application/json", usage_form::json},
                                                          {"Application/JSON; charset=utf-8", usage_form::json},
                                                          {"application/problem+json", usage_form::json},
                                                          {"text/event-stream;charset=utf-8", usage_form::events},
                                                          {"text/event-stream", usage_form::events},
                                                          {"application/vnd.amazon.eventstream", usage_form::frames},
                                                          {"text/plain", usage_form::none},
                                                          {"+json", usage_form::none},
                                                          {"", usage_form::none},
                                                          {"application/jsonx", usage_form::none}};
  for (const auto& [type, form] : rows) {
    CAPTURE(type);
    CHECK(gateway::usage_form_of(type) == form);
  }
}

TEST_CASE("gateway: the usage of each provider is read by its preset, and without one", "[gateway][usage]") {
  struct row {
    std::string_view provider;
    usage_form form;
    std::string body;
    token_usage used;
  };
  const auto json = usage_form::json, events = usage_form::events;
  const std::string chat =
      R"({"id":"c","choices":[{"index":0,"message":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":12,
          "total_tokens":21,"prompt_tokens_details":{"cached_tokens":4}}})";
  const std::string of_response =
      R"({"id":"r","output":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2},)"
      R"("output_tokens":12,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":21}})";
  const std::string nothing(3, '\0');
  const std::string frames = nothing + "\xff:event-type\7" +
                             R"({"contentBlockIndex":0,"delta":{"text":"\"usage\":{"}})" + nothing +
                             R"({"metrics":{"latencyMs":7},"p":"ab","usage":{"inputTokens":9,)" +
                             R"("outputTokens":12,"totalTokens":21}})" + nothing;
  const std::string embeddings =
      R"({"object":"list","data":[{"embedding":[0.1,2,-3]}],"usage":{"prompt_tokens":9,"total_tokens":9}})";
  const std::string interaction =
      R"({"id":"i","status":"completed","usage":{"total_input_tokens":9,"total_cached_tokens":2,)"
      R"("total_tool_use_tokens":4,"total_output_tokens":12,"total_thought_tokens":3,"total_tokens":28}})";
  for (
      const row& r : {
          row{"openai", json, chat, {9, 12, 4}},
          row{"openai", json, of_response, {9, 12, 2}},
          row{"openai", json, embeddings, {9, 0}},
          row{"openai", json, R"({"text":"x","usage":{"type":"tokens","input_tokens":9,"output_tokens":12}})", {9, 12}},
          row{"openai",
              events,
              "data: {\"type\":\"response.completed\",\"response\":" + of_response + "}\n\n",
              {9, 12, 2}},
          row{"azure", json, chat, {9, 12, 4}},
          row{"mistral", json, chat, {9, 12, 4}},
          row{"mistral", json, embeddings, {9, 0}},
          row{"huggingface", json, chat, {9, 12, 4}},
          // Of embeddings elsewhere, which tell nothing but the sum.
          row{"openai", json, R"({"data":[],"usage":{"total_tokens":9}})", {9, 0}},
          row{"anthropic",
              json,
              R"({"usage":{"input_tokens":9,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,
                   "output_tokens":12}})",
              {12, 12, 0, 100}},
          row{"gemini",
              json,
              R"({"candidates":[],"usageMetadata":{"promptTokenCount":9,"toolUsePromptTokenCount":4,
                   "candidatesTokenCount":12,"thoughtsTokenCount":3,"totalTokenCount":28}})",
              {13, 15}},
          row{"gemini", json, R"({"embedding":{"values":[1,2]},"usageMetadata":{"promptTokenCount":9}})", {9, 0}},
          row{"gemini", json, R"({"usageMetadata":{"totalTokenCount":28}})", {28, 0}},
          row{"gemini", json, interaction, {13, 15, 2}},
          row{"gemini",
              events,
              "data: {\"event_type\":\"interaction.completed\",\"interaction\":" + interaction + "}\n\n",
              {13, 15, 2}},
          row{"mistral",
              json,
              R"({"conversation_id":"c","outputs":[],"usage":{"prompt_tokens":188,"completion_tokens":55,
                   "total_tokens":7355,"connector_tokens":7112,"connectors":{"web_search":1}}})",
              {7300, 55}},
          row{"mistral",
              json,
              R"({"usage":{"prompt_tokens":9,"completion_tokens":12,"connector_tokens":null}})",
              {9, 12}},
          row{"cohere",
              json,
              R"({"message":{"content":[]},"usage":{"billed_units":{"input_tokens":5,"output_tokens":6},
                   "tokens":{"input_tokens":9,"output_tokens":12}}})",
              {9, 12}},
          row{"cohere",
              json,
              R"({"usage":{"billed_units":{"input_tokens":5.0,"output_tokens":6.0},"tokens":{"input_tokens":9.0,
                   "output_tokens":12.0},"cached_tokens":4.0}})",
              {9, 12}},
          row{"cohere", json, R"({"embeddings":{"float":[[0.1]]},"meta":{"billed_units":{"input_tokens":9}}})", {9, 0}},
          row{"cohere",
              events,
              "event: content-delta\ndata: {\"type\":\"content-delta\",\"delta\":{\"message\":{}}}\n\n"
              "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":"
              "{\"billed_units\":{\"input_tokens\":5},\"tokens\":{\"input_tokens\":9,\"output_tokens\":12}}}}\n\n",
              {9, 12}},
          row{"bedrock",
              json,
              R"({"output":{"message":{}},"usage":{"inputTokens":9,"outputTokens":12,"totalTokens":24,
                   "cacheReadInputTokens":100,"cacheWriteInputTokens":3}})",
              {12, 12, 0, 100}},
          row{"bedrock", usage_form::frames, frames, {9, 12}},
      }) {
    CAPTURE(r.provider, r.body);
    CHECK(read(r.form, r.body, r.provider) == r.used);
    CHECK(read(r.form, r.body) == r.used);
  }
  // Of models behind Bedrock's InvokeModel; elsewhere these names may stand for something else.
  const std::string titan = R"({"embedding":[0.1],"inputTextTokenCount":9})";
  const std::string llama = R"({"generation":"x","prompt_token_count":9,"generation_token_count":12})";
  CHECK(read(json, titan, "bedrock") == token_usage{9, 0});
  CHECK(read(json, llama, "bedrock") == token_usage{9, 12});
  CHECK_FALSE(of_json(llama));
}

TEST_CASE("gateway: the sum alone counts only where there is nothing else", "[gateway][usage]") {
  CHECK(of_json(R"({"usage":{"total_tokens":100,"completion_tokens":12}})") == token_usage{0, 12});
  CHECK_FALSE(of_json(R"({"usage":{"total_tokens":100,"prompt_tokens":-1}})"));
  CHECK_FALSE(of_json(R"({"usage":{"total_tokens":"100"}})"));
  CHECK(of_json(R"({"usage":{"total_tokens":null,"prompt_tokens":4}})") == token_usage{4, 0});
  CHECK_FALSE(read(usage_form::json, R"({"usage":{"total_tokens":100}})", "anthropic"));
}

TEST_CASE("gateway: a name of the usage is that of a place, and not of any place", "[gateway][usage]") {
  for (const std::string_view body :
       {R"({"usage.prompt_tokens":9})", R"({"usage":{"tokens.input_tokens":9}})",
        R"({"a.b":{"usage":{"input_tokens":9}}})", R"({"message":{"response":{"usage":{"input_tokens":9}}}})",
        R"({"usage":[{"input_tokens":9}]})", R"({"tokens":{"input_tokens":9}})",
        R"({"usage":{"usage":{"input_tokens":9}}})", R"({"delta":[{"usage":{"input_tokens":9}}]})",
        R"([[1,{"usage":{"input_tokens":9}}],"usage"])", R"({"":{"usage":{"input_tokens":9}}})",
        R"({"message":{"usage":{"a":{"b":{"input_tokens":9}}}}})"}) {
    CAPTURE(body);
    CHECK_FALSE(of_json(body));
  }
  // What was before does not matter.
  CHECK(of_json(
            R"({"a":{"b":{"c":{"d":{"e":[[{}]]}}}},"x":[1],"delta":{"usage":{"tokens":{"input_tokens":9}}},"y":1})") ==
        token_usage{9, 0});
  CHECK(of_json(R"([{"delta":{"a":1}},{"usage":{"input_tokens":9}},{"b":2}])") == token_usage{9, 0});
}
