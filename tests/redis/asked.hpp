#pragma once

#include "canigo/redis/client.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <memory>
#include <string>
#include <system_error>

namespace redis_test {

/// Sends a command, and notes how it ends. That may be after the destruction of this object.
struct asked {
  asked(canigo::redis::client& c, const canigo::redis::command& what) {
    c.async_run(what, asio::bind_cancellation_slot(cancel.slot(),
                                                   [n = note_](std::error_code e, const canigo::redis::reply& r) {
                                                     ++n->ends;
                                                     n->ec = e;
                                                     n->text = r.text();
                                                   }));
  }

 private:
  struct note {
    int ends = 0;
    std::error_code ec;
    std::string text;
    asio::cancellation_signal cancel;
  };
  const std::shared_ptr<note> note_ = std::make_shared<note>();

 public:
  const int& ends = note_->ends;
  const std::error_code& ec = note_->ec;
  const std::string& text = note_->text;
  asio::cancellation_signal& cancel = note_->cancel;
};

}  // namespace redis_test
