#include "canigo/pool.hpp"

#include "support/catch.hpp"

using namespace canigo;

TEST_CASE("every state of a task has a name, and is over or not") {
  const struct {
    task_state state;
    const char* name;
    bool has_ended;
  } all[] = {
      {task_state::queued, "queued", false},      {task_state::delayed, "delayed", false},
      {task_state::running, "running", false},    {task_state::succeeded, "succeeded", true},
      {task_state::failed, "failed", true},       {task_state::cancelled, "cancelled", true},
      {task_state::timed_out, "timed_out", true}, {task_state::stopped, "stopped", true},
  };
  for (const auto& expected : all) {
    CHECK(to_string(expected.state) == expected.name);
    CHECK(has_ended(expected.state) == expected.has_ended);
  }
  CHECK(to_string(static_cast<task_state>(100)) == "?");
}
