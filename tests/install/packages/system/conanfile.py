"""What the machine has installed, as packages of Conan: conan create . --name=fmt --version=9.1.0"""

from conan import ConanFile


class System(ConanFile):
    settings = "os", "compiler", "build_type", "arch"

    def package_info(self):
        self.cpp_info.includedirs = ["/usr/include"] if self.name == "asio" else []
        self.cpp_info.libdirs = []
        if self.name == "sqlite3":  # as the recipe of the centre
            self.cpp_info.set_property("cmake_file_name", "SQLite3")
            self.cpp_info.set_property("cmake_target_name", "SQLite::SQLite3")
        self.cpp_info.system_libs = [] if self.name == "asio" else [self.name]
