#pragma once

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/context/timed_call.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/error.hpp"
#include "canigo/http/detail/linked_list.hpp"
#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace canigo::http::detail {

class engine;
class easy_handle;
struct host;

/// A caller's wait for the response to a request. The request must not be moved or destroyed until the wait ends.
class transfer : public canigo::detail::suspended,
                 public list_node<transfer, struct in_engine>,
                 public list_node<transfer, struct in_mail>,
                 public list_node<transfer, struct in_queue>,
                 public list_node<transfer, struct in_delivery> {
 public:
  using results = std::tuple<std::error_code, response>;

  transfer(std::shared_ptr<engine> e, const request& r) noexcept;
  transfer(std::shared_ptr<engine> e, const request&& r) = delete;

  results take_results() noexcept { return {error_, std::move(response_)}; }
  static results failed(errc code) noexcept { return {make_error_code(code), response{}}; }
  void abandon() noexcept {}
  void request_cancel() noexcept;
  const net::any_io_executor& home_executor() const noexcept;
  /// Sets the error of a transfer before the transfer is passed to the engine.
  void fail(errc code) noexcept { error_ = code; }

 protected:
  ~transfer();

 private:
  friend class easy_handle;
  friend class engine;
  friend class host_queue;
  friend class lingering;
  friend class canigo::detail::timed_call<transfer>;
  friend void start(transfer& t) noexcept;
  friend class stream;
  void time_is_up(due why) noexcept;

  // The functions below are called while the response arrives, only on the thread that works for the engine.
  /// Whether the caller reads the body part by part; then the transfer is called a stream.
  virtual bool is_stream() const noexcept { return false; }
  /// Called when the head of the response is complete. Only streams use it.
  virtual void head_came() noexcept {}
  /// Stores a part of the body. Returns false if a stream would then have more than `most` unread bytes.
  virtual bool take(std::string_view part, std::size_t most);
  /// Whether the caller has room for this number of further bytes of the response body now.
  virtual bool has_room(std::size_t) const noexcept { return true; }
  /// The length of the request body, if the caller writes the body part by part. -1: unknown; nullopt: the caller does
  /// not write the body part by part.
  virtual std::optional<std::int64_t> length_to_write() const noexcept { return std::nullopt; }
  /// Copies bytes of the request body into the buffer, if the caller writes the body part by part. Returns the number
  /// of copied bytes. 0: the body has ended; nullopt: the caller must write more first.
  virtual std::optional<std::size_t> give(char*, std::size_t) noexcept { return 0; }
  /// Whether the caller has written the whole request body and waits for the response.
  virtual bool has_written_all() const noexcept { return false; }
  /// The number of stored bytes of the response body that the caller has not read. Only a stream has such bytes.
  virtual std::size_t ahead() const noexcept { return 0; }
  /// Whether the caller of a stream still writes the body of the request. Over HTTP/2, curl must read from the
  /// connection during that time. Otherwise curl never learns that the server accepts more bytes.
  virtual bool is_writing() const noexcept { return false; }
  /// Called when curl will not send the rest of the request body, although the caller of a stream is still writing it.
  virtual void sends_no_more() noexcept {}
  /// Hands the stored bytes of the response body to the caller of a stream.
  virtual void read_ahead() noexcept {}
  /// How long the transfer may continue after its caller has stopped waiting; zero: it ends immediately.
  virtual duration lingers() const noexcept { return duration::zero(); }
  /// Ends the caller's wait for the response with this error. The transfer itself continues.
  virtual void leave(std::error_code, std::string) noexcept {}
  virtual bool is_left() const noexcept { return false; }
  /// Hands the bytes that have arrived to the caller, before the transfer ends. If tell() throws, nothing has changed.
  virtual void tell() {}

  std::shared_ptr<engine> engine_;
  const request& request_;
  response response_;
  std::error_code error_;

  time_point sent_at_{};
  time_point connect_by_ = time_point::max();
  time_point done_by_ = time_point::max();
  canigo::detail::timed_call<transfer> deadline_;
  easy_handle* easy_ = nullptr;  // curl's handle; not null while curl works on the transfer
  host* host_ = nullptr;         // the host; not null while the transfer waits for a slot of the host, or has one
  bool connected_ = false;

  // The engine's lock is held when these members are written.
  bool is_new_ = true;
  bool cancel_wanted_ = false;
  bool time_is_up_ = false;
};

/// How a transfer ended. It includes the response even after an error, because the response has details of the error.
struct ended_transfer {
  std::error_code error;
  http::response response;
};

/// A transfer for a coroutine. An error is a part of the result, so that the coroutine can throw it together with the
/// response.
class awaited_transfer : public transfer {
 public:
  using transfer::transfer;
  using results = std::tuple<std::error_code, ended_transfer>;
  results take_results() noexcept {
    auto [error, response] = transfer::take_results();
    return {std::error_code{}, ended_transfer{error, std::move(response)}};
  }
  static results failed(errc code) noexcept { return {make_error_code(code), ended_transfer{}}; }

 protected:
  ~awaited_transfer() = default;
};

/// A transfer that owns its request, for a caller that can't keep the request alive.
class owning_transfer : public transfer {
 public:
  owning_transfer(std::shared_ptr<engine> e, request&& r) noexcept
      : transfer{std::move(e), own_request_}, own_request_{std::move(r)} {}

 protected:
  ~owning_transfer() = default;

 private:
  request own_request_;
};

void start(transfer& t) noexcept;
const net::any_io_executor& executor_of(const engine& e) noexcept;

/// Starts a transfer for a caller with a completion token.
using start_transfer = canigo::detail::initiation<owning_transfer, engine>;

}  // namespace canigo::http::detail
