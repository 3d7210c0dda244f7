# Runs a port as vcpkg does, with what it calls: cmake -DPORT=DIR -DPREFIX=DIR -DFEATURES=LIST -P vcpkg.cmake
# vcpkg itself, which fetches all that a port needs from elsewhere, is left out.
cmake_minimum_required(VERSION 3.20)
set(CURRENT_PACKAGES_DIR "${PREFIX}")

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${PREFIX}-build ${arg_OPTIONS} ${MORE}
    -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX=${PREFIX} -DCMAKE_INSTALL_LIBDIR=lib
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${PREFIX}-build --target install -j COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(INSTALL ${arg_FILE_LIST} DESTINATION "${PREFIX}/share/canigo" RENAME copyright)
endfunction()

include("${PORT}/portfile.cmake")
