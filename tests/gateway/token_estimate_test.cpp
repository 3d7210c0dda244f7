#include "gateway/policy/token_estimate.hpp"

#include "gateway/preset_upstream.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace gateway = canigo::gateway;
using gateway::token_api;

namespace {

gateway::token_estimate estimate(std::string_view body, token_api api = token_api::openai,
                                 std::string_view target = "/v1/x") {
  gateway::token_options o;
  o.api = api;
  o.default_output = 500;
  return gateway::estimate_tokens(o, {"POST", target}, {body, true, body.size()});
}

}  // namespace

TEST_CASE("gateway: input is a quarter of the text in a body", "[gateway][tokens]") {
  // 4 + 12 bytes of text, none of names and numbers.
  CHECK(estimate(R"({"messages":[{"role":"user","content":"hello, world"}],"temperature":1})").input == 4);
  CHECK(estimate(R"({"a":["abcd",{"b":"c"}],"d":null,"e":true})").input == 2);
  CHECK(estimate("{}").input == 0);
  CHECK(estimate(R"({"a":"\u00e9\ud83d\ude00ab"})").input == 2);
  // Pictures and sounds are no text.
  CHECK(estimate(R"({"a":{"url":"data:image/png;base64,AAAAAAAAAAAAAAAAAAAAAAAAAAAA"}})").input == 0);
  CHECK(estimate(R"({"a":{"type":"x","data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAA","b":"cdef"}})").input == 2);
  CHECK(estimate(R"({"data":"abcdefgh"})").input == 2);
}

