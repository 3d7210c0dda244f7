#include "canigo/detail/context/marked_executor.hpp"

#include "canigo/detail/context/post.hpp"
#include "canigo/net.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time_source.hpp"

#include "support/catch.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/dispatch.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <memory>

using namespace canigo;

TEST_CASE("a marked executor does what the one below does, and tells whose it is", "[marked_executor]") {
  net::io_context io;
  testing::virtual_time time{io};
  const int mine = 0;
  const int others = 0;
  const net::any_io_executor strand{net::make_strand(io)};
  const auto mark = std::make_shared<detail::executor_mark>(&mine, strand);
  const net::any_io_executor marked{detail::marked_executor{mark}};
  CHECK(detail::context_executor(marked) == net::any_io_executor{io.get_executor()});
  CHECK(&time_source::of(marked) == &time_source::of(strand));
  CHECK(detail::mark_of(marked, &mine) == mark);
  CHECK(detail::mark_of(marked, &others) == nullptr);
  CHECK(detail::mark_of(strand, &mine) == nullptr);

  // Below a strand and the mark of another one it is found, too.
  const net::any_io_executor above{net::make_strand(
      net::any_io_executor{detail::marked_executor{std::make_shared<detail::executor_mark>(&others, marked)}})};
  CHECK(detail::mark_of(above, &mine) == mark);
  CHECK(detail::mark_of(net::any_io_executor{net::prefer(above, net::execution::blocking.never)}, &mine) == mark);

  int steps = 0;
  net::post(marked, [&] {
    net::post(marked, [&] { CHECK(++steps == 3); });
    net::dispatch(marked, [&] { CHECK(++steps == 1); });  // at once, as on the strand
    CHECK(++steps == 2);
  });
  CHECK(steps == 0);
  time.run();
  CHECK(steps == 3);
  const net::any_io_executor copy = marked;
  CHECK(copy == marked);
  CHECK(net::any_io_executor{net::require(marked, net::execution::blocking.never)} != marked);
}

// An executor that did not say so let the strand run the post at once, inside the call that makes it. A coroutine
// could then end inside its own co_spawn, and Asio read its freed state.
TEST_CASE("a post to a strand above a marked executor never runs at once", "[marked_executor]") {
  net::io_context io;
  const int mine = 0;
  const auto mark = std::make_shared<detail::executor_mark>(&mine, net::any_io_executor{net::make_strand(io)});
  const net::any_io_executor marked{detail::marked_executor{mark}};
  const net::any_io_executor never = net::require(marked, net::execution::blocking.never);
  CHECK(net::query(never, net::execution::blocking) == net::execution::blocking.never);
  CHECK(net::query(marked, net::execution::blocking) == net::execution::blocking.possibly);

  const net::any_io_executor above{net::make_strand(marked)};
  bool is_inside = false;
  bool has_run = false;
  net::post(above, [&] {
    is_inside = true;
    net::post(above, [&] { has_run = !is_inside; });
    is_inside = false;
  });
  io.run();
  CHECK(has_run);
}

TEST_CASE("places are kept on the way down an executor, and only what was kept is let go", "[marked_executor]") {
  struct place final : detail::executor_mark {
    place(const net::any_io_executor& executor, bool held) : executor_mark{nullptr, executor}, is_held{held} {}
    bool keep() noexcept override {
      kept += is_held ? 1 : 0;
      return is_held;
    }
    void let_go() noexcept override { --kept; }
    const bool is_held;
    int kept = 0;
  };
  net::io_context io;
  const auto lowest = std::make_shared<place>(net::any_io_executor{io.get_executor()}, true);
  const auto given_back = std::make_shared<place>(net::any_io_executor{detail::marked_executor{lowest}}, false);
  const net::any_io_executor strand{net::make_strand(net::any_io_executor{detail::marked_executor{given_back}})};
  const auto highest = std::make_shared<place>(strand, true);
  {
    const detail::kept_places kept{net::any_io_executor{detail::marked_executor{highest}}};
    CHECK(lowest->kept == 1);
    CHECK(given_back->kept == 0);
    CHECK(highest->kept == 1);
  }
  CHECK(lowest->kept == 0);
  CHECK(given_back->kept == 0);
  CHECK(highest->kept == 0);
}
