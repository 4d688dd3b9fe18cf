// The angles that heads are turned by.

// (cos, sin) of position * turn, where `turn` counts whole turns in 2^64ths. The product drops the whole turns by itself and
// is exact for any position; what is left lies in [-1/8, 1/8] turns of a quadrant, where a polynomial is.
vec2 cos_sin(int position, uint64_t turn) {
    const uint phase = uint((uint64_t(position) * turn) >> 32);
    const uint quadrant = (phase + 0x20000000u) >> 30;
    const float r = float(int(phase - (quadrant << 30))) * 1.4629180792671596e-9;  // 2 pi / 2^32
    const float r2 = r * r;
    const float s = r + r * r2 * (-1.6666654611e-1 + r2 * (8.3321608736e-3 - r2 * 1.9515295891e-4));
    const float c =
        1.0 - 0.5 * r2 + r2 * r2 * (4.166664568298827e-2 + r2 * (-1.388731625493765e-3 + r2 * 2.443315711809948e-5));
    const vec2 turned = (quadrant & 1u) == 0u ? vec2(c, s) : vec2(-s, c);
    return (quadrant & 2u) == 0u ? turned : -turned;
}

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Turns { uint64_t at[]; };
