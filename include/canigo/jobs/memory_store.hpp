#pragma once

#include "canigo/jobs/detail/local_store.hpp"
#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace canigo::jobs {

/// A store that keeps jobs in the memory of this process, for tests: the jobs are lost when the process ends.
///
/// Its clock is the time source of its context, so it follows testing::virtual_time. Every call except changed() ends
/// without a wait. A call that throws std::bad_alloc may have made a part of its changes.
class memory_store final : public detail::local_store {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  explicit memory_store(const net::any_io_executor& executor, const store_policy& policy = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit memory_store(ExecutionContext& context, const store_policy& policy = {})
      : memory_store{net::any_io_executor{context.get_executor()}, policy} {}
  ~memory_store() override;

  net::awaitable<std::uint64_t> changed(std::uint64_t seen) override;
  void stop() noexcept override;
  std::string where() const override { return "memory"; }

 private:
  struct state;
  net::awaitable<void> perform(weight w, step s) override;

  std::shared_ptr<state> state_;
};

}  // namespace canigo::jobs
