#pragma once

#include "canigo/detail/pool/pool_options.hpp"
#include "canigo/detail/pool/pool_resources.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace canigo::detail {

class flow_host;
class pool_core;
class pool_task;

/// Owns one reference to a pool_core, the engine of a pool, and forwards the calls of the public pool classes to it. So
/// the public headers do not include the engine.
///
/// Errors, threads and allocation are those of the members of pool_core.
class pool_ref {
 public:
  /// Makes a new pool, and owns its first reference.
  pool_ref(const net::any_io_executor& executor, const pool_core_options& options,
           std::unique_ptr<pool_resources> resources);
  explicit pool_ref(pool_core& c) noexcept;
  pool_ref(const pool_ref& other) noexcept : pool_ref{*other} {}
  pool_ref& operator=(const pool_ref&) = delete;
  ~pool_ref();
  pool_core& operator*() const noexcept { return *core_; }

  // Inline, so that the compiler can remove the check for the many tasks without options.
  void check(const task_options& o) const {
    if (has_options(o)) check_options(o);
  }
  void prepare_for_handle(pool_task& t, const task_options& o) const {
    prepare_for_handle(t, has_options(o) ? &o : nullptr);
  }
  bool post(pool_task& t, const task_options& o) const { return post(t, has_options(o) ? &o : nullptr); }
  void submit(pool_task& t) const noexcept;

  std::size_t cancel_group(std::uint64_t group) const noexcept;
  void resize(std::size_t concurrency) const;
  void request_stop(stop_mode mode, duration grace) const noexcept;
  bool is_closed() const noexcept;
  pool_stats stats() const;
  flow_host& flows() const noexcept;
  const net::any_io_executor& executor() const noexcept;

 private:
  static constexpr bool has_options(const task_options& o) noexcept { return o.priority != 0 || !is_plain(o); }
  void check_options(const task_options& o) const;
  void prepare_for_handle(pool_task& t, const task_options* o) const;
  bool post(pool_task& t, const task_options* o) const;

  pool_core* core_;
};

}  // namespace canigo::detail
