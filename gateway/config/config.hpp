#pragma once

#include "canigo/hedge_options.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "gateway/config/budget.hpp"
#include "gateway/config/call_pattern.hpp"
#include "gateway/config/price_list.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The configuration of canigo-gateway as plain values. Values that the file may leave out have defaults here.
///
/// The reader of the file has checked the values: names are unique, and each index or name refers to something that
/// exists.
namespace canigo::gateway {

/// A credential. Admin pages, logs and messages may show `source`, but never `value`.
struct secret {
  std::string source;  ///< "env:NAME" or "file:/path"; empty: there is no secret
  std::string value;   ///< the secret itself, as read from `source`, without line ends at its end
};

/// The address of a listener: an IP address and a port, or the path of a unix socket.
struct listen_address {
  std::string host;        ///< an IPv4 or IPv6 address without brackets; empty for a unix socket
  std::uint16_t port = 0;  ///< 0: the kernel chooses a free port
  std::string path;        ///< the path of a unix socket; empty for an IP address
  bool is_loopback = false;

  bool is_unix() const noexcept { return !path.empty(); }
  /// Whether only programs on this machine can reach the listener.
  bool is_local() const noexcept { return is_unix() || is_loopback; }
};

/// The paths of a listener's PEM files.
struct tls_files {
  std::string cert;
  std::string key;
  std::string client_ca;  ///< the CAs that may sign clients' certificates; empty: clients need no certificate
};

/// The paths of PEM files for TLS connections to Redis (a rediss:// URL). An empty path: the file is not used.
struct redis_tls_files {
  std::string ca;    ///< the CA certificates that are trusted instead of the system's
  std::string cert;  ///< the client certificate that the gateway presents to Redis
  std::string key;   ///< the file of the private key for `cert`; empty: the key is in the file `cert`
};

enum class listen_mode : std::uint8_t { reverse, forward, both };

struct listener {
  listen_address address;
  std::optional<tls_files> tls;
  bool reuse_port = false;
  std::string systemd;  ///< the name of a socket that systemd passes; empty: the gateway opens a socket
  listen_mode mode = listen_mode::reverse;
  std::string anonymous;  ///< the tenant of clients without credentials; empty: such clients are refused
};

struct admin_options {
  listen_address listen;
  secret token;
  std::vector<std::string> hosts = {"localhost",
                                    "127.0.0.1"};  ///< the accepted values of the field Host, without the port
};

struct size_limits {
  std::uint64_t header = 16 << 10;      ///< the max number of bytes in a request's head
  std::size_t fields = 100;             ///< the max number of fields in a request's head
  std::uint64_t target = 8 << 10;       ///< the max number of bytes in a request's target
  std::uint64_t body = 64 << 20;        ///< the max number of bytes in a request's body
  std::uint64_t read_ahead = 16 << 20;  ///< the max bytes of a body to read before the call joins the queue
  std::uint64_t buffered = 256 << 20;   ///< the max number of bytes in memory of all requests' bodies together
};

struct time_limits {
  duration header = std::chrono::seconds{10};     ///< how long a client may take to send a request's head
  duration body_idle = std::chrono::seconds{30};  ///< the longest pause between two bytes of a request's body
  /// if a client accepts no byte of a response for this time, its connection is closed
  duration write_stall = std::chrono::seconds{60};
  duration keep_alive = std::chrono::seconds{75};  ///< how long a client's connection may be idle between two requests
};

struct connection_limits {
  std::size_t all = 20'000;
  std::size_t per_address = 2'000;
};

/// The scheme, host, port and path of an upstream's URL.
struct origin {
  bool is_tls = false;
  std::string host;         ///< lower case; an IPv6 address without brackets
  std::uint16_t port = 0;   ///< the port of the URL; if the URL has none, the default port of its scheme
  std::string path;         ///< put before each request's path; empty, or begins with '/' and does not end with '/'
  bool is_address = false;  ///< whether the host is an IP address instead of a name
  /// The value of the header field Host for this origin. An IPv6 address is in brackets. The port is left out if it is
  /// the scheme's default.
  std::string host_field;
};

/// The header field with the gateway's credential for an upstream. The gateway sends this field instead of the client's
/// own credential.
struct credential {
  std::string header;  ///< the name of the header field; empty: the client's own credential is forwarded
  secret value;

