#pragma once

#include "canigo/jobs/sqlite_store.hpp"

#include "io_world.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdlib.h>
#include <string>
#include <system_error>

/// A folder that goes with the test.
class scratch_folder {
 public:
  scratch_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "canigo-jobs-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error{errno, std::system_category(), pattern};
    path_ = pattern;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name = "jobs.db") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Stores on one file of SQLite, whose clock stands still.
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
