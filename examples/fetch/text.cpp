#include "text.hpp"

#include "url.hpp"

namespace fetch {

std::string printable_url(std::string_view url) { return printable(without_credentials(url)); }
std::string json_url(std::string_view url) { return json_text(without_credentials(url)); }

}  // namespace fetch