  bool is_passed() const noexcept { return header.empty(); }
};

/// How limits with shared rates decide while Redis does not answer.
struct redis_failure {
  enum class kind : std::uint8_t { closed, open, local };

  kind what = kind::closed;
  double share = 1;  ///< used only with kind::local: this instance's share of each rate; more than 0, at most 1
};

enum class token_api : std::uint8_t { none, openai, anthropic, gemini, cohere, bedrock, bytes };

/// The max number of parts in a dotted name such as "usage.input_tokens".
inline constexpr std::size_t most_usage_parts = 3;

/// Where a response reports its usage: names of JSON members from the top of the document, joined by '.'. All names of
/// one list mean the same number; if the response has several of them, the last one counts.
struct usage_names {
  std::vector<std::string> input;
  std::vector<std::string> more_input;  ///< numbers to add to the number that `input` names
  std::vector<std::string> output;
  std::vector<std::string> more_output;        ///< numbers to add to the number that `output` names
  std::vector<std::string> total;              ///< the number of all tokens; used only if no other number is found
  std::vector<std::string> cached_input;       ///< the number of `input` tokens that were read from a cache
  std::vector<std::string> more_cached_input;  ///< cached tokens that are not part of any other number; only for prices

  friend bool operator==(const usage_names&, const usage_names&) = default;
};

struct token_options {
  /// The form of requests and responses from which tokens are estimated and read. `bytes`: the estimate is a quarter of
  /// the body's length, and no usage is read.
  token_api api = token_api::none;
  std::uint64_t default_output = 512;
  bool learn = true;
  bool add_usage = false;               ///< whether to add stream_options.include_usage to a streaming request
  std::uint64_t output_weight = 1;      ///< one output token counts as this number of tokens of the unit "tokens"
  std::vector<call_pattern> free;       ///< the calls that use no tokens
  std::vector<call_pattern> no_output;  ///< the calls that use no output tokens, such as those for embeddings
  usage_names usage;

  bool reads_usage() const noexcept { return api != token_api::none && api != token_api::bytes; }

  friend bool operator==(const token_options&, const token_options&) = default;
};

/// The time of day at which an upstream's daily quotas are full again.
enum class quota_reset : std::uint8_t { unknown, utc, pacific };
inline constexpr std::array<std::string_view, 3> quota_reset_names{"unknown", "00:00 UTC", "00:00 PT"};
constexpr std::string_view name_of(quota_reset r) noexcept { return quota_reset_names[static_cast<std::size_t>(r)]; }

struct upstream_timeouts {
  duration connect = std::chrono::seconds{5};
  duration first_byte = std::chrono::seconds{120};
  duration idle = std::chrono::seconds{120};
  duration total = std::chrono::minutes{15};

  friend bool operator==(const upstream_timeouts&, const upstream_timeouts&) = default;
};

struct retry_options {
  int attempts = 3;              ///< the max number of attempts, including the first one
  std::uint32_t budget = 20;     ///< the max number of retries, in percent of the number of first attempts
  std::uint64_t body = 1 << 20;  ///< the max size in bytes of a body that is kept for another attempt

  friend bool operator==(const retry_options&, const retry_options&) = default;
};

struct breaker_options {
  int failures = 50;                           ///< the percentage of failed calls at which the breaker opens
  std::uint64_t of = 20;                       ///< the breaker opens only if the window has at least this many calls
  duration within = std::chrono::seconds{30};  ///< the length of the window in which calls are counted
  duration open = std::chrono::seconds{5};     ///< how long the breaker stays open the first time
  duration most = std::chrono::seconds{60};    ///< the upper bound of the time `open`, which each failed probe doubles

