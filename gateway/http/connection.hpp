#pragma once

#include "canigo/net.hpp"

#include "gateway/config/config.hpp"
#include "gateway/http/answer.hpp"
#include "gateway/http/byte_stream.hpp"
#include "gateway/http/call_record.hpp"
#include "gateway/http/departure_watch.hpp"
#include "gateway/http/message_parser.hpp"
#include "gateway/http/read_buffer.hpp"
#include "gateway/http/request_view.hpp"
#include "gateway/http/service.hpp"
#include "gateway/policy/head_rules.hpp"
#include "gateway/policy/repeat_rules.hpp"
#include "gateway/policy/wishes.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace canigo::gateway {

enum class attempt_end : std::uint8_t;
struct exchange;

/// What a connection is for.
struct entrance {
  std::optional<std::size_t> listener;  ///< an index into config::listeners; none: the admin's
  connection_counts& count;             ///< where it is counted
};

/// A client's connection: its requests, one after the other. It is used on its loop only.
class connection {
 public:
  connection(service& s, loop& l, const entrance& e, stream_socket socket, std::string address);
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  net::awaitable<void> run();

  /// There is another configuration. Who waits goes on waiting, unless it no longer has his upstream or his tenant.
  /// `until_moved` is held for as long as somebody waits here by what he had of the earlier one.
  void follow(const generation& next, const std::shared_ptr<void>& until_moved) noexcept;
  /// The number of the last request that has waited here; it grows with each.
  time_point since() const noexcept { return record_ == nullptr ? time_point::max() : record_->since; }
  /// The process ends: the request that is on, or that has come, is the last one. A client that has connected and asked
  /// for nothing yet may still do so; the others go.
  void drain() noexcept;
  /// Ends a connection on which nothing is on.
  void end_idle() noexcept;
  /// Whether it has come to the admin's listener, and there is no whole request that is being answered.
  bool is_idle_admin() const noexcept {
    return !entrance_.listener && !has_left_ && (phase_ == phase::idle || phase_ == phase::head);
  }
  /// Ends the wait of the request, if its estimate, which these are by tag, is longer than `most`, or reaches past the
  /// longest wait that is allowed.
  void give_up(const std::unordered_map<std::uint64_t, duration>& estimates, duration most) noexcept;
  /// The time of the drain is over: who waits is told so, and the request that an upstream has is cut.
  void finish() noexcept;
  /// Ends the request that is on.
  void cut() noexcept;

  // Of the request that is on its loop's list; see request_list.
  request_view look() const;
  const call_record* record() const noexcept { return record_; }
  bool waits() const noexcept { return phase_ == phase::waiting; }
  /// Whether it waits outside of the line of its upstream.
  bool waits_outside() const noexcept { return !waits_for_.empty(); }
  /// An operator ends it: its client is told so, or is cut off if it already has the beginning of the response.
  void end_by_operator() noexcept { end_by(ender::operator_); }

 private:
  enum class phase : std::uint8_t { idle, head, waiting, running, closing };
  enum class ender : std::uint8_t { nobody, operator_, drain };

  bool is_last() const noexcept;
  bool goes_on_after(const message_parser& request) const noexcept;
  bool has_come();
  void end_by(ender who) noexcept;
  refusal why_ended() const;
  net::awaitable<bool> secure();
  net::awaitable<bool> read_head(message_parser& parser);
  class call;
  /// The place of a request on the loop's list, from its construction to its destruction.
  class listed {
   public:
    listed(connection& c, call_record& r);
    ~listed();
    listed(const listed&) = delete;
    listed& operator=(const listed&) = delete;

   private:
    connection& home_;
  };
  /// While a request is on its way a client that leaves ends it, from this object's construction to its destruction.
  class watched {
   public:
    explicit watched(connection& c);
    ~watched() { home_.departure_->tell_nobody(); }
    watched(const watched&) = delete;
    watched& operator=(const watched&) = delete;

   private:
    connection& home_;
  };
  /// Whose a request is, where it goes, and how it is treated.
  struct errand {
    std::size_t tenant = 0;
    std::shared_ptr<upstream_queue> queue;
    std::string target;      ///< as it goes out
    std::string host_field;  ///< the same
    bool is_tls = false;
    wishes granted;
  };
  /// A request that waits, or may wait again.
  struct caller {
    const upstream_queue& queue;
    std::string_view tenant;
    bool is_for_tunnel;
    std::shared_ptr<const flow> share;       // that it asks for
    std::shared_ptr<const flow> next_share;  // that it has to ask for from now on
    std::unique_ptr<refusal> dismissed;      // a reload has taken away what it asks for
  };
  /// A wait of the request, from its construction to its destruction.
  class wait_here {
   public:
    explicit wait_here(connection& c) noexcept : home_{c} { c.phase_ = phase::waiting; }
    ~wait_here() {
      home_.phase_ = phase::running;
      home_.sleeps_until_ = time_point::min();
      home_.until_moved_.reset();
    }
    wait_here(const wait_here&) = delete;
    wait_here& operator=(const wait_here&) = delete;

