#pragma once

#include "loop.hpp"
#include "message_reader.hpp"
#include "model.hpp"
#include "wire.hpp"

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>

namespace conversations {

/// Plays the client's part of a conversation.
class client : public std::enable_shared_from_this<client> {
 public:
  client(loop& l, model& m, std::shared_ptr<conversation_state> c, const places& p, SSL_CTX* security);
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  void start();

 private:
  void send_next();
  void send_body(std::size_t number);
  void send_cut(const std::string& bytes, bool is_last);
  void leave_at_last();
  void leave();
  message_reader::framing head_came(const message_head& head, message_reader::framing f);
  void body_came(std::string_view bytes);
  void answer_ended();
  void received(std::string_view bytes);
  std::size_t last_answered() const noexcept;
  bool may_be_last() const;
  void over(wire::ended how);
  void linger();
  void finish();
  bool is_begun(std::size_t number);
  void wrong(const std::string& kind, const std::string& what);
  void become_tunnel();
  std::string inner_request() const;

  loop& loop_;
  model& model_;
  std::shared_ptr<conversation_state> state_;
  const conversation_plan& plan_;
  const places& places_;
  SSL_CTX* security_;
  choices random_;
  std::shared_ptr<wire> wire_;
  message_reader reader_;
  std::unique_ptr<message_reader> inner_;  // reads the messages that come through a tunnel
  // for each request that was given to the wire: the number of bytes that were given to the wire before it
  std::vector<std::size_t> begins_at_;
  std::size_t queued_ = 0;  // the number of bytes that were given to the wire
  bool waits_to_continue_ = false;
  std::size_t answers_ = 0;     // the number of complete answers that were received
  bool is_last_after_ = false;  // whether the answer that is arriving says that it is the last one
  bool is_last_ = false;        // whether the last answer has arrived
  bool has_left_ = false;
  bool is_over_ = false;
  bool is_wrong_ = false;
  std::string last_answer_ = "nothing";
  std::string behind_ = "nothing";  // a description of the answer before `last_answer_`
  std::size_t body_at_ = 0;
  int status_ = 0;
  bool is_of_upstream_ = false;
};

}  // namespace conversations
