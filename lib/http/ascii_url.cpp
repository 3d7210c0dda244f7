#include "ascii_url.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <clocale>
#include <locale.h>
#include <memory>
#include <string_view>

namespace canigo::http::detail {
namespace {

/// Sets the locale of this thread to UTF-8 during the lifetime of this object.
class utf8_locale {
 public:
  utf8_locale() noexcept {
    static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (utf8 != nullptr) before_ = ::uselocale(utf8);
  }
  ~utf8_locale() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  utf8_locale(const utf8_locale&) = delete;
  utf8_locale& operator=(const utf8_locale&) = delete;

 private:
  locale_t before_ = nullptr;
};

}  // namespace

bool has_other_letters(const std::string& url) noexcept {
  const auto authority = url.find("://");
  if (authority == std::string::npos) return false;
  const std::string_view rest = std::string_view{url}.substr(authority + 3);
  return std::ranges::any_of(rest.substr(0, rest.find_first_of("/?#")), [](char c) { return (c & 0x80) != 0; });
}

std::optional<std::string> with_ascii_host(const std::string& url) {
#if LIBCURL_VERSION_NUM >= 0x075800
  const utf8_locale meanwhile;
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts{curl_url(), &curl_url_cleanup};
  const auto get = [&](CURLUPart part, unsigned flags) {
    char* text = nullptr;
    curl_url_get(parts.get(), part, &text, flags);
    return std::unique_ptr<char, decltype(&curl_free)>{text, &curl_free};
  };
  if (!parts || curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto host = get(CURLUPART_HOST, CURLU_PUNYCODE);
  if (!host || curl_url_set(parts.get(), CURLUPART_HOST, host.get(), 0) != CURLUE_OK) return std::nullopt;
  const auto whole = get(CURLUPART_URL, 0);
  if (!whole) return std::nullopt;
  return std::string{whole.get()};
#else
  return url;
#endif
}

}  // namespace canigo::http::detail
