#pragma once

#include "canigo/jobs/store.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace canigo::jobs::detail {

class table;

/// A store that executes its steps in this process. A step is a function that reads or changes the table of jobs. This
/// class checks the arguments, and the derived class executes the steps.
class local_store : public store {
 public:
  net::awaitable<std::vector<put_answer>> put_all(std::vector<new_job> list) final;
  net::awaitable<std::vector<claimed_job>> claim(claim_request r) final;
  net::awaitable<verdict> complete(lease l, std::string result) final;
  net::awaitable<verdict> fail(lease l, std::string text, duration retry_in) final;
  net::awaitable<verdict> snooze(lease l, duration d) final;
  net::awaitable<verdict> give_back(lease l) final;
  net::awaitable<extension> extend(lease l, duration d, std::optional<std::string> progress) final;
  net::awaitable<cancel_answer> cancel(job_id id) final;
  net::awaitable<requeue_answer> requeue(job_id id) final;
  net::awaitable<remove_answer> remove(job_id id) final;
  net::awaitable<std::size_t> trim(trim_request r) final;
  net::awaitable<void> pause(std::string queue) final;
  net::awaitable<void> resume(std::string queue) final;
  net::awaitable<duration> next_due(std::string queue) final;
  net::awaitable<instant> clock() final;
  net::awaitable<std::optional<job_info>> look(job_id id) final;
  net::awaitable<std::vector<job_info>> list(list_request r) final;
  net::awaitable<std::vector<queue_count>> count() final;

 protected:
  /// How durably a step must be committed.
  enum class weight : std::uint8_t {
    reads,    ///< the step changes nothing
    renews,   ///< a power failure may lose the step: the lease then ends sooner
    durable,  ///< the step must not be lost, not even by a power failure
  };
  using step = std::function<void(table&, instant now)>;

  /// Executes the step, completely or not at all. Throws the exception of the step. `s` may still exist after the
  /// caller has been destroyed.
  virtual net::awaitable<void> perform(weight w, step s) = 0;

 private:
  template <class F>
  auto on_table(weight w, F f) -> net::awaitable<std::invoke_result_t<F&, table&, instant>>;
};

}  // namespace canigo::jobs::detail