  friend bool operator==(const breaker_options&, const breaker_options&) = default;
};

/// A replacement of a path in calls to one target. If the client's path, without the route's prefix, equals `from`, the
/// target gets `to`.
struct path_change {
  std::string from;  ///< the client's path, without a query
  std::string to;    ///< the new path and query; "{model}" in this text is replaced by the model that the call names
};

/// One of several keys, servers or regions that can serve the calls of an upstream.
struct target {
  std::string name;
  origin url;
  gateway::credential credential;
  std::string provider = "generic";  ///< the preset that describes the refusals in this target's responses
  std::vector<rate_limit> rates;     ///< the unit of each element is one of rate_units
  std::uint64_t concurrency = 64;
  int prefer = 1;                    ///< of the targets with capacity, a call goes to one with the lowest `prefer`
  std::vector<std::string> models;   ///< names of models, which may end in '*'; empty: the target serves all models
  std::vector<path_change> paths;    ///< no two entries have the same `from`
  std::optional<bool> refusal_body;  ///< if set, replaces upstream::refusal_body for this target
  quota_reset quota_resets = quota_reset::unknown;
  bool private_addresses = false;
  std::optional<budget_options> budget;  ///< if this budget lacks money, a call goes to another target without a wait
  std::string full_name;                 ///< "<upstream>/<target>", such as "chat/team-key"; also the budget's name
};

/// The max number of models of an upstream that have limits of their own.
inline constexpr std::size_t most_model_limits = 256;

/// Limits for some models. A call for such a model is also subject to the limits of the upstream.
struct model_limit {
  std::string match;              ///< a model's name, which may end in '*'
  bool is_together = false;       ///< true: all models that match share these limits; false: each has limits of its own
  std::vector<rate_limit> rates;  ///< the unit of each element is one of rate_units
  std::uint64_t concurrency = unlimited;  ///< the max number of concurrent calls under these limits

  /// Whether `match` stands for several models, each of which has limits of its own.
  bool is_for_each() const noexcept { return !is_together && match.ends_with('*'); }
};

/// A set of targets of an upstream: bit i stands for the target with index i.
using target_set = std::uint64_t;
inline constexpr std::size_t most_targets = 64;
inline constexpr target_set all_targets = ~target_set{0};

/// Sends calls with the same key to the same target while that target has capacity. The key is a header, a cookie or
/// the beginning of the prompt.
struct sticky_options {
  enum class kind : std::uint8_t { none, header, cookie, prompt_prefix };

  kind by = kind::none;
  std::string name;  ///< the name of the header or the cookie

  friend bool operator==(const sticky_options&, const sticky_options&) = default;
};

struct websocket_options {
  std::optional<rate> messages;  ///< the max rate of messages from all clients together; none: unlimited
  /// a websocket is closed after this time without a byte in either direction
  duration idle = std::chrono::minutes{10};
};

/// When the gateway sends comments to a client that waits for an event stream.
struct keep_alive_options {
  duration after = std::chrono::seconds{15};  ///< how long a call waits before the gateway sends the first comment
  duration every = std::chrono::seconds{10};  ///< the time between two comments
};

struct upstream {
  std::string name;
  origin url;
  std::string prefix;  ///< begins with '/'; does not end with '/', unless the prefix is "/"
  gateway::credential credential;
  std::string provider = "generic";           ///< the preset with the default values of keys that are not in the file
  rate_window window = rate_window::average;  ///< the kind of window of each rate for which the file names no kind
  std::vector<rate_limit> rates;              ///< the unit of each element is one of rate_units
  std::uint64_t concurrency = 64;
  std::size_t queue = 5'000;
  overflow on_overflow = overflow::evict_least_important;
  std::vector<duration> max_wait;  ///< how long a call of each priority class may wait; the index is that of the class
  bool shared = false;
  redis_failure on_redis_failure;
  token_options tokens;
  std::optional<bool> refusal_body;  ///< whether to read limits from the body of a 429; unset: tokens.reads_usage()
  /// When daily quotas are full again. With `unknown`, the gateway does not refuse calls when a daily quota is used up.
  quota_reset quota_resets = quota_reset::unknown;
  upstream_timeouts timeout;
  retry_options retry;
  breaker_options breaker;
  /// If a GET has no response after this delay, a second attempt starts, and the first one continues. The delay is a
  /// time, or a quantile of the measured times to the first byte. None: there is no second attempt.
  std::optional<hedge_delay> hedge_after;
  /// Comments for clients that wait for an event stream. None: the gateway sends no comments.
  std::optional<keep_alive_options> keep_alive;
  bool forwarded = false;          ///< whether the gateway adds Forwarded and X-Forwarded-* to a request
  bool private_addresses = false;  ///< whether the host name may resolve to an address outside the public Internet
  /// The targets that serve the upstream's calls; empty: the upstream's own URL serves them. Each call takes from the
  /// upstream's own limits and from the limits of one target. If there are targets, `url` and `credential` are those of
  /// the first target.
  std::vector<target> targets;
  std::vector<model_limit> models;  ///< a call is subject to the first element that matches its model, and to no other
  sticky_options sticky;
  std::optional<websocket_options> websocket;  ///< none: websocket handshakes are refused
  std::optional<budget_options> budget;
  bool is_priced = false;  ///< whether calls to this upstream have prices

