#include "gateway/config/config_view.hpp"
#include "gateway/config/reader.hpp"
#include "http/temporary_folder.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gateway = canigo::gateway;
using namespace std::chrono_literals;

namespace {

void write_file(const std::string& path, std::string_view text) { std::ofstream{path, std::ios::binary} << text; }

/// What is wrong with a text, each as "LINE:COLUMN: TEXT".
std::vector<std::string> wrongs(std::string_view text) {
  std::vector<std::string> lines;
  for (const auto& e : gateway::parse_config(text).errors) lines.push_back(gateway::message_of(e, "").substr(1));
  return lines;
}

/// A configuration that is right, to which a line is added at its end: inside of its one upstream.
constexpr std::string_view listening = "[[listen]]\naddress = '127.0.0.1:0'\n";
constexpr std::string_view least =
    "[[listen]]\naddress = '127.0.0.1:0'\n[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefix = '/a'\n";

std::string with(std::string_view more) { return std::string{least}.append(more); }

/// That `more`, which is put behind `least`, is refused with this one message in its first line.
void check_refused(const std::string& more, const std::string& message) {
  CAPTURE(more);
  const auto found = wrongs(with(more));
  REQUIRE(found.size() == 1);
  const auto text = found[0].substr(found[0].find(": ") + 2);
  CHECK(text == message);
}

}  // namespace

