// A program outside of canigo's tree that tests its use of canigo in virtual time.
#include <canigo/scheduler.hpp>
#include <canigo/testing/virtual_time.hpp>

#include <asio/io_context.hpp>

#include <chrono>
#include <system_error>

int main() {
  asio::io_context io;
  canigo::testing::virtual_time time{io};
  canigo::scheduler scheduler{io, {.rate = canigo::rate::per_minute(1), .burst = 1}};
  int granted = 0;
  for (int i = 0; i < 60; ++i) {
    scheduler.async_acquire({}, [&granted](std::error_code error) { granted += !error; });
  }
  time.run_for(std::chrono::hours{2});
  return granted == 60 ? 0 : 1;
}
