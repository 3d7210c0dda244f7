#include "canigo/detail/pool/pool_ref.hpp"

#include "canigo/detail/pool/pool_core.hpp"

#include <utility>

namespace canigo::detail {

pool_ref::pool_ref(const net::any_io_executor& executor, const pool_core_options& options,
                   std::unique_ptr<pool_resources> resources)
    : core_{pool_core::open(executor, options, std::move(resources))} {}

pool_ref::pool_ref(pool_core& c) noexcept : core_{&c} { core_->add_ref(); }

pool_ref::~pool_ref() { core_->release_ref(); }

void pool_ref::check_options(const task_options& o) const { core_->check(o); }

void pool_ref::prepare_for_handle(pool_task& t, const task_options* o) const { core_->prepare_for_handle(t, o); }

bool pool_ref::post(pool_task& t, const task_options* o) const { return core_->post(t, o); }

void pool_ref::submit(pool_task& t) const noexcept { core_->submit(t); }

std::size_t pool_ref::cancel_group(std::uint64_t group) const noexcept { return core_->cancel_group(group); }

void pool_ref::resize(std::size_t concurrency) const { core_->resize(concurrency); }

void pool_ref::request_stop(stop_mode mode, duration grace) const noexcept { core_->request_stop(mode, grace); }

bool pool_ref::is_closed() const noexcept { return core_->is_closed(); }

pool_stats pool_ref::stats() const { return core_->stats(); }

flow_host& pool_ref::flows() const noexcept { return core_->flows(); }

const net::any_io_executor& pool_ref::executor() const noexcept { return core_->executor(); }

}  // namespace canigo::detail
