// A program outside of canigo's tree that keeps a job in a file.
#include <canigo/jobs/sqlite_store.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <string>

int main() {
  asio::io_context io;
  canigo::jobs::sqlite_store store{io, "sqlite_consumer.db"};
  bool is_found = false;
  const auto put_and_look = [&]() -> canigo::net::awaitable<void> {
    const canigo::jobs::new_job job{.kind = "greet", .payload = "world"};
    const auto answer = co_await store.put(job);
    const auto found = co_await store.look(answer.id);
    is_found = found && found->payload == "world";
  };
  canigo::net::co_spawn(io, put_and_look, [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  io.run();
  return is_found ? 0 : 1;
}
