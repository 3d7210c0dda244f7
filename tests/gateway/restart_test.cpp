#include "gateway/config/restart.hpp"

#include "gateway/config/reader.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;

namespace {

constexpr std::string_view running = R"(
threads = 2
redis = 'env:CANIGO_RESTART_REDIS'
grace = '25s'
classes = ['high', 'low']
ageing = '60s'
admin = { listen = '127.0.0.1:9901', token = 'env:CANIGO_RESTART_TEST' }
limits.connections = { all = 100 }
[[listen]]
address = '127.0.0.1:8080'
mode = 'reverse'
[[upstream]]
name = 'a'
url = 'http://a'
prefix = '/a'
rates = [{ limit = '10/1s', burst = 2 }, { limit = '600/1m', burst = 60, unit = 'tokens' }]
concurrency = 64
queue = 100
overflow = 'reject_new'
shared = true
on_redis_failure = 'local:0.5'
tokens = { api = 'openai' }
max_wait = { high = '1s' }
[[tenant]]
name = 'one'
keys = ['sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08']
weight = 2
limits.a = { concurrency = 3 }
)";

gateway::config config_of(std::string_view text) {
  ::setenv("CANIGO_RESTART_TEST", "a-token-of-the-test", 1);
  ::setenv("CANIGO_RESTART_REDIS", "redis://127.0.0.1", 1);
  auto read = gateway::parse_config(text);
  for (const auto& e : read.errors) UNSCOPED_INFO(gateway::message_of(e, "text"));
  REQUIRE(read.value);
  return std::move(*read.value);
}

/// What asks for a restart once `part` of the running configuration is `other`.
std::vector<std::string> after(std::string_view part, std::string_view other) {
  std::string text{running};
  const auto at = text.find(part);
  REQUIRE(at != text.npos);
  return gateway::changes_for_restart(config_of(running), config_of(text.replace(at, part.size(), other)));
}

}  // namespace

TEST_CASE("gateway: what a process is built on asks for a restart", "[gateway][restart]") {
  struct row {
    std::string_view part, other, message;
  };
  constexpr std::string_view socket = "address, reuse_port or systemd of a [[listen]] has changed";
  constexpr std::string_view units = "upstream \"a\": the number of its rates, or the unit of one, has changed";
  const row rows[] = {
      {"threads = 2", "threads = 3", "threads has changed"},
      {"['high', 'low']", "['high', 'middle', 'low']", "classes has changed"},
      {"ageing = '60s'", "ageing = 'never'", "ageing has changed"},
      {"127.0.0.1:9901", "127.0.0.1:9902", "admin.listen has changed"},
      {"admin = { listen = '127.0.0.1:9901', token = 'env:CANIGO_RESTART_TEST' }", "", "admin.listen has changed"},
      {"127.0.0.1:8080", "127.0.0.1:8081", socket},
      {"mode = 'reverse'", "reuse_port = true", socket},
      {"mode = 'reverse'", "systemd = 'web'", socket},
      {"[[upstream]]", "[[listen]]\naddress = 'unix:/s'\n[[upstream]]", socket},
      {", unit = 'tokens'", "", units},
      {"{ limit = '10/1s', burst = 2 }, ", "", units},
      {"queue = 100", "queue = 200", "upstream \"a\": queue has changed"},
      {"'reject_new'", "'evict_oldest'", "upstream \"a\": overflow has changed"},
      {"shared = true", "shared = false", "upstream \"a\": shared has changed"},
      {"'local:0.5'", "'local:0.4'", "upstream \"a\": on_redis_failure has changed"},
      {"'local:0.5'", "'open'", "upstream \"a\": on_redis_failure has changed"},
  };
  for (const row& r : rows) {
    CAPTURE(r.part, r.other);
    CHECK(after(r.part, r.other) == std::vector<std::string>{std::string{r.message}});
  }
}

TEST_CASE("gateway: what a reload changes asks for no restart", "[gateway][restart]") {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"'10/1s', burst = 2", "'1/1h', burst = 7"},
      {"concurrency = 64", "concurrency = 1"},
      {"'http://a'", "'http://b:81'"},
      {"prefix = '/a'", "prefix = '/z'\nprivate = true"},
      {"high = '1s'", "low = '9s'"},
      {"weight = 2", "weight = 3"},
      {"{ concurrency = 3 }", "{ rates = [{ limit = '1/1s' }] }"},
      {"9f86", "0000"},
      {"grace = '25s'", "grace = '1s'\naccess_log = 'off'"},
      {"all = 100", "all = 7"},
      {"9901'", "9901', hosts = ['gateway.example']"},
      {"[[tenant]]", "[[upstream]]\nname = 'b'\nurl = 'http://b'\nprefix = '/b'\n[[tenant]]"},
      {"mode = 'reverse'", "anonymous = ''"},
  };
  for (const auto& [part, other] : rows) {
    CAPTURE(part, other);
    CHECK(after(part, other).empty());
  }
  SECTION("and so does an upstream with another name") {
    std::string text{running};
    const auto rename = [&](std::string_view from, std::string_view to) {
      text.replace(text.find(from), from.size(), to);
    };
    rename("name = 'a'", "name = 'z'");
    rename("limits.a", "limits.z");
    rename("queue = 100", "queue = 5");
    CHECK(gateway::changes_for_restart(config_of(running), config_of(text)).empty());
  }
}
