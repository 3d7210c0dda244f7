// Pumps under every order of work that comes, threads that take from each other, and pumps that go idle. Rings have
// four places, and turns two items: see shadow/.

#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/pump.hpp"

#include "interleaving_test.hpp"
#include "pumped_loop.hpp"
#include "work.hpp"
#include "world.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>

using canigo::detail::pump;
using canigo::detail::work_item;
using interleaving::explorer;
using interleaving::pumped_loop;
using interleaving::work;
using interleaving::world;

namespace {

/// Does what it is to do, if anything, and counts.
struct item final : work_item {
  void resume() override {
    ++runs;
    if (has_more) more();
  }
  void destroy() noexcept override {}

  template <class F>
  void then(F&& f) {
    more = work{std::forward<F>(f)};
    has_more = true;
  }
  bool was_run() const noexcept { return runs > 0; }
  /// Blocks the thread until this was run.
  void wait() {
    explorer::step("wait for an item");
    if (!was_run()) {
      explorer::wait([](const void* i) { return static_cast<const item*>(i)->was_run(); }, this);
    }
  }

  int runs = 0;
  bool has_more = false;
  work more;
};

/// The pumps of a loop of the world, which are given items.
class crew {
 public:
  crew(world& w, int threads) : world_{w}, loop_{w, threads} {}

  void add(item& i) { loop_.push(i, false); }
  void add_as_continuation(item& i) { loop_.push(i, true); }

  template <class Items>
  void expect_all_run(const Items& items) {
    for (const item& i : items) world_.expect(i.runs == 1, i.runs == 0 ? "an item was lost" : "an item was run twice");
  }

 private:
  world& world_;
  pumped_loop loop_;
};

/// Runs all that `p` has, as its owner.
void run_all(pump& p) {
  while (work_item* const i = p.pop()) i->resume();
}

template <class Items>
void expect_each_once(world& w, const Items& items) {
  for (const item& i : items) w.expect(i.runs == 1, i.runs == 0 ? "an item was lost" : "an item was taken twice");
}

}  // namespace

// ---- a pump and those that take from it -----------------------------------------------------------------------------

TEST_CASE("two pumps take from a third while its owner takes, too", "[interleaving]") {
  explore(3, [](world& w) {
    std::array<item, 4> items;
    std::array<pump, 3> pumps;
    for (item& i : items) pumps[0].push(i);
    w.thread("owns", [&] { run_all(pumps[0]); });
    for (std::size_t n : {1, 2}) {
      w.thread("takes", [&, n] {
        if (work_item* const i = pumps[n].steal_from(pumps[0])) i->resume();
        run_all(pumps[n]);
      });
    }
    w.run();
    run_all(pumps[0]);
    expect_each_once(w, items);
  });
}

TEST_CASE("a place of the ring is used again while a pump takes from it", "[interleaving]") {
  explore(2, [](world& w) {
    std::array<item, 7> items;
    std::array<pump, 2> pumps;
    for (std::size_t n : {0, 1, 2, 3}) pumps[0].push(items[n]);
    w.thread("owns", [&] {
      for (std::size_t n : {4, 5, 6}) {
        if (work_item* const i = pumps[0].pop()) i->resume();
        pumps[0].push(items[n]);
      }
      run_all(pumps[0]);
    });
    w.thread("takes", [&] {
      if (work_item* const i = pumps[1].steal_from(pumps[0])) i->resume();
      run_all(pumps[1]);
    });
    w.run();
    expect_each_once(w, items);
  });
}

TEST_CASE("a thief that sleeps while the places are numbered on is not deceived", "[interleaving]") {
  explore(1, [](world& w) {
    std::array<item, 12> items;
    std::array<pump, 2> pumps;
    for (std::size_t n : {0, 1, 2}) pumps[0].push(items[n]);
    w.thread("owns", [&] {
      for (std::size_t n = 3; n < items.size(); ++n) {
        if (work_item* const i = pumps[0].pop()) i->resume();
        pumps[0].push(items[n]);
      }
    });
    w.thread("takes", [&] {
      if (work_item* const i = pumps[1].steal_from(pumps[0])) i->resume();
      run_all(pumps[1]);
    });
    w.run();
    run_all(pumps[0]);
    expect_each_once(w, items);
  });
}

TEST_CASE("two pumps take from each other", "[interleaving]") {
  explore(2, [](world& w) {
    std::array<item, 6> items;
    std::array<pump, 2> pumps;
    for (std::size_t n = 0; n < items.size(); ++n) pumps[n % 2].push(items[n]);
    for (std::size_t n : {0, 1}) {
      w.thread("takes", [&, n] {
        run_all(pumps[n]);
        if (work_item* const i = pumps[n].steal_from(pumps[1 - n])) i->resume();
        run_all(pumps[n]);
      });
    }
    w.run();
    for (pump& p : pumps) run_all(p);
    expect_each_once(w, items);
  });
}

