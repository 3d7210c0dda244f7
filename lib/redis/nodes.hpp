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

/// The max number of redirections of one command. More of them mean that the nodes redirect in a circle.
inline constexpr int most_redirections = 5;

/// The nodes of a Redis Cluster and the slots of each, as the nodes have reported them. This object is empty until the
/// client's first node reports that it is in a cluster. Each node except that first node gets an engine of its own.
/// Such an engine is closed when no node reports the engine's node any more, and nothing uses the engine.
///
/// Threads: any.
class nodes {
 public:
  nodes(engine& home, std::shared_ptr<const link_options> link, const client_options& options);

  struct place {
    std::shared_ptr<engine> where;  // the engine of the node; null: there is no such node
    bool is_once = false;           // true: the node serves only this command, and needs the command ASKING before it
  };

  /// Returns the engine of the node that has the slot. If that node is unknown, returns the engine of a node that may
  /// know it.
  std::shared_ptr<engine> of(unsigned slot) const;
  std::size_t count() const noexcept;
  /// Asks `whom` for the slots of all nodes, unless the reply to an earlier such question is still awaited.
  void ask(const std::shared_ptr<engine>& whom) noexcept;
  /// Returns the node to which `text`, an error reply of `from`, redirects the command.
  place follow(engine& from, std::string_view text);
  /// Call it when a node does not answer. The owner of that node's slots then counts as unknown. So the next commands
  /// for these slots go to another node, which redirects them to the new owner.
  void failed(const engine& e) noexcept;
  void close() noexcept;

 private:
  struct node {
    endpoint::address where;
    std::shared_ptr<engine> its;  // the engine of the node; null: `home_` is the engine of the node
  };

  static std::string host_of(const engine& e);

  // Returns the engine of the node with the index `number - 1` in nodes_; if `number` is 0, `home_`. Precondition: the
  // lock is held.
  std::shared_ptr<engine> at(std::size_t number) const;
  void learn(const reply& r, const engine& teller, std::vector<node>& dropped);
  std::size_t number_of(endpoint::address a);

  engine* const home_;
  const std::shared_ptr<const link_options> link_;
  const client_options options_;
  mutable canigo::detail::mutex mutex_;
  std::vector<node> nodes_;
  std::vector<std::uint16_t> owners_;  // the owner of each slot, as its index in nodes_ plus 1; 0: unknown
  std::size_t front_ = 0;              // the node to ask if a slot's owner is unknown: index in nodes_ plus 1; 0: home_
  bool is_asking_ = false;
  bool is_closed_ = false;
};

}  // namespace canigo::redis::detail
