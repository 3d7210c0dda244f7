"""The Conan 2 recipe of canigo. From a clone: conan create packaging/conan --build=missing"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# What each edge needs.
EDGES = {
    "http": ("libcurl/[>=7.80 <9]", "libcurl::libcurl"),
    "metrics": ("prometheus-cpp/[>=1.0 <2]", "prometheus-cpp::prometheus-cpp-core"),
    "postgres": ("libpq/[>=14 <18]", "libpq::libpq"),
    "redis": ("hiredis/[>=0.14 <2]", "hiredis::hiredis"),
    "sqlite": ("sqlite3/[>=3.37 <4]", "sqlite3::sqlite3"),
}


class Canigo(ConanFile):
    name = "canigo"
    license = "MIT"
    description = "Rate, concurrency, priority and deadline limits for asynchronous work on Asio"
    topics = ("asio", "rate-limiter", "throttle", "bulkhead", "coroutines")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "fPIC": [True, False], **{edge: [True, False] for edge in EDGES}}
    default_options = {"shared": False, "fPIC": True, **{edge: False for edge in EDGES}}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        text = load(self, os.path.join(ROOT, "meson.build"))
        self.version = re.search(r"version: '([\d.]+)'", text).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "meson.build", "cmake/*", "include/*", "lib/*",
                        "packaging/grafana/*"):
            copy(self, pattern, ROOT, self.export_sources_folder)

    def requirements(self):
        # Both are in canigo's headers.
        self.requires("asio/[>=1.22.1 <2]", transitive_headers=True)
        self.requires("fmt/[>=9.0]", transitive_headers=True, transitive_libs=True)
        for edge, (package, _) in EDGES.items():
            if self.options.get_safe(edge):
                self.requires(package)
        if self.options.redis:
            self.requires("openssl/[>=1.1 <4]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for edge in EDGES:
            toolchain.cache_variables["CANIGO_" + edge.upper()] = "ON" if self.options.get_safe(edge) else "OFF"
        toolchain.cache_variables["CANIGO_ASIO_INCLUDE"] = self.dependencies["asio"].cpp_info.includedirs[0]
        toolchain.cache_variables["BUILD_SHARED_LIBS"] = bool(self.options.shared)
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan writes packages of its own, from package_info.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "canigo")
        core = self.cpp_info.components["canigo"]
        core.set_property("cmake_target_name", "canigo::canigo")
        core.set_property("pkg_config_name", "canigo")
        core.libs = ["canigo"]
        core.requires = ["asio::asio", "fmt::fmt"]
        if self.settings.os != "Windows":
            core.system_libs = ["pthread"]
        asio = [int(n) for n in str(self.dependencies["asio"].ref.version).split(".")]
        if asio < [1, 26]:
            core.defines = ["ASIO_HAS_STD_ALIGNED_ALLOC=1", "ASIO_HAS_CO_AWAIT=1"]
        edges = {"testing": [], "jobs": [], **{edge: [target] for edge, (_, target) in EDGES.items()}}
        edges["redis"] += ["openssl::openssl"]
        edges["postgres"] += ["jobs"]
        edges["sqlite"] += ["jobs"]
        for edge, needs in edges.items():
            if edge in ("testing", "jobs") or self.options.get_safe(edge):
                component = self.cpp_info.components[edge]
                component.set_property("cmake_target_name", "canigo::" + edge)
                component.set_property("pkg_config_name", "canigo_" + edge)
                component.libs = ["canigo_" + edge]
                component.requires = ["canigo", *needs]
