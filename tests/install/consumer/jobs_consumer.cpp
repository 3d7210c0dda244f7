// A program outside of canigo's tree with a store of jobs of its own, which it checks with canigo's cases.
#include <canigo/jobs/conformance.hpp>
#include <canigo/jobs/memory_store.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace {

class small_world : public canigo::jobs::conformance::world {
 public:
  std::shared_ptr<canigo::jobs::store> open() override { return store_; }
  void advance(canigo::duration) override {}
  void run(canigo::net::awaitable<void> work) override {
    canigo::net::co_spawn(io_, std::move(work), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    io_.restart();
    io_.run();
  }

 private:
  asio::io_context io_;
  std::shared_ptr<canigo::jobs::store> store_ = std::make_shared<canigo::jobs::memory_store>(io_);
};

}  // namespace

int main() {
  int passed = 0;
  for (const auto& c : canigo::jobs::conformance::cases()) {
    if (c.number != 3 && c.number != 35) continue;  // those in which no time passes
    small_world w;
    c.check(w);
    ++passed;
  }
  return passed == 2 ? 0 : 1;
}
