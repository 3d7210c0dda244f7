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

/// A command that is redirected more often than this goes round in a circle.
inline constexpr int most_redirections = 5;

/// The nodes of a Redis Cluster, and the slots of each, as far as they have named them. There are none until the
/// client's first node says that it is in a cluster. Each other node has an engine of its own, as long as a node names
/// it.
///
/// Threads: any.
class nodes {
 public:
  nodes(engine& home, std::shared_ptr<const link_options> link, const client_options& options);

  struct place {
    std::shared_ptr<engine> where;  // null: nowhere
    bool is_once = false;           // the answer is for one command, which must follow ASKING
  };

  /// The node that has the slot, or a node that may know it.
  std::shared_ptr<engine> of(unsigned slot) const;
  /// The number of nodes.
  std::size_t count() const noexcept;
  /// Asks that node for the slots of all nodes, unless one is being asked already.
  void ask(const std::shared_ptr<engine>& whom) noexcept;
  /// The node that an error reply of `from` names.
  place follow(engine& from, std::string_view text);
  /// That node does not answer: asks others for the new owner of its slots.
  void failed(const engine& e) noexcept;
  void close() noexcept;

 private:
  struct node {
    endpoint::address where;
    std::shared_ptr<engine> its;  // null: the node is `home`
  };

  static std::string host_of(const engine& e);

  // Call it with the lock held.
  std::shared_ptr<engine> at(std::size_t number) const;
  void learn(const reply& r, const engine& teller, std::vector<node>& dropped);
  std::size_t number_of(endpoint::address a);

  engine* const home_;
  const std::shared_ptr<const link_options> link_;
  const client_options options_;
  mutable canigo::detail::mutex mutex_;
  std::vector<node> nodes_;
  std::vector<std::uint16_t> owners_;  // the owner of each slot: its place in nodes_ plus 1; 0: unknown
  std::size_t front_ = 0;              // the node to ask if the owner is unknown, as above; 0: home
  bool is_asking_ = false;
  bool is_closed_ = false;
};

}  // namespace canigo::redis::detail
