// docs/gateway-configuration.md against the reader: its files are right, and it names each key.

#include "gateway/config/reader.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gateway = canigo::gateway;

namespace {

/// A page of the folder that Meson's run of the tests names; without it they run in the root of the tree.
std::string page(const std::string& name = "gateway-configuration.md") {
  const char* docs = std::getenv("CANIGO_DOCS");
  std::ifstream file{std::string{docs == nullptr ? "docs" : docs} + '/' + name};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// The text with the sample of prices in the place of a file that only a machine with the gateway has.
std::string with_sample(std::string text) {
  const char* docs = std::getenv("CANIGO_DOCS");
  const std::string installed = "file:/etc/canigo/prices.toml";
  const auto sample = std::filesystem::absolute(docs == nullptr ? "docs" : docs) / "../packaging/gateway/prices.toml";
  if (const auto at = text.find(installed); at != text.npos)
    text.replace(at, installed.size(), "file:" + sample.string());
  return text;
}

std::vector<std::string> files_of(std::string_view text) {
  std::vector<std::string> files;
  constexpr std::string_view begin = "```toml\n", end = "```\n";
  for (auto at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    const auto last = text.find(end, at);
    files.emplace_back(text.substr(at, last - at));
    at = last + end.size();
  }
  return files;
}

/// The keys that a message about an unknown key says are allowed.
void add_keys(const std::string& text, std::set<std::string>& keys) {
  for (const auto& e : gateway::parse_config(text).errors) {
    constexpr std::string_view mark = "unknown_key is unknown; allowed: ";
    const auto at = e.text.find(mark);
    if (at == e.text.npos) continue;
    std::string_view list = std::string_view{e.text}.substr(at + mark.size());
    for (;;) {
      const auto comma = list.find(", ");
      keys.emplace(list.substr(0, comma));
      if (comma == list.npos) break;
      list.remove_prefix(comma + 2);
    }
  }
}

}  // namespace

TEST_CASE("gateway: the files of the configuration's page are right", "[gateway][config]") {
  for (const char* name : {"CANIGO_ADMIN_TOKEN", "OPENAI_HEADER", "TEAM_HEADER", "SPARE_HEADER", "AZURE_KEY"})
    ::setenv(name, "secret-of-the-page", 1);
  ::setenv("CANIGO_REDIS_URL", "redis://127.0.0.1", 1);
  const auto files = files_of(page());
  REQUIRE(files.size() == 5);
  for (const std::string& text : files) {
    const auto read = gateway::parse_config(with_sample(text));
    for (const auto& e : read.errors) UNSCOPED_INFO(gateway::message_of(e, "page"));
    CHECK(read.value);
  }
}

TEST_CASE("gateway: the whole files of the gateway's page are right", "[gateway][config]") {
  for (const char* name : {"CANIGO_ADMIN_TOKEN", "TEAM_HEADER", "SPARE_HEADER", "OTHER_KEY"})
    ::setenv(name, "secret-of-the-page", 1);
  std::size_t whole = 0;
  for (const std::string& text : files_of(page("gateway.md"))) {
    if (text.find("listen") == std::string::npos) continue;  // a part of a file
    ++whole;
    const auto read = gateway::parse_config(with_sample(text));
    for (const auto& e : read.errors) UNSCOPED_INFO(gateway::message_of(e, "page"));
    CHECK(read.value);
  }
  CHECK(whole == 2);
}

TEST_CASE("gateway: the configuration's page names each key", "[gateway][config]") {
  std::set<std::string> keys;
  const std::string x = "unknown_key = 1";
  for (const std::string& part :
       {std::string{}, std::string{"[redis_tls]\n"}, std::string{"[admin]\n"}, std::string{"[forward]\n"},
        std::string{"[limits]\n"}, std::string{"[limits.size]\n"}, std::string{"[limits.time]\n"},
        std::string{"[limits.connections]\n"}, std::string{"[[forward.rates]]\n"}, std::string{"[[listen]]\n"},
        std::string{"[[listen]]\n[listen.tls]\n"}, std::string{"[[upstream]]\n"}, std::string{"[[tenant]]\n"}})
    add_keys(part + x, keys);
  for (const std::string part : {"credential", "tokens", "tokens.usage", "timeout", "retry", "breaker", "hedge",
                                 "keep_alive", "websocket", "budget"})
    add_keys("[[upstream]]\n[upstream." + part + "]\n" + x, keys);
  add_keys("[[upstream]]\n[[upstream.rates]]\n" + x, keys);
  add_keys("[[upstream]]\n[[upstream.target]]\n" + x, keys);
  add_keys("[[upstream]]\n[[upstream.model]]\n" + x, keys);
  add_keys("[[upstream]]\nname = 'a'\n[[tenant]]\n[tenant.limits.a]\n" + x, keys);
  keys.erase("size");  // limits.size, limits.time and limits.connections stand there by their full names
  keys.erase("time");
  keys.erase("connections");
  CHECK(keys.size() > 70);
  const std::string text = page();
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK((text.find('`' + key + '`') != text.npos || text.find(key + " = ") != text.npos ||
           text.find("{ " + key + ", ") != text.npos || text.find(", " + key + " }") != text.npos ||
           text.find("`[[" + key + "]]`") != text.npos));
  }
}
