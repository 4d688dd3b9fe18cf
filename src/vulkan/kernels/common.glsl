// What every kernel shares: extensions, and the ways memory is seen through a device address.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer FloatsOut { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Float4s { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer Halves { float16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer HalvesOut { float16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) readonly buffer Shorts { uint16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) readonly buffer Bytes { uint8_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Ints { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer IntsOut { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Uints { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Uint2s { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Uint4s { uvec4 at[]; };

// What MATRIX may be.
#define SCALAR 0
#define KHR 1

float largest_of(vec4 value) {
    const vec4 magnitude = abs(value);
    return max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w));
}

// What other dispatches of the same step make (kernels/chain.glsl): neither constant nor in a cache of a core.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer MadeFloats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer MadeFloat2s { vec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer MadeFloat4s { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) coherent buffer MadeShorts { uint16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer MadeUint2s { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer MadeUint4s { uvec4 at[]; };
