#include "gateway/policy/client_hints.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace gateway = canigo::gateway;
using namespace std::chrono_literals;
using gateway_test::head_of;

namespace {

gateway::hint_reading read(const std::string& fields, int default_class = 1, int best = 1) {
  static const std::vector<std::string> classes{"interactive", "normal", "batch"};
  static const std::vector<canigo::duration> waits{20s, 2min, 30min};
  gateway::tenant whose;
  whose.default_class = default_class;
  whose.best_class = best;
  return gateway::read_hints(head_of("GET / HTTP/1.1\nHost: a\n" + fields), whose, classes, waits);
}

std::string refused(const std::string& fields) {
  const auto r = read(fields);
  if (!r.refused) return "";
  CHECK((r.refused->status == 400 && r.refused->error == "bad_request"));
  return r.refused->detail;
}

}  // namespace

TEST_CASE("gateway: a request has its tenant's class, or a less important one that it asks for",
          "[gateway][client_hints]") {
  CHECK(read("").granted.priority == 1);
  CHECK(read("", 2, 0).granted.priority == 2);
  CHECK(read("X-Canigo-Priority: batch\n").granted.priority == 2);
  CHECK(read("x-canigo-priority:  interactive \n", 2, 0).granted.priority == 0);
  CHECK_FALSE(read("X-Canigo-Priority: interactive\n", 2, 0).granted.asked_above_best);
  const auto above = read("X-Canigo-Priority: interactive\n", 2, 1).granted;
  CHECK((above.priority == 1 && above.asked_above_best));
  const auto as_best = read("X-Canigo-Priority: normal\n", 2, 1).granted;
  CHECK((as_best.priority == 1 && !as_best.asked_above_best));
  CHECK(refused("X-Canigo-Priority: urgent\n") ==
        "X-Canigo-Priority can't be read; allowed: interactive, normal, batch");
  CHECK(refused("X-Canigo-Priority:\n") != "");
  CHECK(refused("X-Canigo-Priority: Batch\n") != "");
  CHECK(refused("X-Canigo-Priority: batch\nx-canigo-priority: batch\n") == "there is more than one x-canigo-priority");
}

TEST_CASE("gateway: a client may ask for interim responses", "[gateway][client_hints]") {
  using wish = gateway::interim_wish;
  CHECK_FALSE(read("").granted.interim);
  CHECK(read("X-Canigo-Interim: 103\n").granted.interim == wish{103, 15s});
  CHECK(read("x-canigo-interim: 102 \n").granted.interim == wish{102, 15s});
  CHECK(read("X-Canigo-Interim: 103; every=4s\n").granted.interim == wish{103, 4s});
  CHECK(read("X-Canigo-Interim: 103;every=1h\n").granted.interim == wish{103, 1h});
  for (const std::string bad : {"100", "104", "200", "", "103;", "103; every=", "103; every=999ms", "103; every=61m",
                                "103; after=4s", "103, 102", "yes"}) {
    CAPTURE(bad);
    CHECK(refused("X-Canigo-Interim: " + bad + "\n") ==
          "X-Canigo-Interim can't be read; allowed: 102 or 103, and perhaps \"; every=\" and 1s to 1h");
  }
  CHECK(refused("X-Canigo-Interim: 103\nX-Canigo-Interim: 103\n") == "there is more than one X-Canigo-Interim");
}

TEST_CASE("gateway: a client's longest wait can only be shorter", "[gateway][client_hints]") {
  CHECK(read("").granted.max_wait == 2min);
  CHECK(read("X-Canigo-Max-Wait: 30s\n").granted.max_wait == 30s);
  CHECK(read("X-Canigo-Max-Wait: 0s\n").granted.max_wait == 0s);
  CHECK(read("X-Canigo-Max-Wait: 3m\n").granted.max_wait == 2min);
  // It is that of the class in which the request waits.
  CHECK(read("X-Canigo-Priority: batch\n").granted.max_wait == 30min);
  CHECK(read("X-Canigo-Priority: interactive\nX-Canigo-Max-Wait: 1h\n").granted.max_wait == 2min);
  for (const std::string bad : {"30", "-1s", "soon", "", "99999999999999s"}) {
    CAPTURE(bad);
    CHECK(refused("X-Canigo-Max-Wait: " + bad + "\n") ==
          "X-Canigo-Max-Wait can't be read; allowed: a time in ms, s, m, h or d such as \"20s\"");
  }
}

TEST_CASE("gateway: a client's number of tokens is a least one", "[gateway][client_hints]") {
  CHECK(read("").granted.least_tokens == 0);
  CHECK(read("X-Canigo-Tokens: 900\n").granted.least_tokens == 900);
  CHECK(read("X-Canigo-Tokens: 4611686018427387904\n").granted.least_tokens == 4611686018427387904u);
  for (const std::string bad : {"", "-1", "+1", "1.5", "many", "4611686018427387905", "18446744073709551616"}) {
    CAPTURE(bad);
    CHECK(refused("X-Canigo-Tokens: " + bad + "\n") ==
          "X-Canigo-Tokens can't be read; allowed: a whole number from 0 to 2^62");
  }
}

TEST_CASE("gateway: a tenant's longest wait shortens that of the upstream", "[gateway][client_hints]") {
  const std::vector<std::string> classes{"interactive", "batch"};
  const std::vector<canigo::duration> waits{20s, 2min};
  gateway::tenant whose;
  whose.max_wait = 14s;
  const auto head = head_of("GET / HTTP/1.1\nHost: a\n");
  CHECK(gateway::read_hints(head, whose, classes, waits).granted.max_wait == 14s);
  whose.max_wait = 1h;
  CHECK(gateway::read_hints(head, whose, classes, waits).granted.max_wait == 20s);
}

TEST_CASE("gateway: an SDK tells its own time limit", "[gateway][client_hints]") {
  CHECK_FALSE(read("").granted.patience);
  CHECK(read("x-stainless-read-timeout: 600\n").granted.patience == 600s);
  CHECK(read("X-Stainless-Timeout: 60\nX-Stainless-Read-Timeout: 7.5\n").granted.patience == 7'500ms);
  CHECK(read("X-Server-Timeout: 30\n").granted.patience == 30s);
  for (const char* odd : {"NOT_GIVEN", "", "-1", "1s", "nan"}) {
    CAPTURE(odd);
    const auto r = read(std::string{"X-Stainless-Timeout: "} + odd + "\n");
    CHECK((!r.refused && !r.granted.patience));
  }
}
