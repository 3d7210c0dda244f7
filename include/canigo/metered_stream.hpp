#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/scheduler.hpp"

#include <asio/async_result.hpp>
#include <asio/buffer.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/compose.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

/// The limit for one direction, read or write, of a metered_stream.
struct metering {
  /// The scheduler that grants the bytes; one token is one byte. Several streams may share it. Null: no limit. It must
  /// outlive the operations of the stream.
  scheduler* limit = nullptr;
  /// The request for each chunk: its priority, flow and tag are used; its tokens and deadline are ignored. If a flow is
  /// set, the flow's own rates limit the stream, too, and the stream gets the flow's share of the scheduler's rate.
  canigo::request request = {};
};

struct metered_stream_options {
  metering read = {};   ///< the limit for bytes that the stream reads
  metering write = {};  ///< the limit for bytes that the stream writes
  /// Max number of bytes per chunk; 1 or more, up to the burst of both limits. With smaller chunks, a more important
  /// stream waits less for other streams that share the scheduler.
  std::size_t chunk = 16'384;
};

namespace detail {
/// Throws std::system_error (errc::invalid_argument or errc::too_large) if the limits could never grant a chunk.
void check_metering(const metered_stream_options& o);
/// Takes the tokens if they are available and no request waits. Returns false otherwise.
bool takes_at_once(scheduler& limit, const request& r) noexcept;

/// A prefix of a buffer sequence, which is itself a buffer sequence. It has up to 16 buffers, as many as Asio passes to
/// one system call.
template <class Buffer>
class buffer_prefix {
 public:
  static constexpr std::size_t most = 16;

  using value_type = Buffer;
  using const_iterator = const Buffer*;

  void add(const Buffer& b) noexcept { items_[size_++] = b; }
  bool is_full() const noexcept { return size_ == most; }
  const Buffer* begin() const noexcept { return items_.data(); }
  const Buffer* end() const noexcept { return items_.data() + size_; }

 private:
  std::array<Buffer, most> items_;
  std::size_t size_ = 0;
};

/// The first `bytes` bytes of `buffers`, without empty buffers.
template <class Buffer, class Buffers>
buffer_prefix<Buffer> prefix_of(const Buffers& buffers, std::size_t bytes) {
  buffer_prefix<Buffer> prefix;
  const auto last = net::buffer_sequence_end(buffers);
  for (auto i = net::buffer_sequence_begin(buffers); i != last && bytes != 0 && !prefix.is_full(); ++i) {
    const Buffer part = net::buffer(Buffer(*i), bytes);
    if (part.size() == 0) continue;
    prefix.add(part);
    bytes -= part.size();
  }
  return prefix;
}
}  // namespace detail

/// An AsyncReadStream and AsyncWriteStream that takes one token of a scheduler for each byte:
///
///     canigo::scheduler uplink{io, {.rate = canigo::rate::per_second(1'000'000), .burst = 65'536, .priorities = 2}};
///     canigo::metered_stream<asio::ip::tcp::socket> s{std::move(socket), {.write = {&uplink, {.priority = 1}}}};
///     co_await asio::async_write(s, asio::buffer(file));
///
/// `Stream` is any stream of Asio, or a reference to one: a socket, a TLS stream, another metered_stream. A
/// metered_stream may also be the lower layer of a TLS stream; then it meters TLS records.
///
/// Promises: bytes written, and bytes handed out by reads, keep all promises of the scheduler. So in a window of length
/// t, all streams that share the scheduler transfer at most burst + floor(t · rate) bytes. A stream with a debt (see
/// Errors) may exceed that by one chunk.
///
/// A write takes its tokens first. If it writes fewer bytes, the unused tokens are refunded. A read takes its tokens
/// after the bytes have arrived, and then hands the bytes out. So an idle connection holds no tokens. Bytes for
/// which no tokens are taken yet may have arrived already: up to a chunk, and the bytes in the socket's buffer.
///
/// Errors: those of the stream, and those of the scheduler. An operation that ends with an error of the scheduler has
/// written or read nothing.
/// A read never loses bytes. If a read is cancelled, or refused by the scheduler, after bytes have arrived, the read
/// still hands these bytes out. Their tokens become a debt of the scheduler (charge()). The next read of the stream
/// first waits until the debt is paid, or fails with the scheduler's error. A read that waits for bytes does not notice
/// that the scheduler is stopped.
/// Cancellation: terminal, partial and total, as far as the stream supports them.
/// Threads: the stream, like an Asio socket, needs one thread at a time or a strand. The scheduler may be used from any
/// thread.
/// Lifetime: like an Asio socket, the stream must outlive its operations.
/// Allocates: only memory that Asio takes from the handler's associated allocator and recycles.
template <class Stream>
class metered_stream {
 public:
  using next_layer_type = std::remove_reference_t<Stream>;
  using lowest_layer_type = typename next_layer_type::lowest_layer_type;
  using executor_type = typename next_layer_type::executor_type;

