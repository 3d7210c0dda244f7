#include "canigo/redis/endpoint.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"
#include "support/said_by.hpp"

#include <string>
#include <string_view>
#include <system_error>

using canigo::redis::endpoint;

namespace {

std::string refusal(std::string_view url) {
  try {
    endpoint::parse(url);
  } catch (const std::system_error& e) {
    CHECK(e.code() == canigo::errc::invalid_argument);
    return said_by(e);
  }
  return {};
}

}  // namespace

TEST_CASE("a URL says where a Redis is, and as whom to speak to it") {
  struct row {
    const char* url;
    const char* shown;
    const char* user;
    const char* password;
    bool tls;
  };
  const row table[] = {
      {"redis://localhost", "redis://localhost:6379/0", "", "", false},
      {"redis://localhost/", "redis://localhost:6379/0", "", "", false},
      {"redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3", "", "", false},
      {"rediss://cache.example.com/1", "rediss://cache.example.com:6379/1", "", "", true},
      {"redis://:secret@h", "redis://h:6379/0", "", "secret", false},
      {"redis://secret@h", "redis://h:6379/0", "", "secret", false},
      {"redis://joe:s%40c%3aret%2F@h:1/2", "redis://h:1/2", "joe", "s@c:ret/", false},
      {"redis://joe:a@b@h", "redis://h:6379/0", "joe", "a@b", false},
      {"redis://[::1]:6380/0", "redis://[::1]:6380/0", "", "", false},
      {"redis://[fe80::1]", "redis://[fe80::1]:6379/0", "", "", false},
      {"unix:/run/redis.sock", "unix:/run/redis.sock", "", "", false},
      {"unix:/run/redis.sock?db=4", "unix:/run/redis.sock?db=4", "", "", false},
      {"unix:///run/redis.sock", "unix:/run/redis.sock", "", "", false},
      {"unix:////run/redis.sock", "unix:////run/redis.sock", "", "", false},
      {"unix://joe:pw@/run/redis.sock?db=2", "unix:/run/redis.sock?db=2", "joe", "pw", false},
      {"redis+sentinel://a,b:1,[::2]/main/5", "redis+sentinel://a:26379,b:1,[::2]:26379/main/5", "", "", false},
      {"redis+sentinel://x:pw@a/main", "redis+sentinel://a:26379/main/0", "x", "pw", false},
  };
  for (const row& r : table) {
    CAPTURE(r.url);
    const endpoint e = endpoint::parse(r.url);
    CHECK(e.to_string() == r.shown);
    CHECK(e.user == r.user);
    CHECK(e.password == r.password);
    CHECK(e.tls == r.tls);
  }
}

TEST_CASE("a URL that is none is refused, naming what is wrong, and never the password") {
  CHECK(refusal("").find("scheme") != std::string::npos);
  CHECK(refusal("localhost:6379").find("redis://, rediss://, unix:") != std::string::npos);
  CHECK(refusal("http://x:hunter2@h").find("hunter2") == std::string::npos);
  CHECK(refusal("redis://").find("host") != std::string::npos);
  CHECK(refusal("redis://:hunter2@").find("hunter2") == std::string::npos);
  CHECK(refusal("redis://h:0").find("1 to 65535") != std::string::npos);
  CHECK(refusal("redis://h:65536").find("65536") != std::string::npos);
  CHECK(refusal("redis://h:port").find("port") != std::string::npos);
  CHECK(refusal("redis://h/-1").find("database") != std::string::npos);
  CHECK(refusal("redis://h/x").find("database") != std::string::npos);
  CHECK(refusal("redis://h/99999999999").find("database") != std::string::npos);
  CHECK(refusal("redis://[::1").find("brackets") != std::string::npos);
  CHECK(refusal("redis://[::1]x").find("host:port") != std::string::npos);
  for (const char* host : {"a b", "a\x7f", "a[b", "a]b", "[a[b]"}) {
    CHECK(refusal(std::string{"redis://"} + host).find("host") != std::string::npos);
  }
  CHECK(refusal("redis://h:12x").find("1 to 65535") != std::string::npos);
  CHECK(refusal("redis://h:").find("1 to 65535") != std::string::npos);
  CHECK(refusal(std::string_view{"unix:/a\0b", 9}).find("value 0") != std::string::npos);
  CHECK(refusal("redis://u:p%4@h").find("hexadecimal") != std::string::npos);
  CHECK(refusal("redis://u:p%zz@h").find("p%zz") == std::string::npos);
  CHECK(refusal("redis://u:p%!!@h").find("hexadecimal") != std::string::npos);
  CHECK(refusal("redis://u:p%::@h").find("hexadecimal") != std::string::npos);
  CHECK(refusal("redis://u:se/cret@h").find("cret") == std::string::npos);
  CHECK(refusal("unix:se/cret@x").find("cret") == std::string::npos);
  CHECK(refusal("redis://u:hunter2%@h").find("hunter2") == std::string::npos);
  CHECK(refusal("redis://h/0?x=1").find("query") != std::string::npos);
  CHECK(refusal("unix:").find("path") != std::string::npos);
  CHECK(refusal("unix:relative").find("absolute") != std::string::npos);
  CHECK(refusal("unix:/s?x=1").find("db=N") != std::string::npos);
  CHECK(refusal("unix:/" + std::string(200, 'x')).find("107") != std::string::npos);
  CHECK(refusal("redis+sentinel://a").find("master") != std::string::npos);
  CHECK(refusal("redis+sentinel://a,,b/m").find("host") != std::string::npos);
}
