#include "gateway/config/call_pattern.hpp"

#include "gateway/preset_upstream.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

namespace {

bool matches(std::string_view pattern, std::string_view method, std::string_view target) {
  const auto parsed = gateway::parse_call_pattern(pattern);
  REQUIRE(parsed);
  return parsed->matches(method, target);
}

bool is_free(std::string_view provider, std::string_view method, std::string_view target) {
  const gateway::upstream u = gateway_test::upstream_of(provider);
  return std::ranges::any_of(u.tokens.free, [&](const auto& p) { return p.matches(method, target); });
}

}  // namespace

TEST_CASE("gateway: a pattern has a method, and a path in which a star is a part of it", "[gateway][config]") {
  CHECK(matches("GET *", "GET", "/any/path?a=b"));
  CHECK_FALSE(matches("GET *", "get", "/"));
  CHECK_FALSE(matches("GET *", "POST", "/"));
  CHECK(matches("POST /v1/files", "POST", "/v1/files"));
  CHECK(matches("POST /v1/files", "POST", "/v1/files?a=/b"));
  for (const std::string_view other : {"/v1/files/", "/v1/file", "/v1/filess", "/x/v1/files", "/V1/files", ""})
    CHECK_FALSE(matches("POST /v1/files", "POST", other));
  // At the beginning it is any beginning.
  for (const std::string_view path : {"/files", "/v1/files", "/a/b/files"})
    CHECK(matches("POST */files", "POST", path));
  for (const std::string_view path : {"/profiles", "/v1/files/x", "files", "/chat?x=/files"})
    CHECK_FALSE(matches("POST */files", "POST", path));
  CHECK(matches("POST *:countTokens", "POST", "/v1beta/models/g-2:countTokens"));
  // Elsewhere it has no slash in it: no call is free because of what its path goes back from.
  CHECK(matches("POST */uploads/*/parts", "POST", "/v1/uploads/u-1/parts"));
  CHECK(matches("POST */uploads/*/parts", "POST", "/v1/uploads/uploads/u-1/parts"));
  CHECK_FALSE(matches("POST */uploads/*/parts", "POST", "/v1/uploads/u-1/x/parts"));
  CHECK_FALSE(matches("POST */files/*", "POST", "/v1/files/../chat/completions"));
  CHECK(matches("POST /a*b*c", "POST", "/abbbc"));
  CHECK(matches("POST /a*b*c", "POST", "/axbxcxbc"));
  CHECK_FALSE(matches("POST /a*b*c", "POST", "/axcxb"));
  // A server may take these for the path without the last part, which another pattern would charge.
  for (const std::string_view same :
       {"/a/", "/a/.", "/a/..", "/a/%2E", "/a/%2e.", "/a//", "/a/./", "/a//b", "/a/..%2fb", "/a/b%2F..%2Fc",
        "/a/b%2f%2e%2e", "/a/..\\b", "/a/b%5c.%5Cc", "/a/b%2f%2fc", "/a/b;c", "/a/b%3bc"}) {
    CHECK_FALSE(matches("POST /a/*", "POST", same));
    CHECK(matches("POST *", "POST", same));
  }
  for (const std::string_view other : {"/a/b", "/a/...", "/a/.b", "/a/%2eb", "/a/%2", "/a/b%2fc", "/a/%252e"})
    CHECK(matches("POST /a/*", "POST", other));
  CHECK(matches("POST /a/", "POST", "/a/"));
  CHECK_FALSE(matches("POST /a/", "POST", "/a//"));
  CHECK_FALSE(is_free("openai", "POST", "/v1/chat/completions/"));
  CHECK_FALSE(is_free("openai", "POST", "/v1/chat/completions/."));
  CHECK_FALSE(matches("POST /a/*", "POST", "/a"));
}

TEST_CASE("gateway: a text that is no pattern is refused", "[gateway][config]") {
  for (const std::string_view text : {"", "GET", "GET ", " /a", "GET a", "GET  /a", "GET /a b", "GET /a?b", "GET /a#b",
                                      "* /a", "GET,POST /a", "/a", "GET /\xc3\xa4"}) {
    CAPTURE(text);
    CHECK_FALSE(gateway::parse_call_pattern(text));
  }
}

TEST_CASE("gateway: files, batches and counts of tokens are free at each provider, and answers are not",
          "[gateway][config]") {
  struct row {
    std::string_view provider, method, target;
    bool is_free;
  };
  for (const row& r : {
           row{"openai", "GET", "/v1/responses/r-1?include=usage", true},
           row{"openai", "GET", "/v1/models", true},
           row{"openai", "DELETE", "/v1/files/f-1", true},
           row{"openai", "POST", "/v1/files", true},
           row{"openai", "POST", "/v1/uploads/u-1/parts", true},
           row{"openai", "POST", "/v1/batches", true},
           row{"openai", "POST", "/v1/responses/input_tokens", true},
           row{"openai", "POST", "/v1/responses", false},
           row{"openai", "POST", "/v1/chat/completions", false},
           row{"openai", "POST", "/v1/embeddings", false},
           row{"openai", "POST", "/v1/audio/transcriptions", false},
           row{"azure", "POST", "/openai/files?api-version=1", true},
           row{"azure", "POST", "/openai/deployments/d/chat/completions?api-version=1", false},
           row{"anthropic", "POST", "/v1/messages/count_tokens", true},
           row{"anthropic", "POST", "/v1/messages/batches", true},
           row{"anthropic", "POST", "/v1/messages", false},
           row{"gemini", "POST", "/v1beta/models/g:countTokens", true},
           row{"gemini", "POST", "/upload/v1beta/files?uploadType=resumable", true},
           row{"gemini", "POST", "/v1beta/models/g:generateContent", false},
           row{"gemini", "POST", "/v1beta/models/g:streamGenerateContent?alt=sse", false},
           row{"gemini", "POST", "/v1beta/models/g:embedContent", false},
           row{"mistral", "POST", "/v1/batch/jobs", true},
           row{"mistral", "POST", "/v1/chat/completions", false},
           row{"cohere", "POST", "/v1/tokenize", true},
           row{"cohere", "POST", "/v2/chat", false},
           row{"cohere", "POST", "/v2/embed", false},
           row{"bedrock", "POST", "/model/anthropic.claude/count-tokens", true},
           row{"bedrock", "POST", "/model/anthropic.claude/converse", false},
           row{"bedrock", "POST", "/model/anthropic.claude/converse-stream", false},
           row{"huggingface", "POST", "/api/models/a/b/commit/main", true},
           row{"huggingface", "POST", "/v1/chat/completions", false},
           row{"generic", "GET", "/v1/x", true},
           row{"generic", "POST", "/v1/files", false},
       }) {
    CAPTURE(r.provider, r.method, r.target);
    CHECK(is_free(r.provider, r.method, r.target) == r.is_free);
  }
}
