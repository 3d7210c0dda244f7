#pragma once

#include <string_view>

namespace canigo::gateway {

// The page for operators, of page.html, page.js and page.css, as the build embeds them.
std::string_view page_html() noexcept;
std::string_view page_js() noexcept;
std::string_view page_css() noexcept;

}  // namespace canigo::gateway
