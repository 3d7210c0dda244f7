#include "nodes.hpp"

#include "engine.hpp"
#include "slots.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo::redis::detail {
namespace {

// More than any cluster has; one that names more names wrong ones.
constexpr std::size_t most_nodes = 10'000;

}  // namespace

nodes::nodes(engine& home, std::shared_ptr<const link_options> link, const client_options& options)
    : home_{&home}, link_{std::move(link)}, options_{options} {}

bool nodes::are_known() const noexcept {
  const std::lock_guard lock{mutex_};
  return !nodes_.empty();
}

std::shared_ptr<engine> nodes::of(unsigned slot) const {
  const std::lock_guard lock{mutex_};
  const std::size_t owner = owners_.empty() || owners_[slot] == 0 ? front_ : owners_[slot];
  return owner == 0 ? home_->shared_from_this() : nodes_[owner - 1].its;
}

nodes::place nodes::follow(engine& from, std::string_view text) {
  auto there = redirection_of(text);
  if (!there) return {};
  const auto& asked = from.link_options_->where.addresses;
  const std::string host = asked.empty() ? "localhost" : asked.front().host;  // none: a Unix domain socket
  if (there->where.host.empty()) there->where.host = host;
  std::shared_ptr<engine> target;
  bool asks = false;
  {
    const std::lock_guard lock{mutex_};
    if (is_closed_) return {};
    const std::size_t number = number_of(there->where);
    if (number == 0) return {};
    target = nodes_[number - 1].its;
    if (!there->is_once) {
      owners_[there->slot] = static_cast<std::uint16_t>(number);
      asks = !std::exchange(is_asking_, true);
    }
  }
  // Where one slot has gone others have, too. They are found without, only later.
  if (asks) ask_for_slots(target, there->where.host);
  return {std::move(target), there->is_once};
}

/// With the lock held. 0 where there are too many.
std::size_t nodes::number_of(endpoint::address a) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const node& n) { return n.where.host == a.host && n.where.port == a.port; });
  if (found != nodes_.end()) return static_cast<std::size_t>(found - nodes_.begin()) + 1;
  if (nodes_.size() >= most_nodes) return 0;
  owners_.resize(cluster_slots);
  link_options its = *link_;
  its.where.path.clear();
  its.where.master.clear();
  its.where.addresses = {a};
  nodes_.push_back(
      {std::move(a), engine::open(home_->executor(), std::make_shared<const link_options>(its), options_)});
  return nodes_.size();
}

void nodes::ask_for_slots(const std::shared_ptr<engine>& whom, const std::string& host) {
  const auto done = [home = home_->weak_from_this(), host](std::error_code ec, const reply& r) {
    const auto h = home.lock();
    if (h == nullptr) return;
    nodes& all = h->cluster();
    const std::lock_guard lock{all.mutex_};
    all.is_asking_ = false;
    try {
      if (!ec && !all.is_closed_) all.learn(r, host);
    } catch (...) {
      // No memory: each slot is found by itself.
    }
  };
  try {
    start_call<call>{whom}(done, command{"CLUSTER", "SLOTS"});
  } catch (...) {
    const std::lock_guard lock{mutex_};
    is_asking_ = false;
  }
}

/// With the lock held.
void nodes::learn(const reply& r, const std::string& host) {
  for (auto& range : slot_ranges(r)) {
    if (range.where.host.empty()) range.where.host = host;
    const auto number = static_cast<std::uint16_t>(number_of(std::move(range.where)));
    std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1, number);
  }
}

void nodes::failed(const engine& e) noexcept {
  const std::lock_guard lock{mutex_};
  if (nodes_.empty()) return;
  std::size_t number = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].its.get() == &e) number = i + 1;
  }
  if (number != 0) std::replace(owners_.begin(), owners_.end(), static_cast<std::uint16_t>(number), std::uint16_t{0});
  if (front_ == number) front_ = (front_ + 1) % (nodes_.size() + 1);
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
  for (const auto& n : all) n.its->close();
}

}  // namespace canigo::redis::detail
