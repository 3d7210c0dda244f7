#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <dlfcn.h>
#include <netdb.h>
#include <string>
#include <string_view>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {
constexpr const char* two_addresses = "two-addresses.test";
}

/// The C library's, which knows a name with two addresses more.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::string_view{name} != two_addresses) return real(name, service, hints, found);
  addrinfo* second = nullptr;
  if (const int failed = real("127.0.0.1", service, hints, &second)) return failed;
  if (const int failed = real("127.0.0.2", service, hints, found)) {
    ::freeaddrinfo(second);
    return failed;
  }
  addrinfo* last = *found;
  while (last->ai_next != nullptr) last = last->ai_next;
  last->ai_next = second;
  return 0;
}

TEST_CASE("where nobody is at a name's first address the second is tried") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  const std::string url = std::string{"http://"} + two_addresses + ":" + std::to_string(server.port()) + "/";
  for (int i = 0; i < 2; ++i) {
    const auto r = run_to_end(io, client.get(url));
    CHECK(r.body == "x");
    CHECK(r.reused == (i == 1));
  }
}
