#pragma once

#include "canigo/net.hpp"
#include "canigo/work_stealing.hpp"

#include <asio/io_context.hpp>

/// The io_context of the tests in the variant "stealing": its executor is that of work_stealing.
class stealing_context : public canigo::net::io_context {
 public:
  using executor_type = canigo::work_stealing::executor_type;

  using canigo::net::io_context::io_context;

  executor_type get_executor() noexcept { return pool_.get_executor(); }

 private:
  canigo::work_stealing pool_{*this};
};
