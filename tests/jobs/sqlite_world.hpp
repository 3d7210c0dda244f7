#pragma once

#include "canigo/jobs/conformance.hpp"
#include "canigo/jobs/sqlite_store.hpp"
#include "canigo/net.hpp"

#include "support/said_by.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdlib.h>
#include <string>
#include <system_error>
#include <utility>

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
class sqlite_world : public canigo::jobs::conformance::world {
 public:
  canigo::jobs::sqlite_store_options options() {
    canigo::jobs::sqlite_store_options o;
    o.waits_for_disk = false;
    o.clock = [this] { return canigo::jobs::instant{std::chrono::microseconds{now_.load()}}; };
    return o;
  }

  std::shared_ptr<canigo::jobs::store> open() override {
    return std::make_shared<canigo::jobs::sqlite_store>(io_, folder_.file(), options());
  }
  void advance(canigo::duration d) override { now_ += std::chrono::floor<std::chrono::microseconds>(d).count(); }
  void run(canigo::net::awaitable<void> work) override {
    bool is_over = false;
    std::exception_ptr thrown;
    canigo::net::co_spawn(io_, std::move(work), [&](std::exception_ptr e) {
      is_over = true;
      thrown = e;
    });
    io_.restart();
    while (!is_over && io_.run_one() > 0) {
    }
    if (thrown) std::rethrow_exception(thrown);
    if (!is_over) throw canigo::jobs::conformance::failure{"a call does not end"};
  }
  template <class T>
  T wait(canigo::net::awaitable<T> call) {
    std::optional<T> result;
    run(into(std::move(call), result));
    return std::move(*result);
  }
  /// The error that the call ends with, and its text.
  template <class T>
  std::pair<std::error_code, std::string> error_of(canigo::net::awaitable<T> call) {
    try {
      wait(std::move(call));
    } catch (const std::system_error& e) {
      return {e.code(), said_by(e)};
    }
    return {};
  }

  canigo::net::io_context& io() { return io_; }
  std::string file() const { return folder_.file(); }

 private:
  template <class T>
  static canigo::net::awaitable<void> into(canigo::net::awaitable<T> call, std::optional<T>& result) {
    result.emplace(co_await std::move(call));
  }

  scratch_folder folder_;
  std::atomic<std::int64_t> now_{1'700'000'000'000'000};
  canigo::net::io_context io_;
};