TEST_CASE("gateway: the least configuration has the defaults of all else", "[gateway][config]") {
  const auto read = gateway::parse_config(least);
  REQUIRE(read.errors.empty());
  REQUIRE(read.value);
  const gateway::config& c = *read.value;
  CHECK(c.threads == 0);
  CHECK(c.redis.source.empty());
  CHECK(c.classes == std::vector<std::string>{"interactive", "normal", "batch"});
  CHECK(c.ageing == 60s);
  CHECK(c.grace == 25s);
  CHECK(c.access_log.to == gateway::access_log_options::kind::standard_output);
  CHECK_FALSE(c.admin);
  CHECK_FALSE(c.forward);
  CHECK((c.size.header == 16384 && c.size.fields == 100 && c.size.target == 8192));
  CHECK((c.size.body == 64 << 20 && c.size.read_ahead == 16 << 20 && c.size.buffered == 256 << 20));
  CHECK((c.time.header == 10s && c.time.body_idle == 30s && c.time.write_stall == 60s && c.time.keep_alive == 75s));
  CHECK((c.connections.all == 20'000 && c.connections.per_address == 2'000));
  REQUIRE(c.listeners.size() == 1);
  CHECK((c.listeners[0].mode == gateway::listen_mode::reverse && !c.listeners[0].tls &&
         c.listeners[0].anonymous == "local"));
  REQUIRE(c.upstreams.size() == 1);
  const gateway::upstream& u = c.upstreams[0];
  CHECK((u.name == "a" && u.prefix == "/a" && u.url.host == "a" && u.url.port == 80));
  CHECK(u.credential.is_passed());
  CHECK((u.rates.empty() && u.concurrency == 64 && u.queue == 5'000));
  CHECK(u.on_overflow == canigo::overflow::evict_least_important);
  CHECK(u.max_wait == std::vector<canigo::duration>{2min, 2min, 2min});
  CHECK((!u.shared && u.on_redis_failure.what == gateway::redis_failure::kind::closed));
  CHECK((u.tokens.api == gateway::token_api::none && u.tokens.default_output == 512 && u.tokens.learn));
  CHECK(
      (u.timeout.connect == 5s && u.timeout.first_byte == 120s && u.timeout.idle == 120s && u.timeout.total == 15min));
  CHECK((u.retry.attempts == 3 && u.retry.budget == 20 && u.retry.body == 1 << 20));
  CHECK((u.breaker.failures == 50 && u.breaker.of == 20 && u.breaker.within == 30s));
  CHECK((u.breaker.open == 5s && u.breaker.most == 60s));
  CHECK((!u.hedge_after && !u.forwarded && !u.private_addresses && !u.tokens.add_usage));
  REQUIRE(c.tenants.size() == 1);
  CHECK(c.tenants[0].name == "local");
  CHECK((c.tenants[0].default_class == 2 && c.tenants[0].best_class == 0 && c.tenants[0].weight == 1));
  CHECK(c.tenants[0].max_wait == canigo::duration::max());
}

TEST_CASE("gateway: each key of a configuration is read", "[gateway][config]") {
  const http_test::temporary_folder folder;
  for (const char* name : {"cert", "key", "ca"}) write_file(folder / name, "PEM");
  write_file(folder / "admin.token", "s3cret-of-the-admin\n");
  write_file(folder / "openai.header", "Bearer sk-1\r\n");
  ::setenv("CANIGO_TEST_REDIS_URL", "rediss://127.0.0.1:6379", 1);
  const auto file = [&](const char* name) { return folder / name; };
  const std::string text = R"(
threads = 3
redis = "env:CANIGO_TEST_REDIS_URL"
redis_tls = { ca = ")" + file("ca") +
                           R"(", cert = ")" + file("cert") + R"(", key = ")" + file("key") + R"(" }
classes = ["interactive", "normal", "batch"]
ageing = "never"
grace = "10s"
access_log = "file:/var/log/gateway.log"
admin = { listen = "127.0.0.1:9901", token = "file:)" +
                           file("admin.token") + R"(", hosts = ["Admin.example."] }
limits.size = { header = "8KiB", fields = 50, target = "4KiB", body = "1MiB", read_ahead = "3MiB", buffered = "2MiB" }
limits.time = { header = "1s", body_idle = "2s", write_stall = "3s", keep_alive = "4s" }
limits.connections = { all = 20, per_address = 2 }
[forward]
allow = ["*.example.com:443", "repo.example.org:80"]
rates = [{ limit = "10/1s", burst = 10, per = "host" }]
concurrency = 8
queue = 9
overflow = "evict_oldest"
max_wait = { interactive = "1s" }
timeout = { connect = "2s" }
retry = { attempts = 1 }
breaker = { of = 3 }
hosts = 6
tunnels = 7
private = true
[[listen]]
address = "127.0.0.1:8080"
tls = { cert = ")" + file("cert") +
                           R"(", key = ")" + file("key") + R"(", client_ca = ")" + file("ca") + R"(" }
reuse_port = true
mode = "both"
anonymous = "guest"
[[listen]]
address = "unix:/run/gateway.sock"
systemd = "gateway.socket"
anonymous = ""
[[upstream]]
name = "openai"
url = "https://api.openai.com"
prefix = "/openai/"
credential = { header = "Authorization", value = "file:)" +
                           file("openai.header") + R"(" }
rates = [
  { limit = "500/1m", burst = 20 },
  { limit = "200000/1m", burst = 40000, unit = "tokens" },
  { limit = "1000/s", unit = "input_tokens" },
]
concurrency = 32
queue = 5_001
overflow = "reject_new"
max_wait = { interactive = "20s", normal = "1m", batch = "30m" }
shared = true
on_redis_failure = "local:0.5"
tokens = { api = "openai", default_output = 100, learn = false, add_usage = true }
timeout = { connect = "1s", first_byte = "2s", idle = "3s", total = "4m" }
retry = { attempts = 2, budget = "10%", body = "128KiB" }
breaker = { failures = "40%", of = 10, within = "10s", open = "1s", most = "2s" }
hedge = { after = "p95" }
keep_alive = { after = "20s", every = "5s" }
forwarded = true
private = true
[[upstream]]
name = "pay"
url = "http://10.0.0.1:8080/v1"
prefix = "/pay"
credential = "pass"
[[tenant]]
name = "search"
keys = ["sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
subject = "CN=search"
uid = 1004
class = "normal"
best = "interactive"
weight = 2
max_wait = "14s"
limits = { openai = { rates = [{ limit = "50000/1m", unit = "tokens", window = "strict" }], concurrency = 8 } }
[[tenant]]
name = "guest"
)";
  const auto read = gateway::parse_config(text);
  for (const auto& e : read.errors) UNSCOPED_INFO(gateway::message_of(e, "f"));
  REQUIRE(read.value);
  const gateway::config& c = *read.value;
  CHECK(c.threads == 3);
  CHECK((c.redis.source == "env:CANIGO_TEST_REDIS_URL" && c.redis.value == "rediss://127.0.0.1:6379"));
  CHECK((c.redis_tls.ca == file("ca") && c.redis_tls.cert == file("cert") && c.redis_tls.key == file("key")));
  CHECK(c.ageing == canigo::duration::max());
  CHECK(c.grace == 10s);
  CHECK((c.access_log.to == gateway::access_log_options::kind::file && c.access_log.path == "/var/log/gateway.log"));
  REQUIRE(c.admin);
  CHECK((c.admin->listen.port == 9901 && c.admin->token.value == "s3cret-of-the-admin"));
  CHECK(c.admin->hosts == std::vector<std::string>{"admin.example"});
  CHECK((c.size.header == 8192 && c.size.fields == 50 && c.size.target == 4096 && c.size.body == 1 << 20));
  CHECK((c.size.read_ahead == 3 << 20 && c.size.buffered == 2 << 20));
  CHECK((c.time.header == 1s && c.time.body_idle == 2s && c.time.write_stall == 3s && c.time.keep_alive == 4s));
  CHECK((c.connections.all == 20 && c.connections.per_address == 2));
  REQUIRE(c.forward);
  REQUIRE(c.forward->allow.size() == 2);
  CHECK((c.forward->allow[0].host == "example.com" && c.forward->allow[0].with_subdomains));
  CHECK((c.forward->allow[0].text == "*.example.com:443" && c.forward->allow[1].text == "repo.example.org:80"));
  const gateway::upstream& each = c.forward->each;
  REQUIRE(each.rates.size() == 1);
  CHECK((each.rates[0].rate == canigo::rate{10, 1s} && each.rates[0].burst == 10));
  CHECK((each.concurrency == 8 && each.queue == 9 && each.on_overflow == canigo::overflow::evict_oldest));
  CHECK(each.max_wait == std::vector<canigo::duration>{1s, 2min, 2min});
  CHECK((each.timeout.connect == 2s && each.timeout.idle == 120s && each.retry.attempts == 1 && each.breaker.of == 3));
  CHECK((c.forward->hosts == 6 && c.forward->tunnels == 7 && each.private_addresses));
  REQUIRE(c.listeners.size() == 2);
  REQUIRE(c.listeners[0].tls);
  CHECK((c.listeners[0].tls->cert == file("cert") && c.listeners[0].tls->key == file("key")));
  CHECK(c.listeners[0].tls->client_ca == file("ca"));
  CHECK((c.listeners[0].reuse_port && c.listeners[0].mode == gateway::listen_mode::both));
  CHECK(c.listeners[0].anonymous == "guest");
  CHECK((c.listeners[1].systemd == "gateway.socket" && c.listeners[1].anonymous.empty()));
  REQUIRE(c.upstreams.size() == 2);
  const gateway::upstream& u = c.upstreams[0];
  CHECK((u.name == "openai" && u.prefix == "/openai" && u.url.is_tls && u.url.host == "api.openai.com"));
  CHECK((u.credential.header == "Authorization" && u.credential.value.value == "Bearer sk-1"));
  REQUIRE(u.rates.size() == 3);
  CHECK((u.rates[0].rate == canigo::rate{500, 1min} && u.rates[0].burst == 20 && u.rates[0].unit == "requests"));
  CHECK((u.rates[1].burst == 40'000 && u.rates[1].unit == "tokens"));
  CHECK((u.rates[2].burst == 200 && u.rates[2].unit == "input_tokens"));
  CHECK((u.concurrency == 32 && u.queue == 5'001 && u.on_overflow == canigo::overflow::reject_new));
  CHECK(u.max_wait == std::vector<canigo::duration>{20s, 1min, 30min});
  CHECK((u.shared && u.on_redis_failure.what == gateway::redis_failure::kind::local));
  CHECK(u.on_redis_failure.share == 0.5);
  CHECK((u.tokens.api == gateway::token_api::openai && u.tokens.default_output == 100));
  CHECK((!u.tokens.learn && u.tokens.add_usage));
  CHECK((u.timeout.connect == 1s && u.timeout.first_byte == 2s && u.timeout.idle == 3s && u.timeout.total == 4min));
  CHECK((u.retry.attempts == 2 && u.retry.budget == 10 && u.retry.body == 128 << 10));
  CHECK((u.breaker.failures == 40 && u.breaker.of == 10 && u.breaker.within == 10s));
  CHECK((u.breaker.open == 1s && u.breaker.most == 2s));
  CHECK((u.forwarded && u.private_addresses));
  REQUIRE(u.keep_alive);
  CHECK((u.keep_alive->after == 20s && u.keep_alive->every == 5s));
  CHECK_FALSE(c.upstreams[1].keep_alive);
  REQUIRE(u.hedge_after);
  CHECK((u.hedge_after->is_quantile() && u.hedge_after->share() == 0.95));
  CHECK((c.upstreams[1].credential.is_passed() && c.upstreams[1].url.path == "/v1" && c.upstreams[1].url.is_address));
  REQUIRE(c.tenants.size() == 2);
  const gateway::tenant& n = c.tenants[0];
  REQUIRE(n.keys.size() == 1);
  CHECK((n.keys[0][0] == 0x9f && n.keys[0][31] == 0x08));
  CHECK((n.subject == "CN=search" && n.uid == 1004u && n.default_class == 1 && n.best_class == 0 && n.weight == 2));
  CHECK(n.max_wait == 14s);
  REQUIRE(n.limits.contains("openai"));
  CHECK((n.limits.at("openai").concurrency == 8 && n.limits.at("openai").rates[0].burst == 40'000));
  CHECK(n.limits.at("openai").rates[0].window == canigo::rate_window::strict);
  CHECK(u.rates[1].window == canigo::rate_window::average);
  // The listener's anonymous tenant may ask for any class.
  CHECK((c.tenants[1].name == "guest" && c.tenants[1].default_class == 2 && c.tenants[1].best_class == 0));
}

TEST_CASE("gateway: a mistake in a configuration is told with its place, field, value and range", "[gateway][config]") {
  const auto found =
      wrongs("[[listen]]\naddress = '127.0.0.1:0'\n[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefix = 'x'\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0] ==
        "6:10: upstream[0].prefix is \"x\"; allowed: a path such as \"/openai\", of visible ASCII without ?, #, "
        "%, \\, //, . and .. as a part");
  CHECK(wrongs("threads = 'many'\n" + std::string{least}) ==
        std::vector<std::string>{"1:11: threads is a string; allowed: 0 to 256"});
  CHECK(wrongs("a = 1\n  a = 2\n").size() == 1);
  CHECK(wrongs("a = 1\n  a = 2\n")[0].starts_with("2:"));
}

TEST_CASE("gateway: a value of another type, or none of its form, is refused by its type or form",
          "[gateway][config]") {
  const auto refused = [](const std::string& line) {
    const auto found = wrongs(line + "\n" + std::string{least});
    CAPTURE(line);
    REQUIRE(found.size() == 1);
    return found[0].substr(found[0].find(": ") + 2);
  };
  CHECK(refused("grace = 2026-01-31") == "grace is a date or a time; allowed: a string");
  CHECK(refused("access_log = 'stderr'") == "access_log is \"stderr\"; allowed: stdout, off or file:/PATH");
  CHECK(refused("classes = 'one'") == "classes is a string; allowed: a list of strings");
  CHECK(refused("classes = ['a', 1]") == "classes[1] is a whole number; allowed: a string");
  CHECK(refused("classes = ['a b']").starts_with("classes[0] is \"a b\"; allowed: "));
  CHECK(refused("limits.size = { header = '12 parsecs' }")
            .starts_with("limits.size.header is \"12 parsecs\"; allowed: "));
  CHECK(refused("limits.size = { header = '1KiB', target = '2KiB' }") ==
        "limits.size.target is more than limits.size.header, of which it is a part");
  ::setenv("CANIGO_TEST_TOKEN", "sixteen bytes and blanks", 1);
  const std::string admin = "admin = { listen = '127.0.0.1:1', token = 'env:CANIGO_TEST_TOKEN'";
  CHECK(refused(admin + " }") == "admin.token holds something else than visible ASCII");
  ::setenv("CANIGO_TEST_TOKEN", "sixteen-bytes-and-more", 1);
  CHECK(refused(admin + ", hosts = ['a:1'] }") ==
        "admin.hosts[0] is \"a:1\"; allowed: a host's name or address without a port");
}

TEST_CASE("gateway: all mistakes of a configuration are told at once, in the order of the file", "[gateway][config]") {
  const auto found = wrongs(
      "threads = -1\n"
      "trheads = 2\n"
      "ageing = '0s'\n"
      "[[listen]]\n"
      "address = '0.0.0.0:80'\n"
      "anonymous = 'x'\n"
      "[[upstream]]\n"
      "name = 'a b'\n"
      "url = 'https://a?b'\n"
      "prefix = '/a'\n"
      "queue = 0\n"
      "[[tenant]]\n"
      "name = 'x'\n"
      "keys = ['hunter2']\n"
      "limits = { b = { concurrency = 1 } }\n");
  std::vector<std::string> places;
  for (const auto& line : found) places.push_back(line.substr(0, line.find(" is ")));
  CHECK(places == std::vector<std::string>{"1:11: threads", "2:1: trheads", "3:10: ageing", "6:13: listen[0].anonymous",
                                           "8:8: upstream[0].name", "9:7: upstream[0].url", "11:9: upstream[0].queue",
                                           "14:9: tenant[0].keys[0]", "15:12: tenant[0].limits.b"});
}

TEST_CASE("gateway: an upstream's values have ranges", "[gateway][config]") {
  check_refused(
      "concurency = 1",
      "upstream[0].concurency is unknown; allowed: name, url, prefix, credential, provider, window, tokens, "
      "refusal_body, quota_resets, "
      "timeout, retry, breaker, concurrency, queue, overflow, max_wait, shared, rates, on_redis_failure, hedge, "
      "keep_alive, forwarded, private, target, model, sticky, websocket, budget");
  check_refused("concurrency = 0", "upstream[0].concurrency is 0; allowed: 1 to 1000000");
  check_refused("concurrency = 1.5", "upstream[0].concurrency is 1.5, a number with a point; allowed: 1 to 1000000");
  check_refused("queue = 10_000_001", "upstream[0].queue is 10000001; allowed: 1 to 10000000");
  check_refused("overflow = 'wait'",
                "upstream[0].overflow is \"wait\"; allowed: reject_new, evict_oldest, evict_least_important");
  check_refused("shared = 1", "upstream[0].shared is 1, a whole number; allowed: true or false");
  check_refused("shared = true", "upstream[0].shared is true; allowed: false unless there is a redis");
  check_refused("on_redis_failure = 'local:2'",
                "upstream[0].on_redis_failure is \"local:2\"; allowed: closed, open, or local:SHARE with a share above "
                "0 and up to 1");
  check_refused("max_wait = { urgent = '1s' }",
                "upstream[0].max_wait.urgent is unknown; allowed: interactive, normal, batch");
  check_refused("max_wait = { batch = '8d' }", "upstream[0].max_wait.batch is \"8d\"; allowed: 0s to 7d");
  check_refused("max_wait = '1s'", "upstream[0].max_wait is a string; allowed: a table");
  check_refused("timeout = { connect = '5' }",
                "upstream[0].timeout.connect is \"5\"; allowed: a time in ms, s, m, h or d such as \"20s\"");
  check_refused("timeout = { first_byte = '2m', total = '90s' }",
                "upstream[0].timeout.first_byte is \"2m\"; allowed: at most total, 90s");
  check_refused("timeout = { first_byte = '0s' }", "upstream[0].timeout.first_byte is \"0s\"; allowed: 1ms to 1d");
  check_refused("timeout = { read = '5s' }",
                "upstream[0].timeout.read is unknown; allowed: connect, first_byte, idle, total");
  check_refused("retry = { attempts = 0 }", "upstream[0].retry.attempts is 0; allowed: 1 to 10");
  check_refused("retry = { budget = '101%' }", "upstream[0].retry.budget is \"101%\"; allowed: \"0%\" to \"100%\"");
  check_refused("retry = { budget = 20 }", "upstream[0].retry.budget is a whole number; allowed: a string");
  check_refused("retry = { body = '65MiB' }", "upstream[0].retry.body is \"65MiB\"; allowed: 0B to 64MiB");
  check_refused("breaker = { failures = '0%' }", "upstream[0].breaker.failures is \"0%\"; allowed: \"1%\" to \"100%\"");
  check_refused("breaker = { open = '2m' }",
                "upstream[0].breaker.most is 1m; allowed: 2m or more, which is how long it is open first");
  check_refused("keep_alive = true", "upstream[0].keep_alive is true; allowed: a table");
  check_refused("keep_alive = { after = '99ms' }", "upstream[0].keep_alive.after is \"99ms\"; allowed: 100ms to 1h");
  check_refused("keep_alive = { every = '2h' }", "upstream[0].keep_alive.every is \"2h\"; allowed: 100ms to 1h");
  check_refused("keep_alive = { most = 1 }", "upstream[0].keep_alive.most is unknown; allowed: after, every");
  for (const std::string after : {"95", "p100", "p0", "p", "", "0ms", "2h", "p9x"}) {
    check_refused("hedge = { after = '" + after + "' }", "upstream[0].hedge.after is \"" + after +
                                                             "\"; allowed: p1 to p99 such as \"p95\", or 1ms to 1h "
                                                             "such as \"200ms\"");
  }
  ::setenv("CANIGO_TEST_REDIS_URL", "redis://127.0.0.1:6379", 1);
  const std::string redis = "redis = 'env:CANIGO_TEST_REDIS_URL'\n";
  const auto nothing = wrongs(redis + with("shared = true\non_redis_failure = 'open'"));
  REQUIRE(nothing.size() == 1);
  CHECK(nothing[0].ends_with(
      "upstream[0].on_redis_failure says what becomes of shared rates, and there are none; allowed: \"closed\""));
  const auto deep = wrongs(redis + with("shared = true\nrates = [{ limit = '1/1s', burst = 3_000_000_000 }]"));
  REQUIRE(deep.size() == 1);
  CHECK(deep[0].ends_with("upstream[0].rates has a burst above 2147483648, which is the most of a shared upstream"));
  const auto strict = wrongs(redis + with("shared = true\nrates = [{ limit = '1/1s', window = 'strict' }]"));
  REQUIRE(strict.size() == 1);
  CHECK(
      strict[0].ends_with("upstream[0].rates has a strict window; allowed: \"average\" for a shared upstream, as "
                          "Redis keeps no other"));
  const auto strictest = wrongs(redis + with("shared = true\nwindow = 'strict'\nrates = [{ limit = '1/1s' }]"));
  REQUIRE(strictest.size() == 1);
  CHECK(
      strictest[0].ends_with("upstream[0].window is \"strict\"; allowed: \"average\" for a shared upstream, as Redis "
                             "keeps no other"));
  // That of a preset is not for what Redis keeps.
  const auto quiet =
      gateway::parse_config(redis + with("shared = true\nprovider = 'openai'\nrates = [{ limit = '1/1s' }]"));
  REQUIRE(quiet.value);
  CHECK(quiet.value->upstreams[0].rates[0].window == canigo::rate_window::average);
  check_refused("provider = 'openia'",
                "upstream[0].provider is \"openia\"; allowed: anthropic, azure, bedrock, cohere, discord, gemini, "
                "generic, github, huggingface, mistral, openai, shopify");
  check_refused("window = 'fixed'", "upstream[0].window is \"fixed\"; allowed: average, strict");
  check_refused("refusal_body = 1", "upstream[0].refusal_body is 1, a whole number; allowed: true or false");
  check_refused("quota_resets = '00:00'",
                "upstream[0].quota_resets is \"00:00\"; allowed: unknown, 00:00 UTC, 00:00 PT");
  check_refused("tokens = { api = 'x' }",
                "upstream[0].tokens.api is \"x\"; allowed: none, openai, anthropic, gemini, cohere, bedrock, bytes/4");
  check_refused("tokens = { free = ['GET'] }",
                "upstream[0].tokens.free[0] is \"GET\"; allowed: METHOD /PATH such as \"POST */files\", where * stands "
                "for any text, of visible ASCII without ? and #");
  for (const std::string name : {"", "a.", ".a", "a..b", "a.b.c.d", "a b", "a/b"}) {
    check_refused("tokens = { usage = { input = ['" + name + "'] } }",
                  "upstream[0].tokens.usage.input[0] is \"" + name +
                      "\"; allowed: 1 to 3 names of members with . between them, such as \"usage.input_tokens\"");
  }
  check_refused("tokens = { usage = { inputs = [] } }",
                "upstream[0].tokens.usage.inputs is unknown; allowed: input, more_input, output, more_output, total, "
                "cached_input, more_cached_input");
  check_refused("provider = 'openai'\ntokens = { api = 'gemini', add_usage = true }",
                "upstream[0].tokens.add_usage is true; allowed: false unless api is \"openai\"");
  check_refused("tokens = { api = 'gemini', add_usage = true }",
                "upstream[0].tokens.add_usage is true; allowed: false unless api is \"openai\"");
  check_refused(
      "prefixes = 1\n[[upstream]]\nname = 'b'\nurl = 'http://b'\nprefix = '/b'",
      "upstream[0].prefixes is unknown; allowed: name, url, prefix, credential, provider, window, tokens, "
      "refusal_body, quota_resets, "
      "timeout, retry, breaker, concurrency, queue, overflow, max_wait, shared, rates, on_redis_failure, hedge, "
      "keep_alive, forwarded, private, target, model, sticky, websocket, budget");
}

TEST_CASE("gateway: a rate of a configuration has a limit, a burst and a unit that is counted", "[gateway][config]") {
  check_refused("rates = [{ burst = 1 }]",
                "upstream[0].rates[0].limit is missing; allowed: N/PERIOD such as \"500/1m\"");
  check_refused("rates = [{ limit = '5' }]",
                "upstream[0].rates[0].limit is \"5\" ('/' expected at character 2); allowed: tokens/period in ns, us, "
                "ms, s, m, h or d, "
                "such as 5/s, 10/3s, 1000/1h");
  check_refused("rates = [{ limit = '5/s', burst = 0 }]",
                "upstream[0].rates[0].burst is 0; allowed: 1 to 4611686018427387904");
  check_refused("rates = [{ limit = '5/s', window = 'fixed' }]",
                "upstream[0].rates[0].window is \"fixed\"; allowed: average, strict");
  check_refused("rates = [{ limit = '5/s', window = 'strict', burst = 6 }]",
                "upstream[0].rates[0].burst is 6; allowed: 1 to 5");
  check_refused("rates = [{ limit = '5/s', unit = 'bytes' }]",
                "upstream[0].rates[0].unit is \"bytes\"; allowed: requests, tokens, input_tokens, output_tokens, usd");
  check_refused("rates = [{ limit = '5/s', unit = 'tokens' }]",
                "upstream[0].rates counts tokens, and upstream[0].tokens.api does not say how");
  check_refused("rates = [{ limit = '5/s', per = 'host' }]",
                "upstream[0].rates[0].per is unknown; allowed: limit, unit, window, burst");
  check_refused("rates = { limit = '5/s' }", "upstream[0].rates is a table; allowed: a list of tables");
  check_refused("rates = ['5/s']", "upstream[0].rates[0] is a string; allowed: a table");
  std::string many = "rates = [";
  for (int i = 0; i < 17; ++i) many += "{ limit = '5/s' },";
  check_refused(many + "]", "upstream[0].rates has 17 elements; allowed: up to 16");
}

TEST_CASE("gateway: names, prefixes, addresses and credentials are of one part each", "[gateway][config]") {
  const std::string key(64, 'a');
  check_refused("[[upstream]]\nname = 'a'\nurl = 'http://b'\nprefix = '/b'",
                "upstream[1].name is \"a\"; allowed: each name once");
  check_refused("[[upstream]]\nname = 'b'\nurl = 'http://b'\nprefix = '/a/'",
                "upstream[1].prefix is \"/a\"; allowed: each prefix once");
  check_refused("[[listen]]\naddress = '127.0.0.1:1'\n[[listen]]\naddress = '127.0.0.1:1'",
                "listen[2].address is \"127.0.0.1:1\"; allowed: each address once");
  check_refused(
      "[[listen]]\naddress = '127.0.0.1:1'\n[admin]\nlisten = '127.0.0.1:1'\n"
      "token = 'env:CANIGO_TEST_REDIS_URL'",
      "listen[1].address is \"127.0.0.1:1\"; allowed: another address than admin.listen");
  check_refused("[[tenant]]\nname = 'x'\nkeys = ['sha256:" + key + "']\n[[tenant]]\nname = 'x'\nkeys = []",
                "tenant[1].name is \"x\"; allowed: each name once");
  check_refused("[[tenant]]\nname = 'x'\nkeys = ['sha256:" + key + "', 'sha256:" + key + "']",
                "tenant[0].keys[1] is \"sha256:" + key.substr(0, 53) + "...\"; allowed: each key once");
  const std::string unix_door = "[[listen]]\naddress = 'unix:/a'\n";
  check_refused(unix_door + "[[tenant]]\nname = 'x'\nuid = 5\n[[tenant]]\nname = 'y'\nuid = 5",
                "tenant[1].uid is 5; allowed: each uid once");
  check_refused("[[tenant]]\nname = 'x'\nkeys = ['sha256:" + std::string(64, 'A') +
                    "']\n[[tenant]]\nname = 'y'\nkeys = ['sha256:" + key + "']",
                "tenant[1].keys[0] is \"sha256:" + key.substr(0, 53) + "...\"; allowed: each key once");
  CHECK(wrongs("classes = ['a', 'a']\n" + std::string{least}) ==
        std::vector<std::string>{"1:17: classes[1] is \"a\"; allowed: each name once"});
  CHECK(wrongs("classes = []\n" + std::string{least}) ==
        std::vector<std::string>{"1:11: classes has 0 names; allowed: 1 to 64"});
}

TEST_CASE("gateway: a secret is never in the file, nor in a message", "[gateway][config]") {
  const http_test::temporary_folder folder;
  write_file(folder / "empty", "\n");
  write_file(folder / "two", "a\nb\n");
  check_refused("credential = { header = 'Authorization', value = 'Bearer hunter2' }",
                "upstream[0].credential.value is not shown here; allowed: env:NAME or file:/PATH, never the secret");
  check_refused("credential = { header = 'Authorization', value = 'file:relative' }",
                "upstream[0].credential.value is not shown here; allowed: env:NAME or file:/PATH, never the secret");
  check_refused("credential = { header = 'Authorization', value = 'env:CANIGO_TEST_NOT_SET' }",
                "upstream[0].credential.value is \"env:CANIGO_TEST_NOT_SET\"; "
                "allowed: an environment variable that is set");
  check_refused(
      "credential = { header = 'Authorization', value = 'file:/nowhere/at/all' }",
      "upstream[0].credential.value is \"file:/nowhere/at/all\"; allowed: a file that can be read, up to 64KiB");
  check_refused("credential = { header = 'Authorization', value = 'file:/proc' }",
                "upstream[0].credential.value is \"file:/proc\"; allowed: a file that can be read, up to 64KiB");
  check_refused("credential = { header = 'Authorization', value = 'file:/dev/zero' }",
                "upstream[0].credential.value is \"file:/dev/zero\"; allowed: a file that can be read, up to 64KiB");
  const auto empty =
      wrongs(with("credential = { header = 'Authorization', value = 'file:" + (folder / "empty") + "' }"));
  REQUIRE(empty.size() == 1);
  CHECK(empty[0].find("which is empty") != std::string::npos);
  const auto two = wrongs(with("credential = { header = 'Authorization', value = 'file:" + (folder / "two") + "' }"));
  REQUIRE(two.size() == 1);
  CHECK(two[0].find("holds a line break") != std::string::npos);
  check_refused(
      "[[tenant]]\nname = 'x'\nkeys = ['hunter2']",
      "tenant[0].keys[0] is not shown here; allowed: \"sha256:\" and 64 hexadecimal digits, of the key's SHA-256");
  ::setenv("CANIGO_TEST_NO_URL", "hunter2", 1);
  for (const auto* redis : {"hunter2", "env:CANIGO_TEST_NO_URL"}) {
    const auto found = wrongs("redis = '" + std::string{redis} + "'\n" + with("shared = true"));
    REQUIRE(found.size() == 1);
    CHECK(found[0].starts_with("1:9: redis "));
    CHECK(found[0].find("hunter2") == std::string::npos);
  }
  for (const std::string& more :
       {std::string{"url2 = 1"}, std::string{"[[upstream]]\nname = 'b'\nprefix = '/b'\nurl = 'http://u:hunter2@b'"}})
    for (const auto& line : wrongs(with(more))) CHECK(line.find("hunter2") == std::string::npos);
}

TEST_CASE("gateway: files for the TLS of Redis need a URL with TLS, and a key a certificate", "[gateway][config]") {
  ::setenv("CANIGO_TEST_TLS_URL", "rediss://localhost", 1);
  ::setenv("CANIGO_TEST_PLAIN_URL", "redis://localhost", 1);
  const std::string redis = "redis = 'env:CANIGO_TEST_TLS_URL'\n";
  const auto wrongs_of = [](const std::string& head) { return wrongs(head + "\n" + std::string{least}); };
  using lines = std::vector<std::string>;
  CHECK(wrongs_of(redis + "redis_tls = {}").empty());
  CHECK(wrongs_of(redis + "redis_tls = { cert = '/etc/hosts' }").empty());
  CHECK(wrongs_of(redis + "redis_tls = { ca = '/nonexistent' }") ==
        lines{"2:20: redis_tls.ca is \"/nonexistent\"; allowed: /PATH of a file that can be read"});
  CHECK(wrongs_of(redis + "redis_tls = { key = '/etc/hosts' }") ==
        lines{"2:21: redis_tls.key is of no use without a cert"});
  CHECK(wrongs_of(redis + "redis_tls = { crt = 1 }") ==
        lines{"2:15: redis_tls.crt is unknown; allowed: ca, cert, key"});
  for (const std::string plain : {"", "redis = 'env:CANIGO_TEST_PLAIN_URL'"}) {
    CHECK(wrongs_of(plain + "\nredis_tls = {}") == lines{"2:13: redis_tls is of no use: redis holds no rediss:// URL"});
  }
}

TEST_CASE("gateway: the admin's token is too long to be guessed", "[gateway][config]") {
  const std::string text = "admin = { listen = '127.0.0.1:1', token = 'env:CANIGO_TEST_TOKEN' }\n" + std::string{least};
  for (const auto& [size, is_good] : {std::pair{15, false}, std::pair{16, true}, std::pair{256, true}, {257, false}}) {
    ::setenv("CANIGO_TEST_TOKEN", std::string(static_cast<std::size_t>(size), 't').c_str(), 1);
    const auto found = wrongs(text);
    CAPTURE(size);
    CHECK(found == (is_good ? std::vector<std::string>{}
                            : std::vector<std::string>{"1:43: admin.token holds " + std::to_string(size) +
                                                       " bytes; allowed: 16 to 256"}));
  }
}

TEST_CASE("gateway: the view of a configuration has no secret in it", "[gateway][config]") {
  const http_test::temporary_folder folder;
  write_file(folder / "secret", "hunter2-and-some-more");
  const std::string file = "'file:" + (folder / "secret") + "'";
  ::setenv("CANIGO_TEST_URL", "redis://:hunter2@localhost", 1);
  const auto read =
      gateway::parse_config("redis = 'env:CANIGO_TEST_URL'\nadmin = { listen = '127.0.0.1:1', token = " + file +
                            " }\n" + with("credential = { header = 'X-Key', value = " + file + " }\n") +
                            "[[tenant]]\nname = 't'\nkeys = ['sha256:" + std::string(64, 'a') + "']\n");
  REQUIRE(read.value);
  const std::string text = gateway::config_view(*read.value).dump();
  CHECK(text.find("hunter2") == text.npos);
  CHECK(text.find("aaaa") == text.npos);
  CHECK(text.find("X-Key from file:/") != text.npos);
  CHECK(text.find(R"("redis":"env:CANIGO_TEST_URL")") != text.npos);
  CHECK(text.find(R"("keys":1)") != text.npos);
  CHECK(text.find(R"("ageing":"1m")") != text.npos);
  const auto without = gateway::parse_config("ageing = 'never'\n" + std::string{least});
  REQUIRE(without.value);
  CHECK(gateway::config_view(*without.value).dump().find(R"("ageing":"never")") != std::string::npos);
}

TEST_CASE("gateway: a credential is a field that the gateway does not make itself", "[gateway][config]") {
  ::setenv("CANIGO_TEST_SECRET", "x", 1);
  for (const std::string name : {"Host", "content-length", "Transfer-Encoding", "Connection", "Proxy-Authorization",
                                 "Via", "X-Canigo-Key", "X-Forwarded-For", "a b", "", "a:"}) {
    const auto found = wrongs(with("credential = { header = '" + name + "', value = 'env:CANIGO_TEST_SECRET' }"));
    CAPTURE(name);
    REQUIRE(found.size() == 1);
    CHECK(found[0].find("upstream[0].credential.header is ") != std::string::npos);
  }
  check_refused("hedge = { after = 'p95', before = 'p99' }", "upstream[0].hedge.before is unknown; allowed: after");
  check_refused("credential = { value = 'env:CANIGO_TEST_SECRET' }",
                "upstream[0].credential.header is missing; allowed: a field's name such as \"Authorization\"");
  check_refused("credential = { header = 'X-Api-Key' }",
                "upstream[0].credential.value is missing; allowed: env:NAME or file:/PATH");
  check_refused("credential = 'keep'", "upstream[0].credential is \"keep\"; allowed: pass");
}

TEST_CASE("gateway: a tenant is somebody, of known classes, and within the limits of its upstreams",
          "[gateway][config]") {
  const std::string head = "[[tenant]]\nname = 'x'\nkeys = []\n";
  check_refused("[[tenant]]\nname = 'x'",
                "tenant[0] can be nobody; allowed: keys, subject or uid, or a listener that names it");
  check_refused("[[tenant]]\nkeys = []",
                "tenant[0].name is missing; allowed: 1 to 64 letters, digits, '_', '-' and '.'");
  check_refused(head + "class = 'urgent'", "tenant[0].class is \"urgent\"; allowed: interactive, normal, batch");
  check_refused(head + "class = 'interactive'\nbest = 'batch'",
                "tenant[0].best is \"batch\"; allowed: its class \"interactive\", or one more important");
  check_refused(head + "weight = 0", "tenant[0].weight is 0; allowed: 1 to 10000");
  check_refused(head + "uid = 5", "tenant[0].uid is of no use: no listener is a unix socket");
  check_refused(head + "subject = 'CN=x'", "tenant[0].subject is of no use: no listener has tls.client_ca");
  check_refused(head + "limits = { b = {} }", "tenant[0].limits.b is unknown; allowed: a");
  check_refused(head + "limits = { a = { queue = 1 } }",
                "tenant[0].limits.a.queue is unknown; allowed: rates, concurrency");
  check_refused(head + "limits = { a = { rates = [{ limit = '1/s' }] } }",
                "tenant[0].limits.a.rates[0] counts requests, which no rate of upstream \"a\" does");
  check_refused(
      "rates = [{ limit = '5/s', burst = 3 }]\n" + head + "limits = { a = { rates = [{ limit = '1/s', burst = 4 }] } }",
      "tenant[0].limits.a.rates[0].burst is 4; allowed: up to 3, the burst of upstream \"a\"");
  const auto left_out = gateway::parse_config(with(head));
  REQUIRE(left_out.value);
  CHECK((left_out.value->tenants[0].default_class == 2 && left_out.value->tenants[0].best_class == 2));
}

TEST_CASE("gateway: nobody without credentials comes in from another machine", "[gateway][config]") {
  for (const std::string_view address : {"0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[::ffff:127.0.0.1]:80"}) {
    CAPTURE(address);
    const std::string head = "[[listen]]\naddress = '" + std::string{address} + "'\n";
    const std::string tail = "[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefix = '/a'\n";
    const auto named = wrongs(head + "anonymous = 'x'\n" + tail);
    REQUIRE(named.size() >= 1);
    CHECK(
        named[0].starts_with("3:13: listen[0].anonymous is \"x\"; allowed: \"\", as others than this machine reach "));
    // Left out, there is none; and without keys nobody comes in at all.
    CHECK(wrongs(head + tail) ==
          std::vector<std::string>{"1:1: listen[0] can be used by nobody; allowed: anonymous, or a tenant with keys"});
    const auto with_keys = gateway::parse_config(head + tail + "[[tenant]]\nname = 'x'\nkeys = []\n");
    REQUIRE(with_keys.value);
    CHECK(with_keys.value->listeners[0].anonymous.empty());
    // A certificate proves a tenant where a listener asks for one, and a user at a unix socket alone.
    const std::string tls = "tls = { cert = '/etc/hosts', key = '/etc/hosts', client_ca = '/etc/hosts' }\n";
    CHECK(gateway::parse_config(head + tls + tail + "[[tenant]]\nname = 'x'\nsubject = 'CN=x'\n").value);
    CHECK(gateway::parse_config(head + "[[listen]]\naddress = 'unix:/a'\nanonymous = ''\n" + tail +
                                "[[tenant]]\nname = 'x'\nuid = 5\n")
              .errors.size() == 1);
  }
}

TEST_CASE("gateway: listeners, routes and forward mode belong together", "[gateway][config]") {
  CHECK(wrongs("") == std::vector<std::string>{"1:1: listen names nothing; allowed: 1 to 64 tables"});
  CHECK(wrongs(listening) ==
        std::vector<std::string>{"1:1: upstream is missing, and a listener has mode \"reverse\" or \"both\""});
  CHECK(wrongs("[listen]\naddress = '127.0.0.1:80'\n") ==
        std::vector<std::string>{"1:1: listen is a table; allowed: a list of tables, each below [[listen]]"});
  CHECK(wrongs(std::string{listening} + "[upstream]\nname = 'a'\n").size() == 1);
  CHECK(wrongs("forward = 1\n" + std::string{listening} + "mode = 'forward'\n") ==
        std::vector<std::string>{"1:11: forward is 1, a whole number; allowed: a table, such as below [forward]"});
  CHECK(wrongs("forward = []\n" + std::string{listening} + "mode = 'forward'\n") ==
        std::vector<std::string>{"1:11: forward is a list; allowed: a table, such as below [forward]"});
  CHECK(wrongs(std::string{listening} + "mode = 'forwards'\n[forward]\nallow = ['a:80']\n").size() == 1);
  const std::string forward = "forward = { allow = ['a:80'] }\n";
  CHECK(wrongs(forward + std::string{least}).size() == 1);
  CHECK(wrongs(std::string{listening} + "mode = 'forward'\n").size() == 1);
  CHECK(wrongs(forward + std::string{listening} + "mode = 'forward'\n").empty());
  CHECK(wrongs(forward + with("[[listen]]\naddress = '127.0.0.1:1'\nmode = 'forward'\n")).empty());
  CHECK(wrongs("forward = { allow = [] }\n" + std::string{listening} + "mode = 'forward'\n").size() == 1);
  CHECK(wrongs("forward = { allow = ['a'] }\n" + std::string{listening} + "mode = 'forward'\n")[0].starts_with(
      "1:22: forward.allow[0] is \"a\"; allowed: HOST:PORT"));
  check_refused("[[listen]]\naddress = 'localhost:80'",
                "listen[1].address is \"localhost:80\"; allowed: ADDRESS:PORT, [IPV6]:PORT, or unix:/PATH of up to 107 "
                "bytes, such as "
                "\"127.0.0.1:8080\"");
  check_refused("[[listen]]\naddress = '127.0.0.1:1'\nanonymous = 'a b'",
                "listen[1].anonymous is \"a b\"; allowed: a tenant's name, or \"\" for none");
  check_refused("[[listen]]\naddress = '127.0.0.1:1'\nsystemd = 'a b'",
                "listen[1].systemd is \"a b\"; allowed: 1 to 64 letters, digits, '_', '-' and '.'");
  CHECK(wrongs(std::string{"forward = { allow = ['a:80'] }\n"}.append(listening).append(
            "mode = 'forward'\n[[upstream]]\nname = 'a'\nurl = 'http://a'\nprefix = '/a'\n")) ==
        std::vector<std::string>{"5:1: upstream is of no use: no listener has mode \"reverse\" or \"both\""});
  check_refused("[[listen]]\naddress = 'unix:/a'\nreuse_port = true",
                "listen[1].reuse_port is true; allowed: false for a unix socket and for one of systemd");
  check_refused("[[listen]]\naddress = '127.0.0.1:1'\ntls = { cert = '/nowhere/c', key = '/proc/self/status' }",
                "listen[1].tls.cert is \"/nowhere/c\"; allowed: /PATH of a file that can be read");
}

TEST_CASE("gateway: the parser's words are completed where a string has no quotes", "[gateway][config]") {
  const auto first = [](std::string_view text) { return wrongs(text).at(0); };
  CHECK_THAT(first("access_log = 'off\n"),
             Catch::Matchers::EndsWith("; a string ends with its quote, in the same line"));
  CHECK_THAT(first("access_log = off\n"), Catch::Matchers::EndsWith("; a string needs quotes"));
  CHECK_THAT(first("grace = 5 s\n"), Catch::Matchers::EndsWith("; a string needs quotes"));
  CHECK_THAT(first("[[listen]]\naddress = 127.0.0.1:80\n"), Catch::Matchers::EndsWith("; a string needs quotes"));
  for (const std::string_view text :
       {"[[listen]\n", "threads = 1\nthreads = 2\n", "threads = 012\n", "= 5\n", "threads 5\n", "threads =\n",
        "classes = ['a'\n", "classes = ['a' 'b']\n", "redis = { a = 1 b = 2 }\n", "# \x01\n",
        "threads = 99999999999999999999\n", "grace = 2020-13-01\n"}) {
    INFO(text);
    CHECK(first(text).find("quote") == std::string::npos);
  }
}

TEST_CASE("gateway: a configuration's file that can't be read says so", "[gateway][config]") {
  const http_test::temporary_folder folder;
  const auto missing = gateway::read_config(folder / "none.toml");
  REQUIRE(missing.errors.size() == 1);
  CHECK(gateway::message_of(missing.errors[0], "f.toml") ==
        "f.toml:0:0: the configuration can't be opened: No such file or directory");
  const auto no_file = gateway::read_config(folder / ".");
  REQUIRE(no_file.errors.size() == 1);
  CHECK(gateway::message_of(no_file.errors[0], "f.toml") ==
        "f.toml:0:0: the configuration can't be opened: it is a directory");
  write_file(folder / "g.toml", least);
  CHECK(gateway::read_config(folder / "g.toml").value);
  write_file(folder / "large.toml", std::string(std::size_t{5} << 20, '\n'));
  CHECK_FALSE(gateway::read_config(folder / "large.toml").value);
}
