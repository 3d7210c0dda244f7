#include "gateway/policy/refusal_body.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using canigo::gateway::read_refusal_body;
using canigo::gateway::told_day_quota;
using canigo::gateway::told_in_body;

namespace {

std::string gemini(std::string_view details) {
  return R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"wait","details":[)" + std::string{details} +
         "]}}";
}
std::string retry_in(std::string_view delay) {
  return R"({"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":)" + std::string{delay} + "}";
}
std::string used_up(std::string_view quota) {
  return R"({"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m"},{"quotaId":")" +
         std::string{quota} + "\"}]}";
}

}  // namespace

TEST_CASE("gateway: the body of a refusal tells its wait in the form of Gemini", "[gateway][quota]") {
  CHECK(read_refusal_body(gemini(retry_in("\"20s\""))) == told_in_body{20s, false});
  CHECK(read_refusal_body(gemini(retry_in("\"46.207s\""))) == told_in_body{46'207ms, false});
  CHECK(read_refusal_body("[" + gemini(retry_in("\"20s\"")) + "]") == told_in_body{20s, false});
  CHECK(read_refusal_body(gemini(retry_in("\"3s\"") + "," + retry_in("\"20s\""))) == told_in_body{20s, false});
  const std::string minute = used_up("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
  CHECK(read_refusal_body(gemini(minute + "," + retry_in("\"20s\""))) == told_in_body{20s, false});
  const std::string day = used_up("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
  const told_day_quota of_day{"GenerateRequestsPerDayPerProjectPerModel-FreeTier", true};
  CHECK(read_refusal_body(gemini(day + "," + retry_in("\"20s\""))) == told_in_body{20s, true, of_day});
  CHECK(read_refusal_body(gemini(day)) == told_in_body{std::nullopt, true, of_day});
}

TEST_CASE("gateway: the body of a refusal tells whose quota of a day is used up", "[gateway][quota]") {
  const auto told = [](std::string_view violations) {
    return read_refusal_body(gemini(R"({"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[)" +
                                    std::string{violations} + "]}"))
        .day;
  };
  const std::string minute = R"({"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"})";
  const std::string of_model = R"({"quotaId":"RequestsPerDayPerProjectPerModel"})";
  const std::string of_all = R"({"quotaId":"RequestsPerDayPerProject","quotaDimensions":{"location":"global"}})";
  const std::string by_dimension = R"({"quotaId":"RequestsPerDay","quotaDimensions":{"model":"gemini-pro"}})";
  CHECK(told(minute) == std::nullopt);
  CHECK(told(of_model) == told_day_quota{"RequestsPerDayPerProjectPerModel", true});
  CHECK(told(by_dimension) == told_day_quota{"RequestsPerDay", true});
  CHECK(told(of_all) == told_day_quota{"RequestsPerDayPerProject", false});
  CHECK(told(minute + "," + of_model) == told_day_quota{"RequestsPerDayPerProjectPerModel", true});
  CHECK(told(of_model + "," + of_all) == told_day_quota{"RequestsPerDayPerProject", false});
  CHECK(told(of_all + "," + of_model) == told_day_quota{"RequestsPerDayPerProject", false});
  CHECK(told(R"({"quotaId":"RequestsPerDay","quotaDimensions":{"model":7}})") ==
        told_day_quota{"RequestsPerDay", false});
  CHECK(read_refusal_body(R"({"error":{"type":"insufficient_quota"}})").day == std::nullopt);
}

TEST_CASE("gateway: the body of a refusal tells that waiting does not help", "[gateway][quota]") {
  const told_in_body lasts{std::nullopt, true};
  CHECK(read_refusal_body(R"({"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}})") ==
        lasts);
  CHECK(read_refusal_body(R"({"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded"}})") == lasts);
  // OpenAI promises the code only: the type may be another one.
  for (const std::string code : {"credit_balance_exhausted", "organization_spend_limit_exceeded",
                                 "project_spend_limit_exceeded", "organization_usage_limit_exceeded"}) {
    CAPTURE(code);
    CHECK(read_refusal_body(R"({"error":{"message":"m","type":"billing","code":")" + code + "\"}}") == lasts);
    CHECK(read_refusal_body(R"({"error":{"message":")" + code + R"(","code":"slow_down"}})") == told_in_body{});
  }
  CHECK(read_refusal_body(R"({"type":"error","error":{"type":"rate_limit_error",)"
                          R"("details":{"error_code":"enforced_spend_limit_reached"}}})") == lasts);
}

TEST_CASE("gateway: the body of a refusal tells its wait in the form of Discord", "[gateway][quota]") {
  const auto told = [](std::string_view seconds) {
    return read_refusal_body(R"({"message":"You are being rate limited.","retry_after":)" + std::string{seconds} +
                             R"(,"global":false})");
  };
  CHECK(told("64.57") == told_in_body{64'570ms, false});
  CHECK(told("2") == told_in_body{2s, false});
  CHECK(told("0.0001") == told_in_body{1ms, false});
  for (const std::string_view none : {"-1", "1e300", "1e-400", "\"2\"", "null", "[2]"}) {
    CAPTURE(none);
    CHECK(told(none).wait.value_or(0s) == 0s);
  }
  CHECK(read_refusal_body(R"({"error":{"retry_after":2}})") == told_in_body{});
}

TEST_CASE("gateway: the body of a refusal tells of the second limit of GitHub", "[gateway][quota]") {
  const auto told = [](std::string_view message) {
    return read_refusal_body(R"({"message":")" + std::string{message} + R"(","documentation_url":"https://d"})");
  };
  CHECK(told("You have exceeded a secondary rate limit. Please wait a few minutes before you try again.") ==
        told_in_body{1min, false});
  CHECK(told("Resource not accessible by integration") == told_in_body{});
  CHECK(told("API rate limit exceeded for user ID 1.") == told_in_body{});
}

TEST_CASE("gateway: the body of another refusal tells nothing", "[gateway][quota]") {
  const std::string whole = gemini(retry_in("\"20s\""));
  for (const std::string& body :
       {std::string{}, std::string{"{"}, std::string{"[]"}, std::string{"null"}, std::string{"\"insufficient_quota\""},
        std::string{R"({"error":"insufficient_quota"})"}, std::string{R"({"error":{"details":null}})"},
        std::string{R"({"error":{"message":"insufficient_quota","type":"requests","code":"rate_limit_exceeded"}})"},
        std::string{R"({"error":{"type":7,"code":[],"details":[7,null,{},{"@type":7}]}})"},
        std::string{R"({"insufficient_quota":true})"},
        // Azure; Bedrock; Cohere.
        std::string{R"({"error":{"code":"429","message":"Rate limit is exceeded."}})"},
        std::string{R"({"message":"Too many tokens, please wait before trying again."})"}, gemini(retry_in("20")),
        gemini(retry_in("\"soon\"")), gemini(retry_in("\"-1s\"")),
        gemini(R"({"@type":"google.rpc.QuotaFailure","violations":{"quotaId":"PerDay"}})"),
        gemini(R"({"retryDelay":"20s"})"), whole.substr(0, whole.size() - 1), std::string(20'000, '['),
        std::string(20'000, '[') + std::string(20'000, ']'), std::string{"\xff\xfe"}}) {
    CAPTURE(body);
    CHECK(read_refusal_body(body) == told_in_body{});
  }
}
