#pragma once

#include <string_view>

namespace canigo::gateway {

// The files page.html, page.js and page.css of the page for operators. The build embeds them.
std::string_view page_html() noexcept;
std::string_view page_js() noexcept;
std::string_view page_css() noexcept;

}  // namespace canigo::gateway