TEST_CASE("gateway: output is what a body allows, for each answer", "[gateway][tokens]") {
  CHECK(estimate("{}").output == 500);
  CHECK(estimate(R"({"max_tokens":7})").output == 7);
  CHECK(estimate(R"({"max_completion_tokens":7})").output == 7);
  CHECK(estimate(R"({"max_output_tokens":7})").output == 7);
  CHECK(estimate(R"({"max_tokens":7,"max_completion_tokens":9})").output == 9);
  CHECK(estimate(R"({"max_tokens":7,"n":3})").output == 21);
  CHECK(estimate(R"({"n":3})").output == 1'500);
  CHECK(estimate(R"({"max_tokens":7,"n":0})").output == 7);
  CHECK(estimate(R"({"max_tokens":0})").output == 0);
  CHECK(estimate(R"({"max_tokens":-7})").output == 500);
  CHECK(estimate(R"({"max_tokens":"7"})").output == 500);
  CHECK(estimate(R"({"max_tokens":7.5})").output == 8);
  CHECK(estimate(R"({"max_tokens":5e4})").output == 50'000);
  CHECK(estimate(R"({"max_tokens":-7.5})").output == 500);
  CHECK(estimate(R"({"max_tokens":0e309})").output == 0);
  CHECK(estimate(R"({"max_tokens":null})").output == 500);
  CHECK(estimate(R"({"a":{"max_tokens":7},"b":[{"n":9}]})").output == 500);
  CHECK(estimate(R"({"max_tokens":18446744073709551615,"n":18446744073709551615})").output == 1'000'000'000);
  CHECK(estimate(R"({"max_tokens":1e30})").output == 1'000'000'000);
  CHECK(estimate(R"({"generationConfig":{"maxOutputTokens":7,"candidateCount":2}})", token_api::gemini).output == 14);
  CHECK(estimate(R"({"generation_config":{"max_output_tokens":7}})", token_api::gemini).output == 7);
  CHECK(estimate(R"({"generationConfig":{"a":{}},"x":{"maxOutputTokens":7}})", token_api::gemini).output == 500);
  CHECK(estimate(R"({"inferenceConfig":{"maxTokens":7}})", token_api::bedrock).output == 7);
  CHECK(estimate(R"({"textGenerationConfig":{"maxTokenCount":7}})", token_api::bedrock).output == 7);
  CHECK(estimate(R"({"parameters":{"max_new_tokens":7}})").output == 7);
  CHECK(estimate(R"({"prompt":"x","max_gen_len":7})", token_api::bedrock).output == 7);
  // OpenAI makes all of best_of, and returns n of them.
  CHECK(estimate(R"({"max_tokens":7,"n":2,"best_of":3})").output == 21);
  CHECK(estimate(R"({"max_tokens":7,"best_of":3,"n":2})").output == 21);
}

TEST_CASE("gateway: a call for embeddings reserves no output", "[gateway][tokens]") {
  struct row {
    std::string_view provider, target, body;
    std::uint64_t input;
  };
  for (const row& r : {
           row{"openai", "/v1/embeddings", R"({"model":"m","input":"abcdefgh"})", 3},
           row{"openai", "/v1/embeddings?x=y", R"({"model":"m","input":["abcd","efgh"],"max_tokens":900})", 3},
           row{"openai", "/v1/moderations", R"({"input":"abcdefgh"})", 2},
           row{"azure", "/openai/deployments/d/embeddings?api-version=1", R"({"input":"abcdefgh"})", 2},
           row{"gemini", "/v1beta/models/g:embedContent", R"({"content":{"parts":[{"text":"abcdefgh"}]}})", 2},
           row{"gemini", "/v1beta/models/g:batchEmbedContents",
               R"({"requests":[{"content":{"parts":[{"text":"abcdefgh"}]}}]})", 2},
           row{"mistral", "/v1/embeddings", R"({"model":"m","input":["abcdefgh"]})", 3},
           row{"mistral", "/v1/chat/moderations", R"({"input":[{"role":"user","content":"abcd"}]})", 2},
           row{"cohere", "/v2/embed", R"({"texts":["abcdefgh"],"input_type":"abcd","max_tokens":5})", 3},
           row{"cohere", "/v2/rerank", R"({"query":"abcd","documents":["abcd"]})", 2},
           row{"bedrock", "/model/amazon.titan-embed-text-v2%3A0/invoke", R"({"inputText":"abcdefgh"})", 2},
           row{"bedrock", "/model/cohere.rerank-v3-5%3A0/invoke", R"({"query":"abcdefgh"})", 2},
           row{"huggingface", "/hf-inference/models/a/b/pipeline/feature-extraction", R"({"inputs":"abcdefgh"})", 2},
           row{"generic", "/v1/embeddings", R"({"input":"abcdefgh"})", 2},
       }) {
    CAPTURE(r.provider, r.target);
    gateway::token_options o = gateway_test::upstream_of(r.provider).tokens;
    if (o.api == token_api::none) o.api = token_api::openai;
    const auto e = gateway::estimate_tokens(o, {"POST", r.target}, {r.body, true, r.body.size()});
    CHECK((e.input == r.input && e.output == 0 && !e.has_output && !e.is_free));
    // Neither does one that is too large to be read.
    const auto large = gateway::estimate_tokens(o, {"POST", r.target}, {"{", false, 4'000'000});
    CHECK((large.input == 1'000'000 && large.output == 0));
  }
  // Calls beside them do.
  for (const auto& [provider, target] : {std::pair{"openai", "/v1/chat/completions"},
                                         {"openai", "/v1/embeddings/x"},
                                         {"anthropic", "/v1/messages"},
                                         {"gemini", "/v1beta/models/embedContent:generateContent"},
                                         {"cohere", "/v2/chat"},
                                         {"bedrock", "/model/amazon.nova-pro-v1%3A0/invoke"},
                                         {"bedrock", "/model/amazon.titan-embed-text-v2%3A0/converse"}}) {
    CAPTURE(provider, target);
    const gateway::token_options o = gateway_test::upstream_of(provider).tokens;
    const auto e = gateway::estimate_tokens(o, {"POST", target}, {"{}", true, 2});
    CHECK((e.output == 512 && e.has_output));
  }
}

TEST_CASE("gateway: a body that can't be read counts by its length", "[gateway][tokens]") {
  const std::string text = R"({"max_tokens":7,"a":"bcd)";
  for (const std::string& body : {text, std::string{"[\"abcdefgh\", 1, 2, 3]"}, std::string{"hello"},
                                  std::string{"{} x"}, std::string{"\xff\xfe{}"}, std::string(10'000, '[')}) {
    CAPTURE(body);
    CHECK((estimate(body).input == (body.size() + 3) / 4 && estimate(body).output == 500));
  }
  gateway::token_options o;
  o.api = token_api::openai;
  // The beginning of a larger one, which would be a whole one by chance.
  const auto large = gateway::estimate_tokens(o, {"POST", "/"}, {"{}", false, 4'000'001});
  CHECK((large.input == 1'000'001 && large.output == 512));
  // In chunks, as far as it was read.
  CHECK(gateway::estimate_tokens(o, {"POST", "/"}, {"{\"a\":1", false, 0}).input == 2);
  CHECK(gateway::estimate_tokens(o, {"POST", "/"}, {"", false, ~0ULL}).input == 1'000'000'000);
}

TEST_CASE("gateway: a request without a body uses no tokens", "[gateway][tokens]") {
  CHECK((estimate("").input == 0 && estimate("").output == 0));
  CHECK(estimate("", token_api::bytes).output == 0);
  // One whose body is still to come is not such a request.
  gateway::token_options o;
  o.api = token_api::openai;
  CHECK(gateway::estimate_tokens(o, {"POST", "/"}, {"", false, 0}).output == 512);
}

TEST_CASE("gateway: what counts depends on the interface", "[gateway][tokens]") {
  const std::string body = R"({"model":"m-1","stream":true,"max_tokens":7,"a":"bcdefgh"})";
  const auto none = estimate(body, token_api::none);
  CHECK((none.input == 0 && none.output == 0));
  const auto bytes = estimate(body, token_api::bytes);
  CHECK((bytes.input == (body.size() + 3) / 4 && bytes.output == 500 && bytes.model.empty()));
  for (const auto api : {token_api::openai, token_api::anthropic}) {
    const auto e = estimate(body, api);
    CHECK((e.model == "m-1" && e.output == 7));
  }
  CHECK(estimate("{}", token_api::gemini, "/v1beta/models").model.empty());
  CHECK(estimate(R"({"model":")" + std::string(100, 'm') + "\"}").model == std::string(64, 'm'));
}

TEST_CASE("gateway: the model is in the target, or in the body", "[gateway][tokens]") {
  const std::string body = R"({"model":"other"})";
  CHECK(estimate(body, token_api::gemini, "/v1beta/models/g-2:streamGenerateContent?alt=sse").model == "g-2");
  CHECK(estimate(body, token_api::bedrock, "/model/b.c-v1%3A0/converse").model == "b.c-v1:0");
  CHECK(estimate(body, token_api::gemini, "/v1/mod%65ls/%67-2:generateContent").model == "g-2");
  CHECK(estimate(body, token_api::gemini, "/v1/models/g%2:generateContent").model == "g%2");
  CHECK(estimate("{}", token_api::openai, "/openai/deployments/d-1/chat/completions?api-version=1").model == "d-1");
  CHECK(estimate(body, token_api::openai, "/v1/chat/completions").model == "other");
  // Such a path may lead to another call, whose model is in its body.
  CHECK(estimate(body, token_api::openai, "/v1/models/cheap/../../chat/completions").model == "other");
  CHECK(estimate(body, token_api::openai, "/v1/models/cheap/..%2f..%2fchat/completions").model == "other");
  CHECK(estimate(body, token_api::bedrock, "/model/arn%3Aaws%2Fid/converse").model == "arn:aws/id");
  // A query and the parameters of a path name no model.
  for (const std::string_view target : {"/v1/chat/completions?/models/cheap", "/v1/chat/completions?x=/models/cheap",
                                        "/v1/chat/completions;/models/cheap", "/v1/chat/completions%3B/models/cheap"})
    CHECK(estimate(body, token_api::openai, target).model == "other");
  CHECK(estimate("{}", token_api::openai, "/models/" + std::string(100, 'm')).model == std::string(64, 'm'));
}

TEST_CASE("gateway: a call that is named free uses nothing, whatever its body", "[gateway][tokens]") {
  gateway::token_options o;
  o.api = token_api::openai;
  o.free = {{"GET", "*"}, {"POST", "*/files"}};
  const auto of = [&](std::string_view method, std::string_view target) {
    return gateway::estimate_tokens(o, {method, target}, {"", false, 4'000'000});
  };
  for (const auto& e : {of("GET", "/v1/x"), of("POST", "/v1/files")})
    CHECK((e.is_free && e.input == 0 && e.output == 0 && e.model.empty()));
  CHECK((!of("POST", "/v1/x").is_free && of("POST", "/v1/x").input == 1'000'000));
}

TEST_CASE("gateway: a request for a stream asks for its usage, too", "[gateway][tokens]") {
  const std::string_view body = " {\"stream\" : true, \"messages\": 12345678901234567890123, \"b\": 1.10}";
  const auto with = gateway::with_include_usage(body);
  REQUIRE(with);
  CHECK(*with ==
        " {\"stream_options\":{\"include_usage\":true},\"stream\" : true, \"messages\": 12345678901234567890123, "
        "\"b\": 1.10}");
  CHECK(nlohmann::json::parse(*with)["stream_options"]["include_usage"] == true);
  for (const std::string_view as_it_is :
       {"{}", R"({"prompt":"","stream":false})",
        R"({"prompt":"","stream":true,"stream_options":{"include_usage":false}})",
        R"({"prompt":"","stream":true,"stream_options":null})", R"([{"prompt":"","stream":true}])",
        R"({"prompt":"","a":{"stream":true}})", R"({"prompt":"","stream":true)", "",
        // The Responses API, which answers 400 to it.
        R"({"input":"","stream":true})", R"({"stream":true,"a":{"messages":[]}})"}) {
    CAPTURE(as_it_is);
    CHECK_FALSE(gateway::with_include_usage(as_it_is));
  }
  CHECK(gateway::with_include_usage(R"({"stream":true,"prompt":"","a":{"stream_options":1}})"));
}
