#pragma once

#include "loop.hpp"
#include "message_reader.hpp"
#include "plan.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace conversations {

/// What the model knows about a request.
struct request_state {
  const request_plan* plan = nullptr;
  bool has_begun = false;  // whether its client has sent a byte of it
  clock::time_point begun_at;
  std::size_t arrivals = 0;    // how often it has arrived at upstreams
  bool may_come_again = true;  // whether the end of its last attempt allows another attempt
  // whether it may have been sent before the bytes that an upstream sent without a request
  bool may_get_surplus = false;
  std::string answer = "no answer";
  std::string number;  // the X-Request-Id of its answer
};

/// A conversation, from its beginning until none of its bytes can be in transit any more.
struct conversation_state {
  explicit conversation_state(conversation_plan p);

  conversation_plan plan;
  std::vector<request_state> requests;

  request_state* find(std::uint64_t id) noexcept;
};

/// Knows which requests the clients have sent, and checks what arrives at upstreams and clients.
class model {
 public:
  model(std::uint64_t seed, bool with_tls) : seed_{seed}, with_tls_{with_tls} {}

  std::shared_ptr<conversation_state> begin(std::uint64_t index);
  /// Call it when the client has ended its part. The conversation is kept for a while.
  void end(const std::shared_ptr<conversation_state>& c);
  /// Call it when all conversations are over.
  void end() { judge_surplus(true); }
  std::size_t under_way() const noexcept { return under_way_; }

  /// Call it when the head of a request has arrived at an upstream. Returns null if no client has sent it, or if it was
  /// changed in a wrong way.
  std::shared_ptr<conversation_state> arrived(std::size_t upstream, const message_head& head, message_reader::framing f,
                                              request_state*& whose);
  /// Call it when a client has received the head of the answer to this request.
  void answered(request_state& r, const message_head& head);

  /// Counts a failure. `conversation`: the conversation that it concerns.
  void fail(const std::string& kind, std::uint64_t conversation, const std::string& what);
  bool has_failed() const noexcept { return !failures_.empty(); }
  /// Prints the kinds of failures, with the first few of each.
  void print_failures(const std::string& again) const;
  std::vector<std::string> kinds() const;

  void count(const std::string& what) { ++counts_[what]; }
  std::uint64_t counted(const std::string& what) const;
  void print_counts() const;

  std::uint64_t seed() const noexcept { return seed_; }

  /// Whether the current or a recent configuration may lack a tenant or an upstream, or may be draining.
  bool is_changing = false;
  bool is_draining = false;
  /// The X-Request-Ids of requests that the operator has ended, or has tried to end.
  std::unordered_set<std::string> called_off;

 private:
  struct failure {
    std::uint64_t times = 0;
    std::vector<std::string> first;
  };
  struct seen_surplus {
    clock::time_point at;
    std::uint64_t id;
    std::string what;
  };
  std::shared_ptr<conversation_state> recall(std::uint64_t index);
  void judge_surplus(bool at_once);
  void judge_stolen(std::uint64_t id, const message_head& head);
  void judge_own(const request_state& r, int status, const std::string& error);

  std::uint64_t seed_;
  bool with_tls_;
  std::size_t under_way_ = 0;
  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<conversation_state>> known_;
  std::deque<std::pair<clock::time_point, std::uint64_t>> over_;
  // bytes without a request, kept until the upstream has reported what it knows about the request
  std::deque<seen_surplus> surplus_;
  std::map<std::string, failure> failures_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace conversations
