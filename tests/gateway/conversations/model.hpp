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

/// What is known of a request.
struct request_state {
  const request_plan* plan = nullptr;
  bool has_begun = false;  // its client has sent a byte of it
  clock::time_point begun_at;
  std::size_t arrivals = 0;      // at upstreams
  bool may_come_again = true;    // by what became of its last attempt
  bool may_get_surplus = false;  // it may have gone out before the bytes that an upstream sent unasked
  std::string answer = "no answer";
  std::string number;  // X-Request-Id of the answer
};

/// A conversation, from its beginning until nothing of it can be on its way any more.
struct conversation_state {
  explicit conversation_state(conversation_plan p);

  conversation_plan plan;
  std::vector<request_state> requests;

  request_state* find(std::uint64_t id) noexcept;
};

/// Knows which requests the clients have sent, and judges what reaches upstreams and clients.
class model {
 public:
  model(std::uint64_t seed, bool with_tls) : seed_{seed}, with_tls_{with_tls} {}

  std::shared_ptr<conversation_state> begin(std::uint64_t index);
  /// Its client has done with it. It is remembered for a while.
  void end(const std::shared_ptr<conversation_state>& c);
  /// All conversations are over.
  void end() { judge_surplus(true); }
  std::size_t under_way() const noexcept { return under_way_; }

  /// A request's head has come to an upstream. Null: nobody has sent it, or it is not as it was sent.
  std::shared_ptr<conversation_state> arrived(std::size_t upstream, const message_head& head, message_reader::framing f,
                                              request_state*& whose);
  /// A client has got the head of an answer to this request.
  void answered(request_state& r, const message_head& head);

  /// Counts a failure; `of` is the request or conversation that it is about.
  void fail(const std::string& kind, std::uint64_t conversation, const std::string& what);
  bool has_failed() const noexcept { return !failures_.empty(); }
  /// Prints them, each kind with its first few.
  void print_failures(const std::string& again) const;
  std::vector<std::string> kinds() const;

  void count(const std::string& what) { ++counts_[what]; }
  std::uint64_t counted(const std::string& what) const;
  void print_counts() const;

  std::uint64_t seed() const noexcept { return seed_; }

  /// The configuration may be, or may lately have been, one without a tenant or an upstream, or one that drains.
  bool is_changing = false;
  bool is_draining = false;
  /// What the operator has ended, or wanted to, by X-Request-Id.
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
  std::deque<seen_surplus> surplus_;  // the upstream may still have to tell what it knows of the request
  std::map<std::string, failure> failures_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace conversations
