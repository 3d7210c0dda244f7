#include "canigo/detail/context/counted_member.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <memory>
#include <string>

namespace net = canigo::net;
using canigo::detail::counted_member;

namespace {

/// Says what becomes of it.
class member final : public counted_member {
 public:
  member(net::io_context& io, std::string& said) : counted_member{io.get_executor()}, said_{said} { join(); }

  void ask_again() noexcept { unreferenced(); }
  bool is_busy = false;
  member* drops = nullptr;  // when the context goes

 private:
  ~member() override { said_ += " gone"; }
  bool may_go() noexcept override {
    said_ += is_busy ? " busy" : " may";
    return !is_busy;
  }
  void let_go_of_context() noexcept override { said_ += " lets-go"; }
  void end_with_context() noexcept override {
    said_ += " ends";
    context_gone_ = true;
    if (drops != nullptr) drops->release_ref();
  }

  std::string& said_;
};

}  // namespace

TEST_CASE("a counted member goes with its last reference", "[counted_member]") {
  std::string said;
  {
    net::io_context io;
    auto* m = new member{io, said};
    m->add_ref();
    m->release_ref();
    CHECK(said.empty());
    m->release_ref();
    CHECK(said == " may lets-go gone");
  }
  CHECK(said == " may lets-go gone");
}

TEST_CASE("a counted member that is busy goes when it is asked again", "[counted_member]") {
  std::string said;
  net::io_context io;
  auto* m = new member{io, said};
  m->is_busy = true;
  m->release_ref();
  CHECK(said == " busy");
  m->is_busy = false;
  m->ask_again();
  CHECK(said == " busy may lets-go gone");
}

TEST_CASE("a context that goes first ends a counted member, which stays while somebody refers to it",
          "[counted_member]") {
  std::string said;
  auto io = std::make_unique<net::io_context>();
  auto* m = new member{*io, said};
  io.reset();
  CHECK(said == " ends");
  m->release_ref();
  CHECK(said == " ends gone");
}

TEST_CASE("a counted member that its context's end drops goes after that", "[counted_member]") {
  std::string said;
  auto io = std::make_unique<net::io_context>();
  auto* m = new member{*io, said};
  m->drops = m;
  io.reset();
  CHECK(said == " ends gone");
}

TEST_CASE("of a member that was busy when it was dropped its context lets go", "[counted_member]") {
  std::string said;
  auto io = std::make_unique<net::io_context>();
  auto* m = new member{*io, said};
  m->is_busy = true;
  m->release_ref();
  io.reset();
  CHECK(said == " busy lets-go");
  m->ask_again();
  CHECK(said == " busy lets-go gone");
}
