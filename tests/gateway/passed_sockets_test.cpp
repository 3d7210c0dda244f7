#include "gateway/config/passed_sockets.hpp"

#include "support/catch.hpp"

#include <string>

namespace gateway = canigo::gateway;

namespace {

/// "3=a 4=b", for what process 7 is told.
std::string passed(const char* pid, const char* count, const char* names) {
  std::string text;
  for (const auto& s : gateway::read_passed_sockets(pid, count, names, 7))
    text += (text.empty() ? "" : " ") + std::to_string(s.descriptor) + '=' + s.name;
  return text;
}

}  // namespace

TEST_CASE("gateway: sockets that are handed over begin at 3 and have names", "[gateway][sockets]") {
  CHECK(passed("7", "1", "web") == "3=web");
  CHECK(passed("7", "3", "web:admin:web") == "3=web 4=admin 5=web");
  CHECK(passed("7", "2", ":b") == "3= 4=b");
  CHECK(passed("7", "2", nullptr) == "3=unknown 4=unknown");
}

TEST_CASE("gateway: sockets for another process, or without sense, are none", "[gateway][sockets]") {
  struct row {
    const char* pid;
    const char* count;
    const char* names;
  };
  const row rows[] = {{"8", "1", "web"},   {nullptr, "1", "web"}, {"", "1", "web"},     {"7x", "1", "web"},
                      {"7", nullptr, "w"}, {"7", "", "web"},      {"7", "0", ""},       {"7", "-1", "web"},
                      {"7", "2", "web"},   {"7", "1", "web:b"},   {"7", "9999", "web"}, {"7", "1 ", "web"}};
  for (const row& r : rows) {
    CAPTURE(r.pid == nullptr ? "" : r.pid, r.count == nullptr ? "" : r.count, r.names);
    CHECK(passed(r.pid, r.count, r.names).empty());
  }
}
