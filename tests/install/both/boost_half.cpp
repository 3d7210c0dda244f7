#include "canigo/error.hpp"
#include "canigo/scheduler.hpp"

#include "halves.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <type_traits>
#include <typeinfo>

half_result boost_half() {
  boost::asio::io_context io;
  canigo::scheduler limit{io, {.rate = canigo::rate::per_second(1000)}};
  half_result r{.name = typeid(limit).name()};
  const auto count = [&](std::exception_ptr error) { r.granted += error == nullptr ? 1 : 0; };
  for (int i = 0; i < 3; ++i) boost::asio::co_spawn(io, limit.acquire(), count);
  io.run();
  try {
    canigo::scheduler{io, {.rate = canigo::rate::per_second(1), .priorities = 0}};
  } catch (const std::exception& e) {
    const auto* refusal = dynamic_cast<const canigo::system_error*>(&e);
    r.is_refused = refusal != nullptr && refusal->code() == canigo::errc::invalid_argument;
  }
  return r;
}
