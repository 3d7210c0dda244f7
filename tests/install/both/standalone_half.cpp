#include "canigo/error.hpp"
#include "canigo/scheduler.hpp"

#include "halves.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <system_error>
#include <typeinfo>

half_result standalone_half() {
  asio::io_context io;
  canigo::scheduler limit{io, {.rate = canigo::rate::per_second(1000)}};
  half_result r{.name = typeid(limit).name()};
  const auto count = [&](std::exception_ptr error) { r.granted += error == nullptr ? 1 : 0; };
  for (int i = 0; i < 3; ++i) asio::co_spawn(io, limit.acquire(), count);
  io.run();
  try {
    canigo::scheduler{io, {.rate = canigo::rate::per_second(1), .priorities = 0}};
  } catch (const std::system_error& e) {
    r.is_refused = e.code() == canigo::errc::invalid_argument;
  }
  return r;
}
