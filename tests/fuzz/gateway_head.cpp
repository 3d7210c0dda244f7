// Heads of requests to the gateway: what it accepts has one meaning, and what it sends in its place is a head of one
// request, with our framing and nothing that is not for the upstream.

#include "gateway/policy/fields.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/head_writer.hpp"
#include "gateway/wire/text.hpp"
#include "target.hpp"

#include <string>
#include <string_view>

namespace gateway = canigo::gateway;

namespace {

/// A head from lines, without any judgement: what no parser would let through, too.
gateway::message_head head_of(std::string_view text) {
  gateway::message_head head;
  const auto next = [&text](std::string_view end) {
    const auto at = text.find(end);
    const std::string_view part = text.substr(0, at);
    text.remove_prefix(at == text.npos ? text.size() : at + end.size());
    return std::string{part};
  };
  head.method = next(" ");
  head.target = next(" ");
  head.version = next("\n") == "0" ? 10 : 11;
  while (!text.empty()) {
    const std::string line = next("\n");
    const auto colon = line.find(':');
    head.fields.push_back({line.substr(0, colon), colon == line.npos ? "" : line.substr(colon + 1)});
  }
  return head;
}

/// The head that was sent, read strictly.
gateway::message_head sent_of(std::string_view text) {
  gateway::message_head head;
  fuzz::require(text.ends_with("\r\n\r\n"), "a head ends with an empty line");
  fuzz::require(text.find("\r\n\r\n") == text.size() - 4, "there is one empty line");
  text.remove_suffix(2);
  bool is_first = true;
  while (!text.empty()) {
    const auto end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    fuzz::require(line.find_first_of("\r\n") == line.npos, "a line break is CR and LF");
    if (is_first) {
      fuzz::require(line.ends_with(" HTTP/1.1"), "the request line ends with the version");
      head.method = line.substr(0, line.find(' '));
      head.target = line.substr(head.method.size() + 1, line.rfind(' ') - head.method.size() - 1);
      is_first = false;
      continue;
    }
    const auto colon = line.find(": ");
    fuzz::require(colon != line.npos && gateway::is_token(line.substr(0, colon)), "a field has a name and a value");
    head.fields.push_back({std::string{line.substr(0, colon)}, std::string{line.substr(colon + 2)}});
  }
  return head;
}

void send(const gateway::message_head& head, const gateway::request_plan& plan) {
  using framing = gateway::outgoing_body::framing;
  const gateway::credential own{"Authorization", {"", "Bearer upstream"}};
  const std::string target = plan.path.starts_with('/') ? std::string{plan.path} : "/" + std::string{plan.path};
  gateway::outgoing_request out;
  out.target = target;
  out.host_field = "api.example.com";
  out.credential = &own;
  out.via = "1.1 canigo-1";
  out.body = {plan.is_chunked ? framing::chunked : plan.has_length ? framing::length : framing::none, plan.length};
  const gateway::message_head sent = sent_of(gateway::request_head(head, out));
  fuzz::require(sent.method == head.method && sent.target == target, "method and target go out as they are");
  fuzz::require(gateway::value_of(sent, "Authorization") == "Bearer upstream", "the credential is ours");
  fuzz::require(gateway::count_of(sent, "Authorization") == 1, "there is one credential");
  for (const gateway::field& f : sent.fields) {
    const bool is_framing = gateway::same_text(f.name, "Transfer-Encoding");
    fuzz::require(is_framing || !gateway::is_of_connection(f.name), "nothing of the client's connection goes out");
    fuzz::require(!gateway::starts_with_text(f.name, "X-Canigo-"), "no field of ours goes out");
    fuzz::require(!gateway::starts_with_text(f.name, "X-Forwarded-"), "nobody else says who the client is");
  }
  gateway::size_limits wide;
  wide.fields = sent.fields.size();
  wide.target = sent.target.size();
  const auto again = gateway::judge_head(sent, gateway::listen_mode::reverse, wide);
  fuzz::require(!again.refused, "what goes out would be accepted again");
  fuzz::require(again.plan.is_chunked == plan.is_chunked && again.plan.has_length == plan.has_length &&
                    again.plan.length == plan.length && again.plan.path == target,
                "and has the same meaning");
  fuzz::require(gateway::judge_loop(sent, out.via).has_value(), "its way back is seen");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in{data, size};
  const auto mode = static_cast<gateway::listen_mode>(in.byte() % 3);
  const gateway::message_head head = head_of(in.text());
  const auto j = gateway::judge_head(head, mode, {});
  if (j.refused) {
    fuzz::require(j.refused->status >= 400 && !j.refused->detail.empty(), "a refusal has a status and says why");
    return 0;
  }
  fuzz::require(head.fields.size() <= gateway::size_limits{}.fields, "the fields are bounded");
  fuzz::require((j.plan.form == gateway::target_form::origin) == j.plan.host.text.empty(), "only a URL names a host");
  fuzz::require(j.plan.form == gateway::target_form::origin ? mode != gateway::listen_mode::forward
                                                            : mode != gateway::listen_mode::reverse,
                "the target is of the mode");
  fuzz::require(!(j.plan.is_chunked && j.plan.has_length), "a body has one end");
  if (j.plan.form != gateway::target_form::tunnel) send(head, j.plan);
  return 0;
}
