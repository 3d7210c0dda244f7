#include "canigo/http/upload.hpp"

#include "canigo/detail/context/initiation.hpp"
#include "canigo/error.hpp"

#include "request_check.hpp"
#include "stream.hpp"

#include <limits>
#include <string>
#include <utility>

namespace canigo::http {

upload::upload(std::shared_ptr<detail::engine> engine, request r, std::optional<std::uint64_t> length) {
  const auto refuse = [](const detail::request_problem& p) {
    canigo::detail::throw_invalid(p.field, p.value, p.allowed);
  };
  if (const auto problem = detail::problem_of(r)) refuse(*problem);
  if (!r.body.empty()) refuse({"request.body", std::to_string(r.body.size()) + " bytes", "none with an upload"});
  if (r.method == "GET" || r.method == "HEAD") refuse({"request.method", r.method, "a method with a body"});
  constexpr std::uint64_t longest = std::numeric_limits<std::int64_t>::max();
  if (length && *length > longest) refuse({"client.start_upload length", std::to_string(*length), "up to 2^63 - 1"});
  stream_ = std::make_shared<detail::stream>(std::move(engine), std::move(r), detail::body_length{length});
}

upload& upload::operator=(upload&& other) noexcept {
  if (this != &other) {
    const upload before{std::exchange(stream_, std::move(other.stream_))};
  }
  return *this;
}

upload::~upload() {
  if (stream_) stream_->reset();
}

net::awaitable<std::size_t> upload::write_some(net::const_buffer from) {
  const std::uint64_t most = stream_->bytes_to_write();
  if (from.size() == 0) canigo::detail::throw_invalid("upload.write_some buffer", from.size(), "1 byte or more");
  if (from.size() > most) {
    canigo::detail::throw_invalid("upload.write_some buffer", from.size(),
                                  std::to_string(most) + " bytes of the announced length are left");
  }
  return canigo::detail::await_operation<detail::step>(stream_, from);
}

net::awaitable<bool> upload::write(net::const_buffer from) {
  while (from.size() != 0) {
    const std::size_t n = co_await write_some(from);
    if (n == 0) co_return false;
    from += n;
  }
  co_return true;
}

net::awaitable<exchange> upload::finish() {
  const std::uint64_t missing = stream_->missing_bytes();
  if (missing != 0) {
    canigo::detail::throw_invalid("upload.finish: bytes not written", missing, "0, as the length was announced");
  }
  return exchange::after_head(std::exchange(stream_, {}));
}

const std::string& upload::problem() const noexcept { return stream_->problem(); }

}  // namespace canigo::http
