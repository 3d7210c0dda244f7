#include "redirect.hpp"

#include <curl/curl.h>

#include <memory>
#include <new>

namespace fetch {

std::string redirect_of(const canigo::http::response& head, const std::string& url) {
  const auto location = head.headers.find("Location");
  if (head.status / 100 != 3 || !location) return {};
  const std::string place{*location};
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed{curl_url(), curl_url_cleanup};
  if (!parsed) throw std::bad_alloc{};
  constexpr unsigned any = CURLU_NON_SUPPORT_SCHEME | CURLU_ALLOW_SPACE;
  char* text = nullptr;
  const bool is_url = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), any) == CURLUE_OK &&
                      curl_url_set(parsed.get(), CURLUPART_URL, place.c_str(), any) == CURLUE_OK &&
                      curl_url_get(parsed.get(), CURLUPART_URL, &text, 0) == CURLUE_OK;
  const std::unique_ptr<char, decltype(&curl_free)> owned{text, curl_free};
  return is_url ? std::string{text} : place;
}

}  // namespace fetch
