#include "versions.hpp"

#include <canigo/version.hpp>

#include <CLI/Version.hpp>
#include <asio/version.hpp>
#include <fmt/core.h>
#include <fmt/format.h>

namespace tools {

std::string versions(const std::string& name, const std::string& own) {
  constexpr int asio_major = ASIO_VERSION / 100'000;
  constexpr int asio_minor = ASIO_VERSION / 100 % 1000;
  constexpr int asio_patch = ASIO_VERSION % 100;
  return fmt::format("{} {}\n{}\nAsio/{}.{}.{} fmt/{} CLI11/{}", name, canigo::version(), own, asio_major, asio_minor,
                     asio_patch, in_pairs_of_digits(FMT_VERSION), CLI11_VERSION);
}

std::string in_pairs_of_digits(int number) {
  return fmt::format("{}.{}.{}", number / 10'000, number / 100 % 100, number % 100);
}

}  // namespace tools
