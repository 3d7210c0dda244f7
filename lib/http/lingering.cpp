#include "lingering.hpp"

#include "engine.hpp"

namespace canigo::http::detail {

lingering_call::results lingering_call::take_results() noexcept { return {std::error_code{}, request_->take_end()}; }

void lingering_call::request_cancel() noexcept { request_->cancel(); }

const net::any_io_executor& lingering_call::home_executor() const noexcept { return request_->executor(); }

void start(lingering_call& c) noexcept {
  // The operation `c` may end inside ask(). It then releases its reference to the request. `keep` keeps the request
  // alive.
  const auto keep = c.request_;
  keep->ask(c);
}

const net::any_io_executor& executor_of(const lingering& l) noexcept { return l.executor(); }

void lingering::ask(lingering_call& c) noexcept {
  error_ = c.error_;
  self_ = shared_from_this();
  waiting_ = &c;
  engine_->start(*this);
}

void lingering::cancel() noexcept { engine_->cancel(*this); }

const net::any_io_executor& lingering::executor() const noexcept { return engine_->executor(); }

void lingering::leave(std::error_code ec, std::string problem) noexcept {
  is_left_ = true;
  end_.error = ec;
  end_.response.problem = std::move(problem);
  response_.body = {};
  engine_->has_news(*this);
}

bool lingering::take(std::string_view part, std::size_t most) { return is_left_ || transfer::take(part, most); }

void lingering::tell() {
  if (waiting_ == nullptr) return;
  lingering_call* const c = std::exchange(waiting_, nullptr);
  try {
    c->post();
  } catch (...) {
    waiting_ = c;
    throw;
  }
}

void lingering::post() {
  if (!is_left_ && waiting_ != nullptr) end_ = {error_, std::move(response_)};
  // If tell() throws for lack of memory, the engine calls post() again. That second call must not move `response_`
  // again, so `is_left_` is set before tell().
  is_left_ = true;
  tell();
  const auto keep = std::move(self_);
}

void lingering::destroy() noexcept {
  const auto keep = std::move(self_);
  if (lingering_call* const c = std::exchange(waiting_, nullptr)) c->destroy();
}

}  // namespace canigo::http::detail