  /// Whether the gateway must read from each call which model it names. True if targets serve different models or have
  /// "{model}" in a path, or if models have limits or prices.
  bool reads_model() const noexcept;
  bool reads_refusals() const noexcept { return refusal_body.value_or(tokens.reads_usage()); }
};

inline bool upstream::reads_model() const noexcept {
  return is_priced || !models.empty() || std::ranges::any_of(targets, [](const target& t) {
           return !t.models.empty() ||
                  std::ranges::any_of(t.paths, [](const path_change& p) { return p.to.find("{model}") != p.to.npos; });
         });
}

/// A host and port that clients may reach in forward mode.
struct allowed_host {
  std::string text;  ///< the text shown in logs and metrics, such as "*.example.com:443"
  std::string host;  ///< in lower case, without a dot at its end
  /// True for "*.example.com", which matches each name that ends in ".example.com", but not example.com itself.
  bool with_subdomains = false;
  std::uint16_t port = 0;
};

struct forward_options {
  std::vector<allowed_host> allow;
  upstream each;               ///< the settings of each host, except `name` and `url`, which each host has for itself
  std::size_t hosts = 10'000;  ///< the max number of hosts that have limits at the same time
  std::size_t tunnels = 200;   ///< the max number of open tunnels to all hosts together
};

/// The limits of one tenant at one upstream.
struct tenant_limit {
  std::vector<rate_limit> rates;
  std::uint64_t concurrency = unlimited;
};

using key_digest = std::array<std::uint8_t, 32>;

struct tenant {
  std::string name;
  std::vector<key_digest> keys;      ///< the SHA-256 of each key of the tenant
  std::string subject;               ///< the subject, or an alternative name, of the tenant's client certificate
  std::optional<std::uint32_t> uid;  ///< the user id of the tenant's processes, which connect through a unix socket
  int default_class = 0;             ///< the index of the tenant's default class in config::classes
  int best_class = 0;  ///< the index of the most important class that the tenant may use; at most default_class
  std::uint32_t weight = 1;
  duration max_wait = duration::max();         ///< the longest wait of the tenant's calls at any upstream
  std::map<std::string, tenant_limit> limits;  ///< the tenant's own limits, by the upstream's name
  std::optional<budget_options> budget;        ///< the tenant's budget for calls to upstreams whose calls have prices
};

struct access_log_options {
  enum class kind : std::uint8_t { standard_output, file, off };

  kind to = kind::standard_output;
  std::string path;
};

struct config {
  int threads = 0;  ///< 0: one thread per core, but at most 4
  secret redis;     ///< the URL of Redis; if redis.source is empty, Redis is not used
  redis_tls_files redis_tls;
  std::string prices_source;  ///< the file with the prices, as "file:/path"; empty: there are no prices
  price_list prices;          ///< the prices of calls to upstreams that count tokens
  /// Whether a call for a model without a price is refused. Used only if a budget may refuse the call, or if the
  /// upstream has a rate in USD.
  bool refuses_unpriced = true;
  /// Where the sums of budgets are kept: the path of a file, or state_in_redis, where all instances share their sums.
  /// Empty: the sums are lost at the end of the process.
  std::string state;
  static constexpr std::string_view state_in_redis = "redis";
  bool shares_budgets() const noexcept { return state == state_in_redis; }
  std::vector<std::string> classes = {"interactive", "normal", "batch"};  ///< the first one is the most important
  /// A waiting request moves up one priority class each time it has waited for this time; max(): never.
  duration ageing = std::chrono::seconds{60};
  duration grace = std::chrono::seconds{25};  ///< how long the process waits for running requests before it ends
  access_log_options access_log;
  std::optional<admin_options> admin;
  size_limits size;
  time_limits time;
  connection_limits connections;
  std::optional<forward_options> forward;
  std::vector<listener> listeners;
  std::vector<upstream> upstreams;
  std::vector<tenant> tenants;  ///< includes a tenant without a table in the file if a listener's `anonymous` names it
};

}  // namespace canigo::gateway
