#include "gateway/wire/message_parser.hpp"

#include "gateway/wire/server_flaws.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/version.hpp>

#include <algorithm>
#include <utility>

namespace canigo::gateway {
namespace beast = boost::beast;
namespace http = boost::beast::http;

// Only this file uses Boost.Beast, which parses the bytes. No type of Boost is visible outside of this file.

/// The interface that the parser of requests and the parser of responses have in common.
struct message_parser::machine {
  virtual ~machine() = default;
  virtual std::size_t put(std::string_view input, beast::error_code& e) = 0;
  virtual void put_eof(beast::error_code& e) = 0;

  message_head head;
  facts known;
  bool reads_requests = false;
  std::size_t most_fields = 0;
  std::size_t most_head = 0;
  std::size_t head_bytes = 0;
  std::span<const char> piece;
  bool is_chunked = false;
  std::uint64_t chunk_left = 0;  // how many bytes of the current chunk have not come yet
};

namespace {

/// Returns the number of header fields in the part of a message's head that has arrived so far.
std::size_t fields_in(std::string_view head) noexcept {
  std::size_t n = 0;
  for (auto at = head.find('\n'); at != head.npos && !head.substr(at + 1).starts_with('\r');
       at = head.find('\n', at + 1))
    ++n;
  return n;
}

template <bool IsRequest, class Machine>
class beast_parser final : public Machine, private http::basic_parser<IsRequest> {
  using parser = http::basic_parser<IsRequest>;

 public:
  beast_parser(const parser_limits& limits, bool without_body) {
    this->reads_requests = IsRequest;
    this->most_fields = limits.fields;
    this->most_head = limits.head;
    parser::header_limit(limits.head);
    parser::body_limit(limits.body);
    parser::skip(without_body);
  }

  std::size_t put(std::string_view input, beast::error_code& e) override {
    this->piece = {};
    // Memory is reserved only for the fields that the request has, because a request keeps its head while it waits.
    if (IsRequest && !this->known.has_begun) this->head.fields.reserve(std::min(fields_in(input), this->most_fields));
    const std::size_t n = parser::put(boost::asio::const_buffer{input.data(), input.size()}, e);
    look();
    return n;
  }
  void put_eof(beast::error_code& e) override {
    parser::put_eof(e);
    look();
  }

 private:
  void look() {
    this->known.has_begun = parser::got_some();
    this->known.done = parser::is_done();
    if (this->known.has_head || !parser::is_header_done()) return;
    this->known.has_head = true;
    this->known.keeps_alive = parser::keep_alive();
    this->known.version = this->head.version;
    this->is_chunked = parser::chunked();
    this->known.ends_with_stream = parser::need_eof() && !IsRequest && !this->known.done;
    if (const auto n = parser::content_length()) this->known.length = *n;
    this->known.has_body = !this->known.done;
  }

  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code&) override {
    this->head.method.assign(method.data(), method.size());
    this->head.target.assign(target.data(), target.size());
    this->head.version = version;
  }
  void on_response_impl(int status, beast::string_view, int version, beast::error_code&) override {
    this->head.status = status;
    this->head.version = version;
  }
  void on_field_impl(http::field f, beast::string_view name, beast::string_view value, beast::error_code& e) override {
    // Boost before 1.90 also calls this function for the fields of a trailer
    if (this->known.has_head) return look_at_trailer(f, e);
    if (this->head.fields.size() == this->most_fields) {
      e = http::error::header_limit;
      return;
    }
    // Most responses have at most 8 fields, so memory is reserved for 8.
    if (!IsRequest && this->head.fields.empty()) this->head.fields.reserve(8);
    this->head.fields.push_back({{name.data(), name.size()}, {value.data(), value.size()}});
  }
#if BOOST_VERSION >= 109000
  void on_trailer_field_impl(http::field f, beast::string_view, beast::string_view, beast::error_code& e) override {
    look_at_trailer(f, e);
  }
#endif
  // Refuses a trailer with a field that defines where a message ends. Other trailer fields are not passed on.
  static void look_at_trailer(http::field f, beast::error_code& e) {
    if (f == http::field::content_length || f == http::field::transfer_encoding) e = http::error::bad_field;
  }
  void on_header_impl(beast::error_code& e) override { e = {}; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code& e) override { e = {}; }
  std::size_t on_body_impl(beast::string_view body, beast::error_code& e) override { return keep(body, e); }
  void on_chunk_header_impl(std::uint64_t size, beast::string_view, beast::error_code& e) override {
    e = {};
    this->chunk_left = size;
    // No chunk follows the chunk of size 0. From Boost 1.90 on, the trailer is read in a separate step. In that step,
    // `is_chunked` must be false, so that the lines of the trailer are not taken for sizes of chunks.
    if (size == 0) this->is_chunked = false;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, beast::error_code& e) override {
    this->chunk_left -= body.size();
    return keep(body, e);
  }
  void on_finish_impl(beast::error_code& e) override { e = {}; }

