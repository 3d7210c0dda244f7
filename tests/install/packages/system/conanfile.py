"""What the machine has installed, as packages of Conan: conan create . --name=fmt --version=9.1.0"""

from conan import ConanFile


class System(ConanFile):
    settings = "os", "compiler", "build_type", "arch"

    def package_info(self):
        self.cpp_info.includedirs = ["/usr/include"] if self.name == "asio" else []
        self.cpp_info.libdirs = []
        self.cpp_info.system_libs = [] if self.name == "asio" else [self.name]
