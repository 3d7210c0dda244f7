// A program outside of canigo's tree that uses the HTTP edge: nothing listens on port 1, and it says so.
#include <canigo/http/client.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <cstdio>
#include <exception>
#include <system_error>

int main() {
  asio::io_context io;
  canigo::http::client client{io};
  bool refused = false;
  asio::co_spawn(io, client.get("http://127.0.0.1:1/"), [&](std::exception_ptr error, const canigo::http::response&) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::system_error& e) {
      std::puts(e.what());
      refused = true;
    }
  });
  io.run();
  return refused ? 0 : 1;
}
