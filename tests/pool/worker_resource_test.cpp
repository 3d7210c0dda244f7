#include "canigo/detail/pool/worker_resource.hpp"

#include "support/catch.hpp"

#include <exception>
#include <stdexcept>
#include <string_view>

using canigo::detail::worker_resource;
using function = worker_resource::function;

namespace worker_resource_test {

const std::exception_ptr error = std::make_exception_ptr(std::runtime_error{"broken"});

}  // namespace worker_resource_test

TEST_CASE("a resource is made before the first use, and checked before the others", "[worker_resource]") {
  int thing = 0;
  worker_resource r;
  CHECK(r.before_use(true) == function::make);
  r.set(&thing);
  CHECK(r.after(function::make, nullptr) == function::none);
  CHECK(r.before_use(true) == function::none);
  CHECK(r.after_use(nullptr, false, true) == function::none);
  CHECK(r.before_use(false) == function::none);
  CHECK(r.before_use(true) == function::check);
  CHECK(r.after(function::check, nullptr) == function::none);
  CHECK(r.before_use(true) == function::none);
  CHECK_FALSE(r.take_failure());
}

TEST_CASE("an operation that throws has the resource reset, and a fatal one has it destroyed", "[worker_resource]") {
  using worker_resource_test::error;
  int thing = 0;
  worker_resource r;
  r.set(&thing);
  CHECK(r.after_use(error, false, false) == function::none);
  CHECK(r.after_use(error, false, true) == function::reset);
  CHECK(r.after(function::reset, nullptr) == function::none);
  CHECK(r.before_use(true) == function::check);
  CHECK_FALSE(r.take_failure());
  CHECK(r.after_use(error, true, true) == function::destroy);
  CHECK(r.take() == &thing);
  CHECK(r.after(function::destroy, nullptr) == function::none);
  CHECK(r.take_failure() == error);
  CHECK_FALSE(r.take_failure());
  CHECK(r.before_use(true) == function::make);
}

TEST_CASE("a function that throws costs the resource, and is the failure even if destroy throws", "[worker_resource]") {
  using worker_resource_test::error;
  const auto other = std::make_exception_ptr(1);
  int thing = 0;
  for (const function f : {function::check, function::reset}) {
    worker_resource r;
    r.set(&thing);
    CHECK(r.after(f, error) == function::destroy);
    r.take();
    CHECK(r.after(function::destroy, other) == function::none);
    CHECK(r.take_failure() == error);
  }
  worker_resource r;
  CHECK(r.after(function::make, error) == function::none);
  CHECK(r.take_failure() == error);
}

TEST_CASE("a function that takes too long is named as its option", "[worker_resource]") {
  const auto name = [](function f) { return std::string_view{worker_resource::name_of(f)}; };
  CHECK(name(function::make) == "resource_pool_options.make");
  CHECK(name(function::check) == "resource_pool_options.check");
  CHECK(name(function::reset) == "resource_pool_options.reset");
  CHECK(name(function::destroy) == "resource_pool_options.destroy");
}
