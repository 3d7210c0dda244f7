#include "nodes.hpp"

#include "engine.hpp"
#include "slots.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::redis::detail {
namespace {

// The max number of nodes. No real cluster has so many, so a server that names more is faulty.
constexpr std::size_t most_nodes = 10'000;

// The time limit for asking one node for the slot table. It is shorter than the time limit of commands. So if this node
// is silent, another node can still be asked.
constexpr duration longest_question = std::chrono::seconds{2};

}  // namespace

/// Returns the host to which the engine `e` connects. If the server there names another node without a host, that node
/// is on the same host.
std::string nodes::host_of(const engine& e) {
  const auto& addresses = e.link_options_->where.addresses;
  return addresses.empty() ? "localhost" : addresses.front().host;  // a client of a unix socket has no address
}

nodes::nodes(engine& home, std::shared_ptr<const link_options> link, const client_options& options)
    : home_{&home}, link_{std::move(link)}, options_{options} {}

std::size_t nodes::count() const noexcept {
  const std::lock_guard lock{mutex_};
  return nodes_.size();
}

std::shared_ptr<engine> nodes::of(unsigned slot) const {
  const std::lock_guard lock{mutex_};
  return at(owners_.empty() || owners_[slot] == 0 ? front_ : owners_[slot]);
}

std::shared_ptr<engine> nodes::at(std::size_t number) const {
  const auto its = number != 0 ? nodes_[number - 1].its : nullptr;
  return its != nullptr ? its : home_->shared_from_this();
}

nodes::place nodes::follow(engine& from, std::string_view text) {
  auto there = redirection_of(text);
  if (!there) return {};
  if (there->where.host.empty()) there->where.host = host_of(from);
  std::shared_ptr<engine> target;
  {
    const std::lock_guard lock{mutex_};
    if (is_closed_) return {};
    const std::size_t number = number_of(there->where);
    if (number == 0) return {};
    target = at(number);
    if (!there->is_once) owners_[there->slot] = static_cast<std::uint16_t>(number);
  }
  // If one slot has moved to another node, others probably have, too. One query of the slot table finds all of them.
  // The query goes to `from`, because the target of the redirection may be dead.
  if (!there->is_once) ask(from.shared_from_this());
  return {std::move(target), there->is_once};
}

/// Returns the index of the node with this address, and adds the node if necessary; 0 if there are too many nodes.
std::size_t nodes::number_of(endpoint::address a) {
  const auto is = [&a](const endpoint::address& b) { return a.host == b.host && a.port == b.port; };
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const node& n) { return is(n.where); });
  if (found != nodes_.end()) return static_cast<std::size_t>(found - nodes_.begin()) + 1;
  if (nodes_.size() >= most_nodes) return 0;
  owners_.resize(cluster_slots);
  std::shared_ptr<engine> new_one;
  if (const auto& home = link_->where.addresses; home.empty() || !is(home.front())) {
    link_options its = *link_;
    // The new node gets only the credentials, the database and TLS from the first node's options. It can't use the
    // first node's address, which may be a unix socket or a name that only sentinels know.
    const endpoint& first = link_->where;
    its.where = {.addresses = {a},
                 .path = {},
                 .master = {},
                 .user = first.user,
                 .password = first.password,
                 .database = first.database,
                 .tls = first.tls};
    its.asks_for_nodes = false;
    new_one = engine::open(home_->executor(), std::make_shared<const link_options>(its), options_);
  }
  nodes_.push_back({std::move(a), std::move(new_one)});
  return nodes_.size();
}

void nodes::ask(const std::shared_ptr<engine>& whom) noexcept {
  {
    const std::lock_guard lock{mutex_};
    if (is_closed_ || std::exchange(is_asking_, true)) return;
  }
  const auto done = [home = home_->weak_from_this(), whom](std::error_code ec, const reply& r) {
    const auto h = home.lock();
    if (h == nullptr) return;
    nodes& all = h->cluster();
    std::vector<node> dropped;
    {
      const std::lock_guard lock{all.mutex_};
      all.is_asking_ = false;
      try {
        if (!ec && !all.is_closed_) all.learn(r, *whom, dropped);
      } catch (...) {
        // There is no memory to process the answer, so the table of slots stays as it was. If a slot has moved, a
        // redirection names its new node.
      }
    }
    for (const auto& n : dropped) n.its->close();
  };
  try {
    start_call<call>{whom}(done, command{"CLUSTER", "SLOTS"}.with_timeout(longest_question));
  } catch (...) {
    const std::lock_guard lock{mutex_};
    is_asking_ = false;
  }
}

/// Replaces the table of slots by the answer of the node `teller`. Nodes that the answer does not name, and that are
/// not in use, are moved to `dropped`.
void nodes::learn(const reply& r, const engine& teller, std::vector<node>& dropped) {
  auto ranges = slot_ranges(r);
  if (ranges.empty()) return;
  std::vector<std::uint16_t> owners(cluster_slots);
  std::vector<bool> are_named;
  const auto number = [&](endpoint::address& a) {
    if (a.host.empty()) a.host = host_of(teller);
    const std::size_t n = number_of(std::move(a));
    are_named.resize(nodes_.size());
    if (n != 0) are_named[n - 1] = true;
    return static_cast<std::uint16_t>(n);
  };
  for (auto& range : ranges) {
    std::fill(owners.begin() + range.first, owners.begin() + range.last + 1, number(range.where));
    for (auto& replica : range.replicas) number(replica);
  }
  std::vector<node> kept;
  std::vector<std::uint16_t> new_number(nodes_.size() + 1);
  kept.reserve(nodes_.size());
  dropped.reserve(nodes_.size());
  // No statement from here on can fail, so the new table is complete.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool is_used = nodes_[i].its != nullptr && nodes_[i].its.use_count() > 1;
    if (are_named[i] || is_used) {
      kept.push_back(std::move(nodes_[i]));
      new_number[i + 1] = static_cast<std::uint16_t>(kept.size());
    } else if (nodes_[i].its != nullptr) {
      dropped.push_back(std::move(nodes_[i]));
    }
  }
  nodes_ = std::move(kept);
  for (auto& o : owners) o = new_number[o];
  owners_ = std::move(owners);
  front_ = nodes_.size();  // commands for slots whose owner is unknown go to the node that has answered
  while (front_ != 0 && at(front_).get() != &teller) --front_;
}

void nodes::failed(const engine& e) noexcept {
  const std::lock_guard lock{mutex_};
  for (std::size_t n = 1; n <= nodes_.size(); ++n) {
    if (at(n).get() != &e) continue;
    std::replace(owners_.begin(), owners_.end(), static_cast<std::uint16_t>(n), std::uint16_t{0});
  }
  for (std::size_t n = 0; n < nodes_.size() && at(front_).get() == &e; ++n) {
    front_ = (front_ + 1) % (nodes_.size() + 1);
  }
}

void nodes::close() noexcept {
  std::vector<node> all;
  {
    const std::lock_guard lock{mutex_};
    is_closed_ = true;
    front_ = 0;
    owners_.clear();
    all.swap(nodes_);
  }
  for (const auto& n : all) {
    if (n.its != nullptr) n.its->close();
  }
}

}  // namespace canigo::redis::detail
