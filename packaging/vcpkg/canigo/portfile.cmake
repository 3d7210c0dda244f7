# A port for an overlay, which builds the tree that it lies in:
#   vcpkg install canigo --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# The package has no part of its own for debugging.
set(VCPKG_BUILD_TYPE release)

set(edges)
foreach(edge HTTP METRICS POSTGRES REDIS SQLITE)
  string(TOLOWER ${edge} feature)
  if(feature IN_LIST FEATURES)
    list(APPEND edges -DCANIGO_${edge}=ON)
  else()
    list(APPEND edges -DCANIGO_${edge}=OFF)
  endif()
endforeach()

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${edges} -DCANIGO_PACKAGE_DIR=share/canigo)
vcpkg_cmake_install()
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