  /// Throws std::system_error (errc::invalid_argument or errc::too_large) if an option is out of range; the text names
  /// the field, the value and the range.
  template <class Next>
  metered_stream(Next&& next, const metered_stream_options& options)
      : next_(std::forward<Next>(next)), options_{options} {
    detail::check_metering(options);
  }

  executor_type get_executor() { return next_.get_executor(); }
  next_layer_type& next_layer() noexcept { return next_; }
  const next_layer_type& next_layer() const noexcept { return next_; }
  lowest_layer_type& lowest_layer() { return next_.lowest_layer(); }
  const lowest_layer_type& lowest_layer() const { return next_.lowest_layer(); }

  /// Reads up to one chunk. Signature: void(std::error_code, std::size_t).
  template <class Buffers, net::completion_token_for<void(std::error_code, std::size_t)> Token = net::use_awaitable_t<>>
  auto async_read_some(const Buffers& buffers, Token&& token = Token()) {
    return net::async_compose<Token, void(std::error_code, std::size_t)>(read_step<Buffers>{*this, buffers}, token,
                                                                         next_);
  }

  /// Writes up to one chunk. Signature: void(std::error_code, std::size_t).
  template <class Buffers, net::completion_token_for<void(std::error_code, std::size_t)> Token = net::use_awaitable_t<>>
  auto async_write_some(const Buffers& buffers, Token&& token = Token()) {
    return net::async_compose<Token, void(std::error_code, std::size_t)>(write_step<Buffers>{*this, buffers}, token,
                                                                         next_);
  }

 private:
  enum class at { start, debt, limit, stream };

  template <class Buffers>
  struct read_step {
    metered_stream& stream;
    Buffers buffers;
    std::size_t bytes = 0;
    std::size_t unpaid = 0;
    at where = at::start;

    template <class Self>
    void operator()(Self& self, std::error_code error = {}, std::size_t n = 0) {
      const metering& m = stream.options_.read;
      switch (where) {
        case at::start:
          self.reset_cancellation_state(net::enable_total_cancellation());
          if (!stream.owes_) return read(self);
          where = at::debt;
          m.limit->async_acquire(stream.ask(m, 1), std::move(self));
          return;
        case at::debt:
          if (error) return self.complete(error, 0);
          stream.owes_ = false;
          stream.paid_ahead_ = 1;
          return read(self);
        case at::stream:
          if (m.limit == nullptr || n == 0) return self.complete(error, n);
          bytes = n;
          unpaid = n - std::exchange(stream.paid_ahead_, 0);
          if (error) {
            stream.owe(unpaid);
          } else if (unpaid != 0 && !detail::takes_at_once(*m.limit, stream.ask(m, unpaid))) {
            where = at::limit;
            m.limit->async_acquire(stream.ask(m, unpaid), std::move(self));
            return;
          }
          return self.complete(error, n);
        case at::limit:
          if (error) stream.owe(unpaid);
          return self.complete({}, bytes);
      }
    }

    template <class Self>
    void read(Self& self) {
      where = at::stream;
      const std::size_t most = stream.most(stream.options_.read);
      stream.next_.async_read_some(detail::prefix_of<net::mutable_buffer>(buffers, most), std::move(self));
    }
  };

  template <class Buffers>
  struct write_step {
    metered_stream& stream;
    Buffers buffers;
    std::size_t bytes = 0;
    at where = at::start;

    template <class Self>
    void operator()(Self& self, std::error_code error = {}, std::size_t n = 0) {
      const metering& m = stream.options_.write;
      switch (where) {
        case at::start: {
          self.reset_cancellation_state(net::enable_total_cancellation());
          bytes = std::min(net::buffer_size(buffers), stream.most(m));
          if (m.limit != nullptr && bytes != 0) {
            const request r = stream.ask(m, bytes);
            if (!detail::takes_at_once(*m.limit, r)) {
              where = at::limit;
              m.limit->async_acquire(r, std::move(self));
              return;
            }
          }
          return write(self);
        }
        case at::limit:
          if (error) return self.complete(error, 0);
          return write(self);
        case at::stream:
          if (m.limit != nullptr && n < bytes) m.limit->refund(bytes - n);
          return self.complete(error, n);
        case at::debt:
          return;  // not reached, because a write has no debt to pay
      }
    }

    template <class Self>
    void write(Self& self) {
      where = at::stream;
      stream.next_.async_write_some(detail::prefix_of<net::const_buffer>(buffers, bytes), std::move(self));
    }
  };

  void owe(std::size_t bytes) {
    if (bytes != 0) options_.read.limit->charge(bytes);
    owes_ = true;
  }

  std::size_t most(const metering& m) const noexcept {
    return m.limit == nullptr ? static_cast<std::size_t>(-1) : options_.chunk;
  }
  static request ask(const metering& m, std::size_t bytes) {
    request r = m.request;
    r.tokens = bytes;
    r.deadline = {};
    return r;
  }

  Stream next_;
  metered_stream_options options_;
  // true: tokens are owed for bytes that were already handed out; the next read first waits until the debt is paid
  bool owes_ = false;
  std::size_t paid_ahead_ = 0;  // bytes of the next read whose tokens are already paid
};

}  // namespace canigo
