#pragma once

#include "canigo/http/headers.hpp"
#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::http {

/// A request to a server.
///
/// It has constructors and is built up by calls, so that it can be written inside a co_await expression. There g++ 12
/// destroys the temporaries of an aggregate twice.
///
///     co_await client.send(http::request{"POST", url}.with_header("Accept", "text/plain").with_body(text));
struct request {
  std::string method = "GET";
  std::string url;                  ///< http:// or https://, absolute
  http::headers headers;            ///< added to the fields that HTTP itself needs
  std::string body;                 ///< sent unchanged, with any method but GET and HEAD
  std::optional<duration> timeout;  ///< instead of the client's, from send() to the last byte; more than 0; max: none
  /// Sent instead of the URL's path and query, as it is: "*" for OPTIONS, for example. Visible characters of ASCII.
  /// Redirects are then not followed. Empty: none.
  std::string target;
  bool keep_body = true;  ///< false: the body of the response is counted, and dropped as it comes
  /// How long the client waits for the answer when its caller has gone, at the timeout or by a cancellation. A request
  /// that was sent in full keeps its connection for so long at most. It also keeps its place in the client and in the
  /// `limits` of a policy around it, but not one of an adaptive limit or of a pool. So no more requests are under way
  /// at the server than these caps say. The answer is dropped. 0: the connection is closed at once, and the server may
  /// go on. Only for client::send() and send_checked(); 0 or more.
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
