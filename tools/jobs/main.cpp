// canigo-jobs PLACE COMMAND shows and changes the jobs in an SQLite file or in PostgreSQL. See docs/jobs.md.
#include <canigo/jobs/sqlite_store.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "postgres.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

using namespace canigo;

std::unique_ptr<jobs::store> open(net::io_context& io, const std::string& place) {
  if (place.starts_with("postgres://") || place.starts_with("postgresql://")) return open_postgres(io, place);
  // A missing file is an error, because the store would create an empty one.
  if (!std::filesystem::exists(place)) {
    throw std::runtime_error{place + ": there is no such file; the URL of a server begins with postgresql://"};
  }
  return std::make_unique<jobs::sqlite_store>(io, place);
}

namespace {

bool run(const options& o) {
  net::io_context io;
  const std::unique_ptr<jobs::store> store = open(io, o.place);
  bool went_well = false;
  std::exception_ptr failure;
  net::co_spawn(io, carry_out(*store, o), [&](std::exception_ptr e, bool result) {
    failure = e;
    went_well = result;
  });
  io.run();
  if (failure) std::rethrow_exception(failure);
  if (std::fflush(stdout) != 0) throw std::runtime_error{"the output can't be written"};
  return went_well;
}

}  // namespace

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  try {
    return run(o) ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "canigo-jobs: {}\n", e.what());
    return 1;
  }
}
