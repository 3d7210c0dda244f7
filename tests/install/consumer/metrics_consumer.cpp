// A program outside of canigo's tree that uses the metrics edge.
#include <canigo/metrics/exporter.hpp>
#include <canigo/scheduler.hpp>

#include <asio/io_context.hpp>

#include <cstdio>
#include <string>

int main() {
  asio::io_context io;
  canigo::scheduler scheduler{io, {.rate = canigo::rate::per_second(1)}};
  canigo::metrics::exporter exporter;
  const auto shown = exporter.add("api", scheduler);
  const std::string page = exporter.text();
  std::puts(page.c_str());
  return page.find("api") == std::string::npos ? 1 : 0;
}
