# tandem_library(FOLDER dependency...): the library tandem_FOLDER of every .cpp in src/FOLDER and below, but for a
# main.cpp, which belongs to a program.
# The dependencies are the arrows of docs/architecture.md.
function(tandem_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(tandem_${folder} STATIC ${sources})
  target_include_directories(tandem_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tandem_${folder} PUBLIC ${ARGN})
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
