#include "canigo/detail/context/loop_hold.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/strand.hpp>

namespace net = canigo::net;
using canigo::detail::loop_hold;

namespace {

/// Whether something keeps the loop running.
bool is_held(net::io_context& io) {
  io.restart();
  io.poll();
  return !io.stopped();
}

}  // namespace

TEST_CASE("a loop is held from the first reason until it is let go of after the last", "[loop_hold]") {
  net::io_context io;
  const net::any_io_executor executor = io.get_executor();
  loop_hold hold;
  CHECK_FALSE(hold.is_over());
  CHECK_FALSE(hold.let_go());
  hold.add_reason(executor);
  hold.add_reason(executor);
  CHECK(is_held(io));
  hold.remove_reason();
  CHECK_FALSE(hold.is_over());
  CHECK_FALSE(hold.let_go());
  CHECK(is_held(io));
  hold.remove_reason();
  CHECK(hold.is_over());
  CHECK(is_held(io));
  {
    const net::any_io_executor until_here = hold.let_go();
    CHECK_FALSE(hold.is_over());
    CHECK(is_held(io));
  }
  CHECK_FALSE(is_held(io));
}

TEST_CASE("a new reason before the loop is let go of finds it held", "[loop_hold]") {
  net::io_context io;
  const auto strand = net::make_strand(io);
  loop_hold hold;
  for (int i = 0; i < 3; ++i) {
    hold.add_reason(strand);
    CHECK(is_held(io));
    CHECK_FALSE(hold.is_over());
    hold.remove_reason();
  }
  CHECK(hold.is_over());
  hold.let_go();
  CHECK_FALSE(is_held(io));
}

TEST_CASE("a loop is given up whatever the reasons", "[loop_hold]") {
  net::io_context io;
  loop_hold hold;
  hold.add_reason(io.get_executor());
  CHECK(hold.give_up());
  CHECK_FALSE(is_held(io));
  CHECK_FALSE(hold.is_over());
  hold.remove_reason();
  CHECK_FALSE(hold.is_over());
}
