#include "canigo/jobs/json.hpp"

#include "canigo/jobs/error.hpp"
#include "canigo/timeout.hpp"

#include "service_run.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace shop {

struct order {
  int number = 0;
  std::vector<std::string> wares = {};
};

void to_json(nlohmann::json& j, const order& o) { j = {{"number", o.number}, {"wares", o.wares}}; }

void from_json(const nlohmann::json& j, order& o) {
  j.at("number").get_to(o.number);
  j.at("wares").get_to(o.wares);
}

}  // namespace shop

TEST_CASE("a handler takes a value and returns one, as JSON", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("count",
                 jobs::typed<shop::order>([](const shop::order& o, jobs::job& j) -> net::awaitable<shop::order> {
                   co_await sleep_for(10ms);
                   shop::order counted{.number = static_cast<int>(o.wares.size()), .wares = {j.kind()}};
                   co_return counted;
                 }));
  service.handle("note", jobs::typed<std::string>([&](const std::string& text, jobs::job&) -> net::awaitable<void> {
                   run.note(text);
                   co_return;
                 }));
  service.start();
  const shop::order o{.number = 7, .wares = {"a \"chair\"", "\xc3\xa9tag\xc3\xa8re"}};
  CHECK(jobs::to_json(o) == "{\"number\":7,\"wares\":[\"a \\\"chair\\\"\",\"\xc3\xa9tag\xc3\xa8re\"]}");
  run.note_result(service, run.now(service.submit("count", jobs::to_json(o))));
  run.note_result(service, run.now(service.submit("note", "\"it\"")));
  run.time.run_for(1s);
  CHECK(run.log == log_lines{"it@10", R"({"number":2,"wares":["count"]}@10)", "@10"});
  CHECK(jobs::from_json<shop::order>(run.look(1).result).number == 2);
}

TEST_CASE("a payload that is not what the handler takes makes the job hopeless", "[jobs]") {
  service_run run;
  jobs::service service{run.io, run.store, one_queue()};
  service.handle("kind", jobs::typed<shop::order>([&](const shop::order&, jobs::job&) -> net::awaitable<void> {
                   run.note("ran");
                   co_return;
                 }));
  service.start();
  for (const char* payload : {"", "{", "[]", R"({"number":"7","wares":[]})", R"({"number":7})"}) {
    const auto id = run.now(service.submit("kind", payload));
    run.time.run_for(1s);
    const auto info = run.look(id);
    CHECK(info.state == jobs::job_state::dead);
    REQUIRE(info.history.size() == 1);
    CHECK(info.history[0].text.starts_with("the payload is not what this handler takes: [json.exception."));
  }
  CHECK(run.log.empty());
}
