#include "gateway/admin/loop_look.hpp"

#include "gateway/call/call.hpp"
#include "gateway/process/service.hpp"

#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {
namespace {

struct own_part {
  std::vector<request_view> asked;
  std::vector<request_view> running;
  std::vector<request_view> outside;
  std::map<std::string, std::size_t> running_in_all;
  std::map<std::pair<std::string, std::string>, time_point> oldest;
};

using by_upstream = std::map<std::string_view, std::vector<const call*>>;

/// Returns the oldest requests of each upstream, at most `most` of each.
std::vector<request_view> first_of(by_upstream& all, std::size_t most) {
  std::vector<request_view> first;
  for (auto& [upstream, requests] : all) {
    const auto shown = static_cast<std::ptrdiff_t>(std::min(requests.size(), most));
    std::ranges::partial_sort(requests, requests.begin() + shown, {}, [](const call* c) { return c->record().since; });
    for (auto c = requests.begin(); c != requests.begin() + shown; ++c) first.push_back((*c)->look());
  }
  return first;
}

/// The addresses of the names of an upstream and of a priority class. The configuration stores each name once, so two
/// equal names have the same address.
using name_pair = std::pair<const char*, const char*>;

net::awaitable<own_part> look_at(const loop& l, const std::vector<std::uint64_t>& numbers, std::size_t most) {
  own_part p;
  for (const std::uint64_t n : numbers) {
    if (const call* c = l.requests.find(n)) p.asked.push_back(c->look());
  }
  std::map<name_pair, const call_record*> first;
  by_upstream running, outside;
  l.requests.each([&](const call& c) {
    const call_record& r = c.record();
    if (!c.waits()) {
      running[r.upstream].push_back(&c);
      return;
    }
    if (!c.current_turn().waits_for().empty()) outside[r.upstream].push_back(&c);
    const call_record*& known = first[{r.upstream.data(), r.priority.data()}];
    if (known == nullptr || r.since < known->since) known = &r;
  });
  for (const auto& [names, r] : first) p.oldest[{std::string{r->upstream}, std::string{r->priority}}] = r->since;
  for (const auto& [upstream, all] : running) p.running_in_all[std::string{upstream}] = all.size();
  p.running = first_of(running, most);
  p.outside = first_of(outside, most);
  co_return p;
}

net::awaitable<bool> end_on(const loop& l, const std::string& id) {
  call* found = nullptr;
  l.requests.each([&](call& c) {
    if (c.record().id == id) found = &c;
  });
  if (found != nullptr) found->end_by(call_ender::operator_);
  co_return found != nullptr;
}

void add(std::map<std::string, std::vector<request_view>>& to, std::vector<request_view>& part, std::size_t most) {
  for (request_view& v : part) to[v.upstream].push_back(std::move(v));
  for (auto& [upstream, all] : to) {
    std::ranges::sort(all, {}, &request_view::since);
    if (all.size() > most) all.resize(most);
  }
}

void add(loop_look& to, own_part& part, std::size_t most) {
  for (request_view& v : part.asked) to.asked.emplace(v.number, std::move(v));
  for (const auto& [upstream, n] : part.running_in_all) to.running_in_all[upstream] += n;
  for (const auto& [names, since] : part.oldest) {
    const auto [known, is_new] = to.oldest.emplace(names, since);
    if (!is_new) known->second = std::min(known->second, since);
  }
  add(to.running, part.running, most);
  add(to.outside, part.outside, most);
}

}  // namespace

net::awaitable<loop_look> look_at_loops(service& s, std::vector<std::uint64_t> numbers, std::size_t most) {
  std::vector<std::vector<std::uint64_t>> by_loop(s.loops().size());
  for (const std::uint64_t n : numbers) by_loop[request_list::loop_of(n)].push_back(n);
  loop_look all;
  for (const auto& l : s.loops()) {
    auto there = look_at(*l, by_loop[l->index], most);
    own_part part = co_await net::co_spawn(l->io, std::move(there), net::use_awaitable);
    add(all, part, most);
  }
  co_return all;
}

net::awaitable<bool> end_request(service& s, std::string id) {
  for (const auto& l : s.loops()) {
    auto there = end_on(*l, id);
    const bool found = co_await net::co_spawn(l->io, std::move(there), net::use_awaitable);
    if (found) co_return true;
  }
  co_return false;
}

}  // namespace canigo::gateway
