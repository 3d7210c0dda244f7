"""A program outside that uses the package: the one that tests/install builds in every other way."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def edges(self):
        optional = [edge for edge, is_on in self.dependencies["canigo"].options.items()
                    if edge in ("http", "metrics", "postgres", "redis", "sqlite") and is_on == "True"]
        return ["jobs", "testing", *optional]

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"EDGES": ";".join(self.edges())},
                        build_script_folder=os.path.join("..", "..", "..", "tests", "install", "consumer"))
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("consumer", *(edge + "_consumer" for edge in self.edges())):
                self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