   private:
    connection& home_;
  };
  /// The same outside of the line. `what_for`: a literal.
  class wait_outside {
   public:
    wait_outside(connection& c, upstream_queue& q, int priority, std::string_view what_for) noexcept
        : waiting_{c}, home_{c}, all_{q.limits().outside()}, priority_{priority}, has_place_{what_for == "shared"} {
      home_.waits_for_ = what_for;
      all_.enter(priority_, has_place_);
    }
    ~wait_outside() {
      all_.leave(priority_, has_place_);
      home_.waits_for_ = {};
    }
    wait_outside(const wait_outside&) = delete;
    wait_outside& operator=(const wait_outside&) = delete;

   private:
    const wait_here waiting_;
    connection& home_;
    outside_waits& all_;
    const int priority_;
    const bool has_place_;
  };
  std::optional<refusal> find_errand(const generation& g, const message_head& head, const request_plan& plan,
                                     call_record& r, errand& e) const;
  std::optional<refusal> find_tenant(const generation& g, const message_head& head, bool replaces_authorization,
                                     bool is_proxy, call_record& r, errand& e) const;
  std::optional<refusal> find_upstream(const generation& g, const message_head& head, const request_plan& plan,
                                       call_record& r, errand& e) const;
  std::optional<refusal> find_host(const generation& g, const message_head& head, const request_plan& plan,
                                   call_record& r, errand& e) const;
  bool is_called_off() const noexcept;
  std::optional<refusal> why_called_off() const;
  bool asks_again(const error_code& error) const noexcept;
  bool asks_for_less(request& ask) const;
  net::awaitable<redis::permit> get_shared(upstream_queue& q, const request& ask, call_record& r, error_code& error);
  net::awaitable<upstream_place> enter(upstream_queue& q, const request& ask, call_record& r, permit local,
                                       error_code& error);
  net::awaitable<bool> get_place(upstream_queue& q, request& ask, call_record& r, upstream_place& granted,
                                 std::optional<refusal>& why);
  net::awaitable<bool> get_tunnel(forwarded_hosts& hosts, upstream_queue& q, request& ask, call_record& r,
                                  upstream_place& granted, permit& tunnel, std::optional<refusal>& why);
  net::awaitable<void> wait_for_means(time_point last_try);
  net::awaitable<attempt_end> attempt_at(upstream_queue& q, std::size_t tenant, exchange& x, upstream_place& held);
  net::awaitable<attempt_end> attempt_hedged(upstream_queue& q, std::size_t tenant, exchange& x, upstream_place& held,
                                             request& ask, call_record& r, const std::function<void()>& lost);
  net::awaitable<upstream_place> spare_place(upstream_queue& q, const request& ask);
  void learn(upstream_queue& q, std::size_t tenant, upstream_place& held, const message_head& h);
  void report(upstream_queue& q, upstream_place& held, const attempt_result& result);
  net::awaitable<void> sleep_before_repeat(upstream_queue& q, int priority, duration d);
  net::awaitable<void> answer(const refusal& why, call_record& r, const message_parser* parser);
  void take_next_share(request& ask) noexcept;
  void look_at_what_binds(upstream_queue& q);
  std::string what_binds(upstream_queue& q) const;
  net::awaitable<void> serve_admin(const message_head& head);
  net::awaitable<void> write(std::string_view text);
  void client_left();
  call_record begin_record(const message_head& head);
  void end_record(call_record& r);

  service& service_;
  loop& loop_;
  const entrance entrance_;
  byte_stream client_;
  std::optional<departure_watch::entry> departure_;  // from the first request that goes upstream on
  const std::string address_;
  bool is_secured_ = false;  // by TLS
  std::vector<std::string> certificate_names_;
  std::optional<std::uint32_t> peer_uid_;
  read_buffer input_;
  bool goes_on_ = true;      // nothing has forbidden another request; see goes_on_after()
  bool has_served_ = false;  // a request
  bool lingers_ = false;     // the client may still be sending
  phase phase_ = phase::idle;
  bool has_left_ = false;
  ender ended_by_ = ender::nobody;  // of those who are not the client
  std::uint64_t tag_ = 0;
  call_record* record_ = nullptr;  // of the request that is on the loop's list
  time_point deadline_{};
  std::string_view waits_for_;                   // in a wait outside of the line
  time_point sleeps_until_ = time_point::min();  // the same, if its end is known
  net::cancellation_signal wait_;
  std::shared_ptr<void> until_moved_;  // the wait that is on is about to end
  exchange* exchange_ = nullptr;
  caller* caller_ = nullptr;
};

}  // namespace canigo::gateway
