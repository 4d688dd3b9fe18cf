// Functions whose built-in forms may overflow or are not precise enough.

// 1 - 2 / (e^2x + 1) overflows at neither end; near zero, where it would cancel, the series.
float safe_tanh(float x) {
    const float x2 = x * x;
    if (x2 < 0.0625) {
        return x * (1.0 + x2 * (-0.333333333 + x2 * (0.133333333 + x2 * (-0.0539682540 + x2 * 0.0218694885))));
    }
    return 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
}

// Abramowitz and Stegun 7.1.26 has an error of 1.5e-7.
float erf_of(float x) {
    const float t = 1.0 / (1.0 + 0.3275911 * abs(x));
    const float y = 1.0 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp(-x * x);
    return x < 0.0 ? -y : y;
}

// The enum op::Activation: silu, gelu_tanh, gelu_erf; clamped has a GLU of its own.
float activate(uint kind, float x) {
    if (kind == 0u) return x / (1.0 + exp(-x));
    // 0.5 (1 + tanh(u)) is 1 / (1 + e^-2u)
    if (kind == 1u) return x / (1.0 + exp(-1.59576912160573 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1.0 + erf_of(x * 0.707106781186548));
}

// activation(gate) * up
float gated(uint kind, float gate, float up) {
    if (kind != 3u) return activate(kind, gate) * up;
    const float g = min(gate, 7.0);
    return g / (1.0 + exp(-1.702 * g)) * (1.0 + clamp(up, -7.0, 7.0));
}
