#include "gateway/config/restart.hpp"

#include "gateway/config/file_values.hpp"
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
redis_tls = { ca = '/etc/passwd', cert = '/etc/hosts', key = '/etc/hostname' }
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
[[upstream]]
name = 'alone'
url = 'http://alone'
prefix = '/alone'
rates = [{ limit = '10/1s', window = 'strict' }]
)";

gateway::read_result read(std::string_view text) {
  ::setenv("CANIGO_RESTART_TEST", "a-token-of-the-test", 1);
  ::setenv("CANIGO_RESTART_REDIS", "rediss://127.0.0.1", 1);
  ::setenv("CANIGO_RESTART_ANOTHER", "rediss://127.0.0.2", 1);
  auto read = gateway::parse_config(text);
  for (const auto& e : read.errors) UNSCOPED_INFO(gateway::message_of(e, "text"));
  REQUIRE(read.value);
  return read;
}

/// What asks for a restart once `part` of the running configuration is `other`.
std::vector<std::string> after(std::string_view part, std::string_view other) {
  std::string text{running};
  const auto at = text.find(part);
  REQUIRE(at != text.npos);
  const auto next = read(text.replace(at, part.size(), other));
  std::vector<std::string> messages;
  for (const auto& e : gateway::changes_for_restart(*read(running).value, *next.value))
    messages.push_back(gateway::message_of(next.values->locate(e), "f"));
  return messages;
}

}  // namespace

TEST_CASE("gateway: what a process is built on asks for a restart", "[gateway][restart]") {
  struct row {
    std::string_view part, other, message;
  };
  const row rows[] = {
      {"threads = 2", "threads = 3", "f:2:11: threads is 3, which needs a restart"},
      {"threads = 2", "", "f:0:0: threads is left out, which needs a restart"},
      {"env:CANIGO_RESTART_REDIS", "env:CANIGO_RESTART_ANOTHER",
       "f:3:9: redis is \"env:CANIGO_RESTART_ANOTHER\", which needs a restart"},
      {"ca = '/etc/passwd'", "ca = '/etc/group'", "f:4:20: redis_tls.ca is \"/etc/group\", which needs a restart"},
      {"cert = '/etc/hosts'", "cert = '/etc/group'", "f:4:42: redis_tls.cert is \"/etc/group\", which needs a restart"},
      {", key = '/etc/hostname'", "", "f:4:13: redis_tls.key is left out, which needs a restart"},
      {"['high', 'low']", "['high', 'middle', 'low']",
       "f:6:11: classes is [ 'high', 'middle', 'low' ], which needs a restart"},
      {"ageing = '60s'", "ageing = 'never'", "f:7:10: ageing is \"never\", which needs a restart"},
      {"127.0.0.1:9901", "127.0.0.1:9902", "f:8:20: admin.listen is \"127.0.0.1:9902\", which needs a restart"},
      {"admin = { listen = '127.0.0.1:9901', token = 'env:CANIGO_RESTART_TEST' }", "",
       "f:0:0: admin.listen is left out, which needs a restart"},
      {"127.0.0.1:8080", "127.0.0.1:8081", "f:11:11: listen[0].address is \"127.0.0.1:8081\", which needs a restart"},
      {"mode = 'reverse'", "reuse_port = true", "f:12:14: listen[0].reuse_port is true, which needs a restart"},
      {"mode = 'reverse'", "systemd = 'web'", "f:12:11: listen[0].systemd is \"web\", which needs a restart"},
      {"[[upstream]]", "[[listen]]\naddress = 'unix:/s'\n[[upstream]]",
       "f:10:1: listen has another number of tables, which needs a restart"},
      {", unit = 'tokens'", "", "f:17:42: upstream[0].rates[1].unit is left out, which needs a restart"},
      {", window = 'strict'", "", "f:34:10: upstream[1].rates[0].window is left out, which needs a restart"},
      {"{ limit = '10/1s', burst = 2 }, ", "",
       "f:17:9: upstream[0].rates has another number of rates, which needs a restart"},
      {"queue = 100", "queue = 200", "f:19:9: upstream[0].queue is 200, which needs a restart"},
      {"queue = 100", "", "f:13:1: upstream[0].queue is left out, which needs a restart"},
      {"'reject_new'", "'evict_oldest'", "f:20:12: upstream[0].overflow is \"evict_oldest\", which needs a restart"},
      {"shared = true", "shared = false", "f:21:10: upstream[0].shared is false, which needs a restart"},
      {"'local:0.5'", "'local:0.4'", "f:22:20: upstream[0].on_redis_failure is \"local:0.4\", which needs a restart"},
      {"'local:0.5'", "'open'", "f:22:20: upstream[0].on_redis_failure is \"open\", which needs a restart"},
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
    CHECK(gateway::changes_for_restart(*read(running).value, *read(text).value).empty());
  }
}
