#include "canigo/redis/detail/reply_reader.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/error.hpp"

#include <hiredis/read.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace canigo::redis {

/// Builds replies for hiredis, which refers to them as void*.
///
/// An array gets its elements one by one as they arrive, so the length that a server announces allocates no memory. An
/// array grows only when its last element is complete. So an element keeps its address while hiredis uses it.
class reply_builder {
 public:
  explicit reply_builder(std::size_t max_reply) noexcept : bound_{max_reply} {}

  std::size_t spent = 0;  // the size of the reply that is being built, in bytes
  bool over = false;
  bool is_unsupported = false;  // the reply is nested too deep, or has a type of RESP 3
  bool no_memory = false;

  reply* add(const redisReadTask& task, std::size_t bytes, reply::kind k) noexcept {
    spent += sizeof(reply) + bytes;
    over = spent > bound_;  // true: the reply is too large, so this function returns null, and hiredis stops
    if (over) return nullptr;
    try {
      reply* r = nullptr;
      if (task.parent != nullptr) {
        r = &static_cast<reply*>(task.parent->obj)->elements_.emplace_back();
      } else {
        r = new reply;
      }
      r->kind_ = k;
      return r;
    } catch (...) {
      no_memory = true;
      return nullptr;
    }
  }

  bool set_text(reply& r, std::string_view text, bool is_root) noexcept {
    try {
      r.text_ = text;
      return true;
    } catch (...) {
      no_memory = true;
      if (is_root) delete &r;
      return false;
    }
  }

  static void set_integer(reply& r, std::int64_t n) noexcept { r.integer_ = n; }

 private:
  std::size_t bound_;
};

namespace detail {
namespace {

reply_builder& builder_of(const redisReadTask* task) { return *static_cast<reply_builder*>(task->privdata); }

void* create_string(const redisReadTask* task, char* text, std::size_t length) {
  const auto k = task->type == REDIS_REPLY_ERROR    ? reply::kind::error
                 : task->type == REDIS_REPLY_STATUS ? reply::kind::status
                                                    : reply::kind::string;
  auto& b = builder_of(task);
  reply* r = b.add(*task, length, k);
  return r != nullptr && b.set_text(*r, {text, length}, task->parent == nullptr) ? r : nullptr;
}

// Versions after hiredis 0.14 accept arrays nested as deep as the server sends them. So the depth is limited here.
constexpr int deepest = 7;

bool is_too_deep(const redisReadTask& task) noexcept {
  int depth = 0;
  for (const auto* above = task.parent; above != nullptr; above = above->parent) ++depth;
  return depth > deepest;
}

// Begins an array of the reply. The number of elements is an int in hiredis 0.14, and a size_t in later versions.
template <class Count>
void* create_array(const redisReadTask* task, Count) {
  auto& b = builder_of(task);
  b.is_unsupported = is_too_deep(*task);
  return b.is_unsupported ? nullptr : b.add(*task, 0, reply::kind::array);
}

void* create_integer(const redisReadTask* task, long long n) {
  reply* r = builder_of(task).add(*task, 0, reply::kind::integer);
  if (r != nullptr) reply_builder::set_integer(*r, n);
  return r;
}

void* create_nil(const redisReadTask* task) { return builder_of(task).add(*task, 0, reply::kind::nil); }

/// Ends the reply, because the client does not support the type of one of its elements.
[[maybe_unused]] void* refuse(const redisReadTask& task) noexcept {
  builder_of(&task).is_unsupported = true;
  return nullptr;
}

void free_object(void* p) { delete static_cast<reply*>(p); }

template <class Functions>
Functions make_functions() {
  Functions f{};
  f.createString = create_string;
  f.createArray = create_array;
  f.createInteger = create_integer;
  f.createNil = create_nil;
  f.freeObject = free_object;
  // hiredis calls the following functions for the types double and bool, which only RESP 3 has. The client does not
  // request RESP 3. But without these functions a newer version of hiredis would build objects of its own type. hiredis
  // reports a null pointer as a lack of memory, so `is_unsupported` stores the real cause.
  if constexpr (requires { f.createDouble; }) {
    f.createDouble = [](const redisReadTask* task, double, char*, std::size_t) { return refuse(*task); };
  }
  if constexpr (requires { f.createBool; }) {
    f.createBool = [](const redisReadTask* task, int) { return refuse(*task); };
  }
  return f;
}

redisReplyObjectFunctions functions = make_functions<redisReplyObjectFunctions>();

}  // namespace

struct reply_reader::state {
  explicit state(std::size_t max) : builder{max}, max_reply{max}, reader{redisReaderCreateWithFunctions(&functions)} {
    if (reader == nullptr) throw std::bad_alloc{};
    reader->privdata = &builder;
  }
  ~state() { redisReaderFree(reader); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  std::error_code failure() const noexcept {
    if (builder.over) return errc::too_large;
    if (builder.is_unsupported) return error::bad_reply;
    if (builder.no_memory || reader->err == REDIS_ERR_OOM) return errc::not_enough_memory;
    return error::bad_reply;
  }

  reply_builder builder;
  std::size_t max_reply;
  std::size_t unread = 0;  // the number of bytes since the last complete reply
  redisReader* reader;
};

reply_reader::reply_reader(std::size_t max_reply) : state_{std::make_unique<state>(max_reply)} {}

reply_reader::~reply_reader() = default;

std::error_code reply_reader::feed(std::string_view bytes) noexcept {
  state_->unread += bytes.size();
  if (redisReaderFeed(state_->reader, bytes.data(), bytes.size()) != 0) return state_->failure();
  return {};
}

std::optional<reply> reply_reader::next(std::error_code& ec) noexcept {
  void* object = nullptr;
  if (redisReaderGetReply(state_->reader, &object) != 0) {
    ec = state_->failure();
    return std::nullopt;
  }
  if (object == nullptr) {
    // hiredis buffers a string until it is complete. So the bytes are counted, to detect a string without an end.
    if (state_->unread > state_->max_reply) ec = errc::too_large;
    return std::nullopt;
  }
  state_->builder.spent = 0;
  state_->unread = state_->reader->len - state_->reader->pos;
  const std::unique_ptr<reply> whole{static_cast<reply*>(object)};
  return std::move(*whole);
}

}  // namespace detail
}  // namespace canigo::redis
