#include "canigo/redis/error.hpp"

#include "support/catch.hpp"

#include <string>
#include <system_error>

namespace redis = canigo::redis;
using redis::error;

TEST_CASE("the first word of an error reply is its code") {
  CHECK(redis::error_of("NOSCRIPT No matching script. Please use EVAL.") == error::no_script);
  CHECK(redis::error_of("READONLY You can't write against a read only replica.") == error::read_only);
  CHECK(redis::error_of("LOADING Redis is loading the dataset in memory") == error::loading);
  CHECK(redis::error_of("ASK 3999 127.0.0.1:6381") == error::moved);
  CHECK(redis::error_of("MOVED 3999 127.0.0.1:6381") == error::moved);
  CHECK(redis::error_of("OOM command not allowed") == error::out_of_memory);
  CHECK(
      redis::error_of("ERR Error running script (call to f_0123): @user_script:9: @user_script: 9: -READONLY You can't "
                      "write against a read only replica.") == error::read_only);
  CHECK(redis::error_of("NOREPLICAS Not enough good replicas to write.") == error::no_replicas);
  CHECK(redis::error_of("ERR The user executing the script can't run this command or subcommand script: 01, on "
                        "@user_script:1.") == error::no_permission);
  CHECK(redis::error_of("ERR ACL failure in script: User bob has no permissions to run the 'zadd' command script: 01, "
                        "on @user_script:1.") == error::no_permission);
  CHECK(redis::error_of("ERR unknown command 'x', with args beginning with: 'NOREPLICAS '") == error::command_failed);
  CHECK(redis::error_of("ERR Error running script: -") == error::command_failed);
  CHECK(redis::error_of("ERR unknown command") == error::command_failed);
  CHECK(redis::error_of("ERR what it says: -READONLY") == error::command_failed);
  CHECK(redis::error_of("WHAT is this") == error::command_failed);
  CHECK(redis::error_of("") == error::command_failed);
  CHECK(redis::error_of(" ") == error::command_failed);
}

TEST_CASE("codes of Redis have a category and a text each") {
  const std::error_code ec = error::connection_lost;
  CHECK(ec.category() == redis::error_category());
  CHECK(std::string{ec.category().name()} == "redis");
  CHECK(ec == error::connection_lost);
  for (int value = 1; value <= static_cast<int>(error::no_replicas); ++value) {
    CHECK(redis::error_category().message(value).find("unknown") == std::string::npos);
  }
  CHECK(redis::error_category().message(0) == "unknown error 0");
  CHECK(redis::error_category().message(999) == "unknown error 999");
}
