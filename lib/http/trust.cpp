#include "trust.hpp"

#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include "text.hpp"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::http::detail {
namespace {

/// Whether a file name consists of eight hexadecimal digits, a dot, and a number, as c_rehash names files.
bool is_hash(std::string_view name) noexcept {
  constexpr std::size_t digits = 8;
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  return name.size() > digits + 1 && name[digits] == '.' && std::ranges::all_of(name.substr(0, digits), is_hex) &&
         std::ranges::all_of(name.substr(digits + 1), is_digit);
}

std::size_t hashes_in(const char* folder) {
  std::error_code failed;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator at{folder, failed}, end; !failed && at != end; at.increment(failed)) {
    count += is_hash(at->path().filename().native());
  }
  return count;
}

/// Returns the number of objects in a PEM file whose BEGIN line contains `what`.
std::size_t count_in(const char* file, std::string_view what) {
  std::ifstream in{file};
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    count += line.starts_with("-----BEGIN ") && line.find(what) != std::string::npos;
  }
  return count;
}

trust curls_own() {
  const curl_version_info_data* made = curl_version_info(CURLVERSION_NOW);
  return made->age < CURLVERSION_SEVENTH ? trust{} : trust_in(made->cainfo, made->capath);
}

}  // namespace

trust trust_in(const char* file, const char* folder) {
  if (folder != nullptr) {
    // If the folder contains all certificates of the file, as on Debian, the file is not needed.
    const std::size_t hashes = hashes_in(folder);
    const bool has_all = hashes > 0 && (file == nullptr || hashes >= count_in(file, "CERTIFICATE-----"));
    return has_all ? trust{.folder = folder, .is_known = true} : trust{};
  }
  return file != nullptr ? trust{.file = file, .is_known = true} : trust{};
}

trust trust_of(const client_options& options) {
  if (!options.verify_tls) return {};
  if (!options.ca_data.empty()) return {.data = options.ca_data, .is_known = true};
  if (!options.ca_file.empty()) return {.file = options.ca_file, .is_known = true};
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return {.file = value, .is_known = true};
  }
  static const trust own = curls_own();
  return own;
}

CURLcode set_trust(CURL* easy, const trust& trusted) noexcept {
  if (!trusted.is_known) return CURLE_OK;
  const auto or_none = [](const std::string& path) { return path.empty() ? nullptr : path.c_str(); };
  CURLcode result = curl_easy_setopt(easy, CURLOPT_CAINFO, or_none(trusted.file));
  if (result == CURLE_OK) result = curl_easy_setopt(easy, CURLOPT_CAPATH, or_none(trusted.folder));
  if (!trusted.data.empty() && result == CURLE_OK) {
    curl_blob text{const_cast<char*>(trusted.data.data()), trusted.data.size(), CURL_BLOB_NOCOPY};
    result = curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &text);
  }
#if LIBCURL_VERSION_NUM >= 0x075700
  // With the value -1 curl keeps the certificates in memory for ever. By default curl reads the file again after a day,
  // and that blocks the event loop.
  curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, -1L);
#endif
  return result;
}

CURLcode set_identity(CURL* easy, const client_options& options) noexcept {
  if (options.cert_file.empty()) return CURLE_OK;
  CURLcode result = curl_easy_setopt(easy, CURLOPT_SSLCERT, options.cert_file.c_str());
  if (result == CURLE_OK && !options.key_file.empty()) {
    result = curl_easy_setopt(easy, CURLOPT_SSLKEY, options.key_file.c_str());
  }
  // The password is set even if it is empty. If no password is set, OpenSSL asks for it at the terminal.
  if (result == CURLE_OK) result = curl_easy_setopt(easy, CURLOPT_KEYPASSWD, options.key_password.c_str());
  return result;
}

void check_identity_files(const client_options& o) {
  if (o.cert_file.empty()) return;
  if (count_in(o.cert_file.c_str(), "CERTIFICATE-----") == 0) {
    canigo::detail::throw_invalid("client_options.cert_file", o.cert_file, "a PEM file with a certificate");
  }
  const bool is_apart = !o.key_file.empty();
  const std::string& file = is_apart ? o.key_file : o.cert_file;
  if (count_in(file.c_str(), "PRIVATE KEY-----") == 0) {
    canigo::detail::throw_invalid(
        is_apart ? "client_options.key_file" : "client_options.cert_file", file,
        is_apart ? "a PEM file with a key" : "a PEM file with a key, too, if key_file is empty");
  }
}

CURLcode read_certificates(CURLM* multi, const trust& trusted, const client_options& options) {
  constexpr std::size_t most_peers = 64;
  if (trusted.file.empty() && trusted.data.empty() && options.cert_file.empty()) return CURLE_OK;
  using easy_pointer = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
  const easy_pointer easy{curl_easy_init(), &curl_easy_cleanup};
  if (!easy) throw std::bad_alloc{};
  try {
    // curl reads the certificate files only when a server has sent something. So a local server sends a text that is
    // not TLS. The server sends the text to every connection, because other processes may connect, too. The server
    // keeps the connections open, because the end of a connection might arrive before the text does.
    net::io_context io;
    net::ip::tcp::acceptor server{io, {net::ip::address_v4::loopback(), 0}};
    server.non_blocking(true);
    std::vector<net::ip::tcp::socket> peers;
    const std::string url = "https://127.0.0.1:" + std::to_string(server.local_endpoint().port()) + "/";
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, 5000L);
    if (const auto code = set_trust(easy.get(), trusted); code != CURLE_OK) return code;
    if (const auto code = set_identity(easy.get(), options); code != CURLE_OK) return code;
    if (curl_multi_add_handle(multi, easy.get()) != CURLM_OK) throw std::bad_alloc{};
    int running = 1;
    while (curl_multi_perform(multi, &running) == CURLM_OK && running > 0) {
      std::error_code not_yet;
      for (net::ip::tcp::socket peer{io}; peers.size() < most_peers && !server.accept(peer, not_yet);) {
        net::write(peer, net::buffer("no TLS\r\n", 8), not_yet);
        peers.push_back(std::move(peer));
      }
      constexpr int ms = 1;
      curl_multi_wait(multi, nullptr, 0, ms, nullptr);
    }
  } catch (const std::system_error&) {
    // Without a loopback interface or a free descriptor, the certificate files are not checked now. In that case curl
    // reads them when the first connection needs them.
  }
  int more = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &more);
  CURLcode result = message != nullptr ? message->data.result : CURLE_OK;
  curl_multi_remove_handle(multi, easy.get());
  // curl 8.23 reports this error for a key that does not match its certificate.
  if (result == CURLE_BAD_FUNCTION_ARGUMENT && !options.cert_file.empty()) result = CURLE_SSL_CERTPROBLEM;
  constexpr std::array theirs{CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_OUT_OF_MEMORY};
  return std::ranges::find(theirs, result) != theirs.end() ? result : CURLE_OK;
}

}  // namespace canigo::http::detail
