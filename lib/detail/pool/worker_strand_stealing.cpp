// The strands of workers on a work_stealing executor.

#include "strand_on.hpp"

namespace canigo::detail {

std::unique_ptr<worker_strand> make_stealing_strand(const work_stealing_executor& inner, const void* owner,
                                                    const void* home) {
  return std::make_unique<strand_on<work_stealing_executor>>(inner, owner, home);
}

net::any_io_executor stealing_strand_of_no_worker(const work_stealing_executor& inner) {
  return worker_executor<stealing_strand>{std::make_shared<strand_of_worker<stealing_strand>>(inner, nullptr, nullptr),
                                          0, false};
}

}  // namespace canigo::detail
