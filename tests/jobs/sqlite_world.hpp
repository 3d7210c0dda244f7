#pragma once

#include "canigo/jobs/sqlite_store.hpp"

#include "io_world.hpp"
#include "scratch_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

/// Stores on one SQLite file, whose clock stands still.
class sqlite_world : public io_world {
 public:
  canigo::jobs::sqlite_store_options options() {
    canigo::jobs::sqlite_store_options o;
    o.waits_for_disk = false;
    o.clock = [this] { return canigo::jobs::instant{std::chrono::microseconds{now_.load()}}; };
    return o;
  }

  std::shared_ptr<canigo::jobs::store> open() override {
    return std::make_shared<canigo::jobs::sqlite_store>(io(), folder_.file(), options());
  }
  void advance(canigo::duration d) override { now_ += std::chrono::floor<std::chrono::microseconds>(d).count(); }
  std::string file() const { return folder_.file(); }

 private:
  scratch_folder folder_;
  std::atomic<std::int64_t> now_{1'700'000'000'000'000};
};
