# tandem_npu_sources(TARGET FOLDER): embeds the text of every FOLDER/*.cc and FOLDER/*.h in TARGET, for
# npu/kernel_sources.h: the vendor's compiler gets them from the program itself.
function(tandem_npu_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.h)
  set(embeds "")
  set(entries "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME)
    string(MAKE_C_IDENTIFIER "tandem_npu_source_${name}" symbol)
    string(APPEND embeds "EMBED(${symbol}, \"${source}\");\n")
    string(APPEND entries "        {\"${name}\", text_of(${symbol}_begin, ${symbol}_end)},\n")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/npu_kernel_sources.cpp)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
#include "base/embed.h"
#include "npu/kernel_sources.h"

@embeds@
namespace tandem::npu {
namespace {

std::string_view text_of(const std::byte* begin, const std::byte* end) {
    return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
}

}  // namespace

std::span<const KernelSource> kernel_sources() {
    static const KernelSource sources[] = {
@entries@    };
    return sources;
}

}  // namespace tandem::npu
]])
  target_sources(${target} PRIVATE ${file})
  set_source_files_properties(${file} PROPERTIES OBJECT_DEPENDS "${sources}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
