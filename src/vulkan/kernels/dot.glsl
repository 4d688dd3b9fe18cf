// Sums of four products of int8 packed in 32 bits, by the device's own instruction (OpSDot, which glslc has no name for).
#extension GL_EXT_spirv_intrinsics : require

// 6018 and 6019: DotProductInput4x8BitPacked and DotProduct; the literal 0 says that 32 bits hold four int8.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int packed_4x8);

int dot4(uint a, uint b, int sum) { return sum + packed_dot(a, b, 0); }
