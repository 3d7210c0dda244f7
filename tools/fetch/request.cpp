#include "request.hpp"

#include <canigo/error.hpp>

#include "text.hpp"
#include "url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <iterator>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace fetch {

namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Whether the text is a token of RFC 9110, 5.6.2. Unlike std::isalnum(), the check does not depend on the locale.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_one_of(c, digits) || is_one_of(c, letters) || is_one_of(c, "!#$%&'*+-.^_`|~");
  });
}

bool is_same(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool has_body(const call& c, const common_parts& common) {
  return !c.body_file.empty() || !c.body.value_or(common.body).empty();
}

struct open_file {
  explicit open_file(int fd_) noexcept : fd{fd_} {}
  ~open_file() {
    if (fd >= 0) ::close(fd);
  }
  open_file(open_file&& other) noexcept : fd{std::exchange(other.fd, -1)} {}
  open_file& operator=(open_file&&) = delete;
  int fd;
};

/// Opens a regular file. If that fails, throws std::system_error, which names the path.
open_file opened(const std::string& path) {
  const auto fail_with = [&](int why) { throw std::system_error{why, std::system_category(), printable(path)}; };
  // With O_NONBLOCK, opening a pipe that has no writer does not block the other calls.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_with(errno);
  open_file file{fd};
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) fail_with(errno);
  if (!S_ISREG(status.st_mode)) fail_with(S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  return file;
}

}  // namespace

std::string_view method_of(const call& c, const common_parts& common) {
  if (c.became_get) return "GET";
  if (!c.method.empty()) return c.method;
  if (!common.method.empty()) return common.method;
  return has_body(c, common) ? "POST" : "GET";
}

bool is_idempotent(std::string_view method) {
  constexpr std::string_view some[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
  return std::ranges::find(some, method) != std::end(some);
}

canigo::http::request request_of(const call& c, const common_parts& common) {
  const bool is_at_home = origin_of(c.target()) == origin_of(c.url);
  canigo::http::request r{std::string{method_of(c, common)},
                          is_at_home ? with_credentials(c.target(), common.credentials) : c.target()};
  const bool takes_body = r.method != "GET" && r.method != "HEAD";
  const auto add = [&](canigo::http::header h) {
    const bool is_secret = is_same(h.name, "Authorization") || is_same(h.name, "Cookie");
    const bool is_of_body = is_same(h.name, "Content-Type") || is_same(h.name, "Content-Encoding");
    if ((is_at_home || !is_secret) && (!c.became_get || !is_of_body)) r.headers.add(h.name, h.value);
  };
  for (const auto h : common.headers) {
    if (!c.headers.contains(h.name)) add(h);
  }
  for (const auto h : c.headers) add(h);
  const bool is_form = takes_body && !c.body && c.body_file.empty() && !common.body.empty();
  if (is_form && !r.headers.contains("Content-Type")) add({"Content-Type", "application/x-www-form-urlencoded"});
  if (takes_body) r.body = c.body_file.empty() ? c.body.value_or(common.body) : file_text(c.body_file);
  return r;
}

void lead_on(call& c, const common_parts& common, std::string place) {
  const auto method = method_of(c, common);
  const bool is_moved = c.status == 301 || c.status == 302;
  if ((is_moved && method == "POST") || (c.status == 303 && method != "HEAD")) c.became_get = true;
  c.place = with_credentials_of(c.target(), std::move(place));
  ++c.redirects;
  c.was_led_here = true;
}

std::string_view problem_of_method(std::string_view method) {
  if (method == "CONNECT") return "any other method";
  return is_token(method) ? "" : "letters, digits and !#$%&'*+-.^_`|~";
}

std::string problem_of_header(std::string_view name, std::string_view value) {
  const std::string shown = printable(name).substr(0, 40);
  if (!is_token(name)) return fmt::format("name is '{}'; allowed: letters, digits and !#$%&'*+-.^_`|~", shown);
  for (const std::string_view of_client : {"Content-Length", "Transfer-Encoding"}) {
    if (is_same(name, of_client)) return fmt::format("{} is not to be given; it is that of the body", shown);
  }
  if (value.find_first_of(std::string_view{"\r\n\0", 3}) != std::string_view::npos) {
    return fmt::format("{} has a value that is not allowed: no line break and no zero byte", shown);
  }
  return {};
}

std::string to_credentials(std::string_view text) {
  std::string out;
  bool is_in_name = true;
  for (const char c : text) {
    if (is_one_of(c, digits) || is_one_of(c, letters) || is_one_of(c, "-._~")) {
      out += c;
    } else if (is_in_name && c == ':') {
      is_in_name = false;
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

void check_file(const std::string& path) {
  const auto file = opened(path);
  struct stat status{};
  ::fstat(file.fd, &status);
  if (static_cast<std::size_t>(status.st_size) > longest_body) {
    throw std::system_error{canigo::make_error_code(canigo::errc::too_large), printable(path)};
  }
}

std::string file_text(const std::string& path) {
  const auto fail = [&](std::error_code why) { throw std::system_error{why, printable(path)}; };
  const auto fail_with = [&](int why) { fail({why, std::system_category()}); };
  const auto file = opened(path);
  std::string text;
  for (;;) {
    if (text.size() > longest_body) fail(canigo::errc::too_large);
    constexpr std::size_t piece = 1 << 16;
    const std::size_t size = text.size();
    text.resize(size + piece);
    const ssize_t n = ::read(file.fd, text.data() + size, piece);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno != EINTR) fail_with(errno);
    if (n == 0) return text;
  }
}

}  // namespace fetch
