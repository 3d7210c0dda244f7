#pragma once

#include <curl/curl.h>

#include <new>
#include <string>

namespace canigo::http::detail {

/// Sets curl options one after the other, until one fails.
class option_setter {
 public:
  explicit option_setter(CURL* easy) noexcept : easy_{easy} {}

  template <class Value>
  option_setter& operator()(CURLoption option, Value value) noexcept {
    if (result_ == CURLE_OK) result_ = curl_easy_setopt(easy_, option, value);
    return *this;
  }
  CURLcode result() const noexcept { return result_; }

 private:
  CURL* easy_;
  CURLcode result_ = CURLE_OK;
};

/// Appends a line to a curl_slist. Throws std::bad_alloc.
template <class List>
void append_line(List& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc{};
  if (!list) list.reset(longer);
}

}  // namespace canigo::http::detail
