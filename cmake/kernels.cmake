# tandem_kernels(TARGET FOLDER): compiles every FOLDER/*.comp to SPIR-V and embeds it in TARGET. A line
# "//! NAME: a b c" in a kernel makes one of it for each value, named kernel.a, kernel.b, ..., with NAME defined as A, B,
# ...; with two such lines there is one for each pair of values, kernel.a.x, kernel.a.y, ...
# The value khr means that the kernel uses NV cooperative matrices, which are rewritten to the KHR extension.
find_program(GLSLC glslc REQUIRED)
find_program(SPIRV_VAL spirv-val REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(MATRIX_KHR ${PROJECT_SOURCE_DIR}/tools/spirv/matrix_khr.py)

# Sets `out` to the variants of a kernel, each as "name flag flag ...".
function(tandem_kernel_variants kernel out)
  get_filename_component(variants ${kernel} NAME_WE)
  file(STRINGS ${kernel} lines REGEX "^//! [A-Z_]+: ")
  foreach(line ${lines})
    string(REGEX REPLACE "^//! ([A-Z_]+): .*" "\\1" define "${line}")
    string(REGEX REPLACE "^//! [A-Z_]+: " "" values "${line}")
    separate_arguments(values)
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
  set(embeds "")
  set(entries "")
  set(modules "")
  foreach(kernel ${kernels})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel})
    tandem_kernel_variants(${kernel} variants)
    foreach(variant ${variants})
      separate_arguments(flags UNIX_COMMAND "${variant}")
      list(POP_FRONT flags name)
      set(module ${out}/${name}.spv)
      # Debian 12's spirv-val does not know the KHR extension: a matrix kernel is checked as it comes from the compiler.
      set(compiled ${module})
      set(rewrite "")
      if(name MATCHES "\\.khr$")
        set(compiled ${out}/${name}.nv.spv)
        set(rewrite COMMAND Python3::Interpreter -B ${MATRIX_KHR} ${compiled} ${module})
      endif()
      add_custom_command(
        OUTPUT ${module}
        COMMAND ${GLSLC} --target-env=vulkan1.3 -O ${flags} -I ${CMAKE_CURRENT_SOURCE_DIR}/${folder} ${kernel} -o ${compiled}
        COMMAND ${SPIRV_VAL} --target-env vulkan1.3 --scalar-block-layout ${compiled}
        ${rewrite}
        DEPENDS ${kernel} ${includes} ${MATRIX_KHR}
        COMMENT "Compiling kernel ${name}")
      list(APPEND modules ${module})
      string(MAKE_C_IDENTIFIER ${name} symbol)
      string(APPEND embeds "EMBED(tandem_kernel_${symbol}, \"${module}\");\n")
      string(APPEND entries
             "        {\"${name}\", words(tandem_kernel_${symbol}_begin, tandem_kernel_${symbol}_end)},\n")
    endforeach()
  endforeach()
  set(EMBEDS "${embeds}")
  set(ENTRIES "${entries}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/kernels.cpp.in ${out}/kernels.cpp @ONLY)
  # by itself: as a part of a larger source it would not be compiled again when a module changes
  set_source_files_properties(${out}/kernels.cpp PROPERTIES OBJECT_DEPENDS "${modules}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${out}/kernels.cpp)
endfunction()