TEST_CASE("a pump takes from the list behind a ring while the owner fills the ring from it", "[interleaving]") {
  explore(2, [](world& w) {
    std::array<item, 8> items;
    std::array<pump, 2> pumps;
    for (std::size_t n = 0; n < 7; ++n) pumps[0].push(items[n]);
    w.thread("owns", [&] {
      if (work_item* const i = pumps[0].pop()) i->resume();
      pumps[0].push(items[7]);
      run_all(pumps[0]);
    });
    w.thread("takes", [&] {
      for (int n = 0; n < 3; ++n) {
        if (work_item* const i = pumps[1].steal_from(pumps[0])) i->resume();
        run_all(pumps[1]);
      }
    });
    w.run();
    expect_each_once(w, items);
  });
}

TEST_CASE("work is seen while it goes from the list behind a ring to the ring", "[interleaving]") {
  explore(3, [](world& w) {
    std::array<item, 6> items;
    pump p;
    for (item& i : items) p.push(i);
    for (int n = 0; n < 4; ++n) p.pop()->resume();
    bool was_seen = true;
    w.thread("owns", [&] { p.pop()->resume(); });  // one is left
    w.thread("looks", [&] { was_seen = p.has_work(); });
    w.run();
    w.expect(was_seen, "work was there all the time and not seen");
  });
}

// ---- all pumps of a loop --------------------------------------------------------------------------------------------

TEST_CASE("work comes from outside while the pump of the only thread goes idle", "[interleaving]") {
  explore(3, [](world& w) {
    crew c{w, 1};
    std::array<item, 3> items;
    w.thread("adds", [&] {
      c.add(items[0]);
      c.add(items[1]);
    });
    w.thread("adds, too", [&] { c.add(items[2]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("work comes from outside while the pumps of two threads go idle", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 2};
    std::array<item, 2> items;
    for (item& i : items) w.thread("adds", [&] { c.add(i); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item waits for the one that it has added", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 2};
    std::array<item, 2> items;
    items[0].then([&] {
      c.add(items[1]);
      items[1].wait();
    });
    w.thread("adds", [&] { c.add(items[0]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item waits for the last of more than a ring has room for", "[interleaving]") {
  explore(1, [](world& w) {
    crew c{w, 2};
    std::array<item, 7> items;
    items[0].then([&] {
      for (std::size_t n = 1; n < 7; ++n) c.add(items[n]);
      items[6].wait();
    });
    w.thread("adds", [&] { c.add(items[0]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item waits for one that comes from outside", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 2};
    std::array<item, 3> items;
    items[0].then([&] { items[1].wait(); });
    w.thread("adds", [&] {
      c.add(items[0]);
      c.add(items[1]);
    });
    w.thread("adds, too", [&] { c.add(items[2]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("two items wait, each for one that it has added, and a third thread has nothing to do", "[interleaving]") {
  explore(1, [](world& w) {
    crew c{w, 3};
    std::array<item, 4> items;
    for (std::size_t n : {0, 1}) {
      items[n].then([&, n] {
        c.add(items[n + 2]);
        items[n + 2].wait();
      });
    }
    w.thread("adds", [&] {
      for (std::size_t n : {0, 1}) c.add(items[n]);
    });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("work that is left at the end of a turn goes on while others come", "[interleaving]") {
  explore(1, [](world& w) {
    crew c{w, 2};
    std::array<item, 6> items;
    items[0].then([&] {
      for (std::size_t n : {1, 2, 3}) c.add(items[n]);
    });
    items[3].then([&] {
      c.add(items[4]);
      items[4].wait();
    });
    w.thread("adds", [&] { c.add(items[0]); });
    w.thread("adds, too", [&] { c.add(items[5]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("a pump that seeks is sent away while another is between two turns", "[interleaving]") {
  explore(1, [](world& w) {
    crew c{w, 3};
    std::array<item, 5> items;
    items[0].then([&] { items[4].wait(); });
    items[1].then([&] {
      for (std::size_t n : {2, 3, 4}) c.add(items[n]);
    });
    items[3].then([&] { items[4].wait(); });
    w.thread("adds", [&] {
      for (std::size_t n : {0, 1}) c.add(items[n]);
    });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item throws out of its turn on the only thread", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 1};
    std::array<item, 3> items;
    items[0].then([&] {
      c.add(items[1]);
      throw std::runtime_error{"mine"};
    });
    w.thread("adds", [&] { c.add(items[0]); });
    w.thread("adds, too", [&] { c.add(items[2]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item throws out of its turn while others come", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 2};
    std::array<item, 4> items;
    items[0].then([&] {
      c.add(items[1]);
      c.add(items[2]);
      throw std::runtime_error{"mine"};
    });
    w.thread("adds", [&] { c.add(items[0]); });
    w.thread("adds, too", [&] { c.add(items[3]); });
    w.run();
    c.expect_all_run(items);
  });
}

TEST_CASE("an item that continues another is run, without help or by it", "[interleaving]") {
  explore(2, [](world& w) {
    crew c{w, 2};
    std::array<item, 3> items;
    items[0].then([&] { c.add_as_continuation(items[1]); });
    w.thread("adds", [&] { c.add(items[0]); });
    w.thread("adds, too", [&] { c.add_as_continuation(items[2]); });
    w.run();
    c.expect_all_run(items);
  });
}
