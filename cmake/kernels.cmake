# tandem_kernels(TARGET FOLDER): compiles every FOLDER/*.comp to SPIR-V and embeds it in TARGET. A line
# "//! NAME: a b c" in a kernel makes one of it for each value, named kernel.a, kernel.b, ..., with NAME defined as A, B,
# ...; with two such lines there is one for each pair of values, kernel.a.x, kernel.a.y, ...
# The values of WEIGHT are a group of the types of base/dtypes.inc: blocks, matrices (and f16, bf16) or all (and f32).
# What host code calls them by is FOLDER/contracts.h in the build folder, made of their SPIR-V (tools/spirv/contracts.py).
# The value khr means that the kernel uses NV cooperative matrices, which are rewritten to the KHR extension.
find_program(GLSLC glslc REQUIRED)
find_program(SPIRV_OPT spirv-opt REQUIRED)
find_program(SPIRV_VAL spirv-val REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(SPIRV_TOOLS ${PROJECT_SOURCE_DIR}/tools/spirv)

# Reads the rows of base/dtypes.inc. Sets TYPES_blocks, TYPES_matrices and TYPES_all, and writes `header`: every type has its
# number as in the enum DType there, and QUANTS, SCALES, HIGH and DELTAS are the bytes of the planes of the type WEIGHT.
function(tandem_weight_types rows header)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows})
  file(STRINGS ${rows} lines REGEX "^TANDEM_DTYPE\\(")
  set(number 0)
  set(blocks "")
  set(numbers "")
  set(planes "")
  foreach(line ${lines})
    string(REGEX REPLACE "^TANDEM_DTYPE\\(([^)]*)\\).*" "\\1" fields "${line}")
    string(REGEX REPLACE "[ ,]+" ";" fields "${fields}")
    list(GET fields 0 name)
    list(GET fields 3 block)
    string(TOUPPER ${name} upper)
    string(APPEND numbers "#define ${upper} ${number}\n")
    string(APPEND planes "#if WEIGHT == ${upper}\n")
    set(column 6)
    foreach(plane QUANTS SCALES HIGH DELTAS)
      list(GET fields ${column} bytes)
      string(APPEND planes "#define ${plane} ${bytes}\n")
      math(EXPR column "${column} + 1")
    endforeach()
    string(APPEND planes "#endif\n")
    math(EXPR number "${number} + 1")
    if(block GREATER 1)
      list(APPEND blocks ${name})
    endif()
  endforeach()
  set(TYPES_blocks ${blocks} PARENT_SCOPE)
  set(TYPES_matrices f16 bf16 ${blocks} PARENT_SCOPE)
  set(TYPES_all f32 f16 bf16 ${blocks} PARENT_SCOPE)
  file(CONFIGURE OUTPUT ${header} CONTENT "// Made of base/dtypes.inc by cmake/kernels.cmake.\n${numbers}${planes}" @ONLY)
endfunction()

# Sets `out` to the variants of a kernel, each as "name flag flag ...".
function(tandem_kernel_variants kernel out)
  get_filename_component(variants ${kernel} NAME_WE)
  file(STRINGS ${kernel} lines REGEX "^//! [A-Z_]+: ")
  foreach(line ${lines})
    string(REGEX REPLACE "^//! ([A-Z_]+): .*" "\\1" define "${line}")
    string(REGEX REPLACE "^//! [A-Z_]+: " "" values "${line}")
    separate_arguments(values)
    if(define STREQUAL "WEIGHT")
      set(values ${TYPES_${values}})
    endif()
    set(products "")
    foreach(variant ${variants})
      string(REGEX REPLACE "^([^ ]+)(.*)$" "\\1" name "${variant}")
      string(REGEX REPLACE "^([^ ]+)(.*)$" "\\2" flags "${variant}")
      foreach(value ${values})
        string(TOUPPER ${value} upper)
        list(APPEND products "${name}.${value}${flags} -D${define}=${upper}")
      endforeach()
    endforeach()
    set(variants ${products})
  endforeach()
  set(${out} ${variants} PARENT_SCOPE)
endfunction()

function(tandem_kernels target folder)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.comp)
  file(GLOB includes CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.glsl)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  file(MAKE_DIRECTORY ${out})
  tandem_weight_types(${PROJECT_SOURCE_DIR}/src/base/dtypes.inc ${out}/dtypes.glsl)
  set(embeds "")
  set(entries "")
  set(modules "")
  set(names "")
  foreach(kernel ${kernels})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel})
    tandem_kernel_variants(${kernel} variants)
    foreach(variant ${variants})
      separate_arguments(flags UNIX_COMMAND "${variant}")
      list(POP_FRONT flags name)
      set(module ${out}/${name}.spv)
      set(named ${out}/${name}.named.spv)  # names go with the optimization, and contracts.h needs them
      # Debian 12's spirv-val does not know the KHR extension: a matrix kernel is checked as it comes from the compiler.
      set(compiled ${module})
      set(rewrite "")
      if(name MATCHES "\\.khr$")
        set(compiled ${out}/${name}.nv.spv)
        set(rewrite COMMAND Python3::Interpreter -B ${SPIRV_TOOLS}/matrix_khr.py ${compiled} ${module})
      endif()
      add_custom_command(
        OUTPUT ${module} ${named}
        COMMAND ${GLSLC} --target-env=vulkan1.3 ${flags} -I ${CMAKE_CURRENT_SOURCE_DIR}/${folder} -I ${out} ${kernel} -o ${named}
        COMMAND ${SPIRV_OPT} --target-env=vulkan1.3 --scalar-block-layout --strip-debug -O ${named} -o ${compiled}
        COMMAND ${SPIRV_VAL} --target-env vulkan1.3 --scalar-block-layout ${compiled}
        ${rewrite}
        DEPENDS ${kernel} ${includes} ${out}/dtypes.glsl ${SPIRV_TOOLS}/matrix_khr.py ${SPIRV_TOOLS}/spirv.py
        COMMENT "Compiling kernel ${name}")
      list(APPEND modules ${module})
      string(APPEND names "${variant}\n")
      string(MAKE_C_IDENTIFIER ${name} symbol)
      string(APPEND embeds "EMBED(tandem_kernel_${symbol}, \"${module}\");\n")
      string(APPEND entries
             "        {\"${name}\", words(tandem_kernel_${symbol}_begin, tandem_kernel_${symbol}_end)},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${out}/kernels.txt CONTENT "${names}" @ONLY)
  add_custom_command(
    OUTPUT ${out}/contracts.h
    COMMAND Python3::Interpreter -B ${SPIRV_TOOLS}/contracts.py ${out} ${out}/kernels.txt ${out}/contracts.h
    DEPENDS ${modules} ${out}/kernels.txt ${SPIRV_TOOLS}/contracts.py ${SPIRV_TOOLS}/reflect.py ${SPIRV_TOOLS}/spirv.py
    COMMENT "Reading the contracts of ${folder}")
  target_sources(${target} PRIVATE ${out}/contracts.h)
  target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  add_custom_target(${target}_contracts DEPENDS ${out}/contracts.h)  # for clang-tidy, which builds nothing
  add_dependencies(${target} ${target}_contracts)
  set(EMBEDS "${embeds}")
  set(ENTRIES "${entries}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/kernels.cpp.in ${out}/kernels.cpp @ONLY)
  # by itself: as a part of a larger source it would not be compiled again when a module changes
  set_source_files_properties(${out}/kernels.cpp PROPERTIES OBJECT_DEPENDS "${modules}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${out}/kernels.cpp)
endfunction()