  std::size_t keep(beast::string_view body, beast::error_code& e) {
    e = {};
    this->piece = {body.data(), body.size()};
    return body.size();
  }
};

}  // namespace

const message_parser::facts& message_parser::known() const noexcept { return machine_ ? machine_->known : last_; }
message_parser::message_parser(std::unique_ptr<machine> m) : machine_(std::move(m)) {}
message_parser::message_parser(message_parser&& other) noexcept = default;
message_parser& message_parser::operator=(message_parser&& other) noexcept = default;
message_parser::~message_parser() = default;

message_parser message_parser::of_request(const parser_limits& limits) {
  return message_parser{std::make_unique<beast_parser<true, machine>>(limits, false)};
}

message_parser message_parser::of_response(const parser_limits& limits, bool to_head) {
  return message_parser{std::make_unique<beast_parser<false, machine>>(limits, to_head)};
}

message_parser::step message_parser::read(read_buffer& buffer) {
  step s;
  std::string_view input{buffer.unread().data(), buffer.size()};
  const bool is_chunk_line = machine_->is_chunked && machine_->chunk_left == 0;
  std::optional<mended_text> mended;
  if (!machine_->reads_requests && is_chunk_line) {
    // The line with a chunk's size is given to Beast only when it is complete. Beast counts the bytes of an incomplete
    // line, but some of them may be blanks that are dropped later.
    if (!has_chunk_line(input)) {
      s.wants_more = true;
      return s;
    }
    mended = mend_chunk_line(input);
  } else if (!machine_->reads_requests && !known().has_head) {
    if (ends_within_status_line(input)) {
      s.wants_more = true;
      return s;
    }
    mended = mend_status_line(input);
  }
  if (mended) input = mended->text;
  // Beast aborts the program if it gets the last chunk ("0" and two line ends, 5 bytes) in several steps. From the
  // start of a line with a chunk's size, each message has at least 5 bytes left. So Beast gets such a line only when at
  // least 5 bytes have arrived.
  constexpr std::size_t least = 5;
  if (is_chunk_line && !(mended && mended->is_line) && input.size() < least) {
    s.wants_more = true;
    return s;
  }
  beast::error_code e;
  const std::size_t used = machine_->put(input, e);
  buffer.consume(mended ? mended->of_server(used) : used);
  s.piece = machine_->piece;
  // Beast limits the bytes of a head only within one step. So this function counts the bytes of all steps of a head.
  if (!known().has_head) machine_->head_bytes += used;
  const std::size_t unread = e == http::error::need_more && !known().has_head ? input.size() - used : 0;
  if (machine_->head_bytes + unread > machine_->most_head) e = http::error::header_limit;
  if (e == http::error::need_more) {
    s.wants_more = true;
  } else if (e) {
    const bool has_line = !machine_->head.method.empty() || std::ranges::find(input, '\n') != input.end();
    failure_ = e == http::error::body_limit     ? parse_failure::body_too_large
               : e != http::error::header_limit ? parse_failure::malformed
               : has_line                       ? parse_failure::head_too_large
                                                : parse_failure::target_too_large;
  }
  return s;
}

void message_parser::end() {
  beast::error_code e;
  machine_->put_eof(e);
  if (e) failure_ = parse_failure::malformed;
}

std::string_view reason_of(int status) noexcept {
  const http::status known = http::int_to_status(static_cast<unsigned>(status));
  if (known == http::status::unknown) return {};
  const beast::string_view text = http::obsolete_reason(known);
  return {text.data(), text.size()};
}

bool message_parser::has_begun() const noexcept { return known().has_begun; }
bool message_parser::has_head() const noexcept { return known().has_head; }
bool message_parser::is_done() const noexcept { return known().done; }
const message_head& message_parser::head() const noexcept { return machine_->head; }
message_head message_parser::take_head() noexcept {
  message_head head = std::move(machine_->head);
  if (is_done()) {
    last_ = machine_->known;
    machine_.reset();
  }
  return head;
}
bool message_parser::has_body() const noexcept { return known().has_body; }
std::optional<std::uint64_t> message_parser::length() const noexcept { return known().length; }
bool message_parser::ends_with_stream() const noexcept { return known().ends_with_stream; }
int message_parser::version() const noexcept { return known().version; }
bool message_parser::keep_alive() const noexcept { return known().keeps_alive; }

}  // namespace canigo::gateway
