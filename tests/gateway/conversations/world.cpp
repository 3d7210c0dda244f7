#include "world.hpp"

#include "body_text.hpp"

#include <openssl/sha.h>

#include <vector>

namespace conversations {
namespace {

std::string digest_of(const std::string& key) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), bytes.data());
  std::string text;
  for (const unsigned char b : bytes) text += text_of(std::uint64_t{b}).substr(14);
  return text;
}

std::string in_quotes(const std::string& s) { return "\"" + s + "\""; }
std::string at(std::uint16_t port) { return in_quotes("127.0.0.1:" + std::to_string(port)); }

}  // namespace

std::string key_of(std::size_t tenant) { return "the-key-of-tenant-" + std::to_string(tenant); }

std::string text_of(const configuration& c, const places& p, const std::filesystem::path& folder, bool with_tls) {
  std::string text = "threads = 2\naccess_log = \"off\"\ngrace = \"2s\"\n";
  text += "limits.connections = { all = 20000, per_address = 20000 }\n";
  text += "limits.time = { header = \"5s\", body_idle = \"1s\", write_stall = \"2s\", keep_alive = \"60s\" }\n";
  text += "limits.size.body = \"" + std::to_string(most_body) + "B\"\n";
  text += "limits.size.buffered = " + in_quotes(c.buffered) + "\n";
  text += "limits.size.read_ahead = " + in_quotes(c.read_ahead) + "\n";
  text += "admin = { listen = " + at(p.admin) + ", token = \"env:CANIGO_ADMIN_TOKEN\" }\n";
  text += "[[listen]]\naddress = " + at(p.plain) + "\n";
  text += "[[listen]]\naddress = " + at(p.forward) + "\nmode = \"forward\"\n";
  if (with_tls) {
    text += "[[listen]]\naddress = " + at(p.secure) + "\n";
    text += "tls = { cert = " + in_quotes(folder / "cert.pem") + ", key = " + in_quotes(folder / "key.pem") + " }\n";
  }
  const std::string times =
      "max_wait = { interactive = \"400ms\", normal = \"300ms\", batch = \"200ms\" }\n"
      "timeout = { connect = \"1s\", first_byte = \"500ms\", idle = \"300ms\", total = \"3s\" }\n";
  text += "[forward]\nprivate = true\n" + times + "tunnels = " + std::to_string(c.tunnels) + "\n";
  text += "allow = [" + at(p.upstream[0]) + ", " + at(p.dead) + "]\n";
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    const upstream_kind& u = upstreams[i];
    if (i == narrow_upstream && !c.has_all) continue;
    const std::string scheme = u.is_tls && with_tls ? "https://" : "http://";
    text += "[[upstream]]\nname = " + in_quotes(u.name) + "\nprefix = " + in_quotes(std::string{"/"} + u.name) + "\n";
    text += "url = " + in_quotes(scheme + "127.0.0.1:" + std::to_string(p.upstream[i])) + "\n" + times + u.rest;
    text +=
        "retry = { attempts = " + std::to_string(u.attempts) + ", body = \"" + std::to_string(u.kept_body) + "B\" }\n";
    if (u.replaces_credential)
      text += "credential = { header = \"Authorization\", value = \"env:CANIGO_TEST_CREDENTIAL\" }\n";
    // The others fail as often as they are told to, and are to be asked all the same.
    if (std::string{u.rest}.find("breaker") == std::string::npos)
      text += "breaker = { failures = \"100%\", of = 1000, within = \"1s\" }\n";
  }
  for (std::size_t i = 0; i < tenants; ++i) {
    if (i + 1 == tenants && !c.has_all) continue;
    text += "[[tenant]]\nname = \"tenant" + std::to_string(i) + "\"\nkeys = [\"sha256:" + digest_of(key_of(i)) +
            "\"]\nbest = \"interactive\"\nweight = " + std::to_string(i + 1) + "\n";
  }
  return text;
}

}  // namespace conversations
