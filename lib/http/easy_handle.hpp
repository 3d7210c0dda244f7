#pragma once

#include "canigo/http/client.hpp"

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <system_error>

namespace canigo::http::detail {

/// One of curl's easy handles, used for one transfer after the other.
///
/// What the client decides is set once, what a request decides each time: a reset and all of it again cost a
/// microsecond.
class easy_handle : public list_node<easy_handle, struct in_unwatched> {
 public:
  /// Throws std::bad_alloc.
  easy_handle(const client_options& options, curl_opensocket_callback open, curl_closesocket_callback close,
              void* sockets);

  CURL* get() const noexcept { return easy_.get(); }
  transfer* current() const noexcept { return transfer_; }

  /// Makes it ready for the transfer's request. With an error it is not.
  std::error_code begin(transfer& t) noexcept;
  /// Moves what curl knows into the transfer's response, and says how it ended.
  std::error_code end(CURLcode result) noexcept;

  /// The object around an easy handle of curl's; null for one that curl made for itself.
  static easy_handle* of(CURL* easy) noexcept;
  /// The one that works for a transfer which begin() has been called for.
  static easy_handle& of(const transfer& t) noexcept { return *t.easy_; }

  std::error_code unwatched;  ///< why a socket of the current transfer's could not be watched

 private:
  struct cleanup {
    void operator()(CURL* e) const noexcept { curl_easy_cleanup(e); }
    void operator()(curl_slist* l) const noexcept { curl_slist_free_all(l); }
  };

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) noexcept;
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) noexcept;
  static int on_connected(void* self, char*, char*, int, int) noexcept;

  void take_header_line(std::string_view line);
  std::error_code set_headers(const request& r);
  CURLcode set_method(const request& r) noexcept;
  void fill(response& r) const;

  const std::size_t max_headers_;
  const std::size_t max_body_;
  const int max_redirects_;
  std::unique_ptr<CURL, cleanup> easy_;
  std::unique_ptr<curl_slist, cleanup> agent_;   // the field that names it, where curl does not
  std::unique_ptr<curl_slist, cleanup> fields_;  // of a request that has any of its own
  transfer* transfer_ = nullptr;
  std::error_code refused_;  // why a callback made curl give up
  bool head_complete_ = false;
  bool is_set_for_get_ = false;  // as the transfer before left it
};

}  // namespace canigo::http::detail
