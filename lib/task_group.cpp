#include "canigo/task_group.hpp"

namespace canigo {

task_group::task_group(const net::any_io_executor& executor)
    : core_{std::make_shared<detail::task_group_core>(executor)} {}

task_group::~task_group() { core_->detach(); }

}  // namespace canigo
