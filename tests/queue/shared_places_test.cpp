#include "canigo/detail/queue/shared_places.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using canigo::detail::place_seeker;
using canigo::detail::shared_places;

namespace {

/// Seeks places for those of one class who wait.
class seeker final : public place_seeker {
 public:
  seeker(shared_places& places, std::vector<std::string>& log, std::string name, int where = 0)
      : places_{places}, log_{log}, name_{std::move(name)}, class_{where} {}

  void wait(int n) {
    waiting += n;
    look();
  }
  void look() {
    while (waiting > 0 && places_.seek(*this, class_)) {
      --waiting;
      log_.push_back(name_);
    }
    if (waiting == 0) places_.withdraw(*this);
  }
  void move_to(int where) {
    class_ = where;
    look();
  }
  void withdraw() {
    waiting = 0;
    look();
  }

  int waiting = 0;
  int kept = 0;
  std::function<void()> before_it_looks;

 private:
  void keep() noexcept override { ++kept; }
  void let_go() noexcept override { --kept; }
  void look_again() noexcept override {
    CHECK(kept > 0);
    if (before_it_looks) before_it_looks();
    look();
  }

  shared_places& places_;
  std::vector<std::string>& log_;
  std::string name_;
  int class_;
};

struct sharing {
  explicit sharing(std::uint64_t capacity) : places{capacity} { places.make_room_for(3); }
  void free(std::uint64_t n = 1) {
    if (places.put_back(n)) places.pass_on();
  }
  shared_places places;
  std::vector<std::string> log;
};

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("places are taken until none is free", "[shared_places]") {
  shared_places p{2};
  CHECK(p.try_take());
  CHECK(p.try_take());
  CHECK_FALSE(p.try_take());
  CHECK(p.occupied() == 2);
  CHECK_FALSE(p.put_back(1));
  CHECK(p.try_take());
  CHECK(p.capacity() == 2);
}

TEST_CASE("who seeks gets what comes back, class by class, and in turn inside one", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a", 1};
  seeker b{s.places, s.log, "b", 1};
  seeker first{s.places, s.log, "first", 0};
  a.wait(3);
  b.wait(3);
  first.wait(1);
  for (int i = 0; i < 6; ++i) s.free();
  CHECK(s.log == names{"first", "a", "b", "a", "b", "a"});
  CHECK(s.places.occupied() == 1);
  CHECK(a.kept == 0);
  b.withdraw();
  s.free();
  CHECK(s.places.occupied() == 0);
}

TEST_CASE("nobody takes a free place before those that seek one", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a"};
  a.wait(1);
  REQUIRE(s.places.put_back(1));
  CHECK_FALSE(s.places.try_take());
  seeker b{s.places, s.log, "b"};
  b.wait(1);
  CHECK(s.log.empty());
  s.places.pass_on();
  CHECK(s.log == names{"a"});
  b.withdraw();
}

TEST_CASE("a more important one takes a free place that nobody has taken yet", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a", 1};
  a.wait(1);
  REQUIRE(s.places.put_back(1));
  seeker b{s.places, s.log, "b", 0};
  b.wait(1);
  s.places.pass_on();
  CHECK(s.log == names{"b"});
  a.withdraw();
}

TEST_CASE("a place passes by who wants it no more when it is told", "[shared_places]") {
  sharing s{2};
  REQUIRE(s.places.try_take());
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a"};
  seeker b{s.places, s.log, "b"};
  seeker c{s.places, s.log, "c"};
  for (seeker* x : {&a, &b, &c}) x->wait(1);
  a.before_it_looks = [&] { a.waiting = 0; };
  b.before_it_looks = [&] { b.waiting = 0; };
  s.free();
  CHECK(s.log == names{"c"});
  s.free();
  CHECK(s.places.occupied() == 1);
}

TEST_CASE("who frees a place while another is passed on adds to it", "[shared_places]") {
  sharing s{2};
  REQUIRE(s.places.try_take());
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a"};
  seeker b{s.places, s.log, "b"};
  a.wait(1);
  b.wait(2);
  a.before_it_looks = [&] {
    a.before_it_looks = nullptr;
    s.free();  // within
  };
  s.free();
  CHECK(s.log == names{"a", "b"});
  CHECK(a.kept == 0);
  b.withdraw();
}

TEST_CASE("one whose class changes seeks at the end of its new class", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a", 2};
  seeker b{s.places, s.log, "b", 1};
  a.wait(2);
  b.wait(2);
  a.move_to(1);
  for (int i = 0; i < 4; ++i) s.free();
  CHECK(s.log == names{"b", "a", "b", "a"});
}

TEST_CASE("more places are shared out in turn, and less take none away", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a", 1};
  seeker b{s.places, s.log, "b", 1};
  seeker first{s.places, s.log, "first", 0};
  a.wait(5);
  b.wait(5);
  first.wait(2);
  s.places.resize(6);
  CHECK(s.log == names{"first", "first", "a", "b", "a"});
  s.places.resize(2);
  CHECK(s.places.occupied() == 6);
  CHECK(s.places.capacity() == 2);
  for (int i = 0; i < 4; ++i) s.free();
  CHECK(s.log.size() == 5);
  s.free();
  CHECK(s.log.back() == "b");
  a.withdraw();
  b.withdraw();
}

TEST_CASE("who seeks already keeps its turn when classes are added", "[shared_places]") {
  sharing s{1};
  REQUIRE(s.places.try_take());
  seeker a{s.places, s.log, "a", 2};
  seeker b{s.places, s.log, "b", 2};
  seeker c{s.places, s.log, "c", 0};
  for (seeker* x : {&a, &b, &c}) x->wait(1);
  s.places.make_room_for(2);
  s.places.make_room_for(100);
  seeker d{s.places, s.log, "d", 99};
  d.wait(1);
  for (int i = 0; i < 4; ++i) s.free();
  CHECK(s.log == names{"c", "a", "b", "d"});
}
