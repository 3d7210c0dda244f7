#pragma once

#include "canigo/http/headers.hpp"
#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::http {

/// A request to an HTTP server.
///
/// It has constructors and with_…() members, so that it can be written inside a co_await expression. g++ 12 destroys
/// temporary aggregates in such an expression twice.
///
///     co_await client.send(http::request{"POST", url}.with_header("Accept", "text/plain").with_body(text));
struct request {
  std::string method = "GET";
  std::string url;        ///< an absolute URL with http:// or https://
  http::headers headers;  ///< the fields to send in addition to those that the client adds to every request
  std::string body;       ///< the body, sent unchanged; not for GET and HEAD
  /// the time limit from send() to the last byte, instead of the client's timeout; more than 0; max: no time limit
  std::optional<duration> timeout;
  /// Sent unchanged instead of the path and query of the URL, for example "*" for OPTIONS. Only visible ASCII
  /// characters are allowed. With a target, redirects are not followed. Empty: the path and query of the URL are sent.
  std::string target;
  /// whether to store the body of the response; false: its bytes are counted and dropped as they arrive
  bool keep_body = true;
  /// How long the client still waits for the answer after the caller has stopped waiting, by a timeout or a
  /// cancellation. Meanwhile a request that was sent completely keeps its connection, its slot in the client, and its
  /// slot in the `limits` of a policy around it. So the server never has more requests under way than these caps allow.
  /// An adaptive limit or a pool gets its slot back immediately. The answer is dropped. 0: the connection is closed
  /// immediately, and the server may continue with the request. Only for client::send() and send_checked(); 0 or more.
  duration linger = duration::zero();

  request() = default;
  request(std::string url_) : url(std::move(url_)) {}
  request(const char* url_) : url(url_) {}
  request(std::string method_, std::string url_) : method(std::move(method_)), url(std::move(url_)) {}

  request& with_header(std::string_view name, std::string_view value) & {
    headers.add(name, value);
    return *this;
  }
  request& with_body(std::string text) & {
    body = std::move(text);
    return *this;
  }
  request& with_timeout(duration t) & {
    timeout = t;
    return *this;
  }
  request& with_linger(duration d) & {
    linger = d;
    return *this;
  }

  request&& with_header(std::string_view name, std::string_view value) && {
    return std::move(with_header(name, value));
  }
  request&& with_body(std::string text) && { return std::move(with_body(std::move(text))); }
  request&& with_timeout(duration t) && { return std::move(with_timeout(t)); }
  request&& with_linger(duration d) && { return std::move(with_linger(d)); }
};

}  // namespace canigo::http
