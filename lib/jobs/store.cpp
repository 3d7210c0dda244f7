#include "canigo/jobs/store.hpp"

#include <utility>

namespace canigo::jobs {

net::awaitable<put_answer> store::put(new_job j) {
  std::vector<new_job> one;
  one.push_back(std::move(j));
  const auto answers = co_await put_all(std::move(one));
  co_return answers.front();
}

}  // namespace canigo::jobs
