# tandem_library(FOLDER dependency...): the library tandem_FOLDER of every .cpp in src/FOLDER and below, but for a
# main.cpp, which belongs to a program, and for what lies in a folder named module.
# The dependencies are the arrows of docs/architecture.md.
# For libtandem.so all of it is made such that it can be part of a shared library, and nothing of it is seen from outside.
if(TANDEM_SANITIZE)
  add_link_options(-rdynamic)  # a program and its modules share the types that UBSan compares by address
endif()

function(tandem_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$|/module/")
  add_library(tandem_${folder} STATIC ${sources})
  target_include_directories(tandem_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tandem_${folder} PUBLIC ${ARGN})
  if(TANDEM_LIBRARY)
    set_target_properties(tandem_${folder} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()

# tandem_module(NAME sources SOURCE... libraries LIBRARY...): the module libtandem-NAME.so (base/module.h), with all that it
# needs of src/ among its sources. Only the headers of a library that is not everywhere are for its files alone.
function(tandem_module name)
  cmake_parse_arguments(module "" "" "sources;libraries" ${ARGN})
  add_library(tandem_module_${name} MODULE ${module_sources})
  set_target_properties(tandem_module_${name} PROPERTIES OUTPUT_NAME tandem-${name} UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_include_directories(tandem_module_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tandem_module_${name} PRIVATE ${module_libraries} fmt::fmt spdlog::spdlog Threads::Threads)
  list(APPEND TANDEM_MODULES tandem_module_${name})
  set(TANDEM_MODULES ${TANDEM_MODULES} PARENT_SCOPE)
endfunction()

# tandem_test(NAME FOLDER library...): the test program NAME of every .cpp in tests/FOLDER, run by ctest as one test. Test code
# itself is not optimized, and only AddressSanitizer looks at it: both take half as long to compile. Fewer files together than
# in a library: a program is often one unit then, and the last one of a build has a core for itself.
function(tandem_test name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  # In a unity build g++ takes the fixtures of anonymous namespaces for those of a header.
  target_compile_options(${name} PRIVATE -O0 $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  if(TANDEM_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE TANDEM_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
endfunction()
