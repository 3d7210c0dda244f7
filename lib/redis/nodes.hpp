#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/endpoint.hpp"
#include "canigo/redis/reply.hpp"

#include "link.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis::detail {

class engine;

/// A command that is sent on more often than this goes round in a circle.
inline constexpr int most_redirections = 5;

/// The nodes of a Redis Cluster, and which has which slots, as far as they have said: none until the one that a client
/// was told of says that it is in a cluster. Each of the others has an engine of its own, until nobody names it.
///
/// Threads: any.
class nodes {
 public:
  nodes(engine& home, std::shared_ptr<const link_options> link, const client_options& options);

  struct place {
    std::shared_ptr<engine> where;  // none: nowhere
    bool is_once = false;           // for one command, which is to follow ASKING
  };

  /// Who has the slot, or might know who has.
  std::shared_ptr<engine> of(unsigned slot) const;
  /// How many there are.
  std::size_t count() const noexcept;
  /// Asks that one who has which slots, unless somebody is asked already.
  void ask(const std::shared_ptr<engine>& whom) noexcept;
  /// Where an error reply of `from` points to.
  place follow(engine& from, std::string_view text);
  /// It does not answer: others are asked where its slots are by now.
  void failed(const engine& e) noexcept;
  void close() noexcept;

 private:
  struct node {
    endpoint::address where;
    std::shared_ptr<engine> its;  // none: home's
  };

  static std::string host_of(const engine& e);

  // With the lock held.
  std::shared_ptr<engine> at(std::size_t number) const;
  void learn(const reply& r, const engine& teller, std::vector<node>& dropped);
  std::size_t number_of(endpoint::address a);

  engine* const home_;
  const std::shared_ptr<const link_options> link_;
  const client_options options_;
  mutable canigo::detail::mutex mutex_;
  std::vector<node> nodes_;
  std::vector<std::uint16_t> owners_;  // of the slots: one more than its place in nodes_, 0 where it is not known
  std::size_t front_ = 0;              // who is asked where nobody is known, as above; 0: home
  bool is_asking_ = false;
  bool is_closed_ = false;
};

}  // namespace canigo::redis::detail
