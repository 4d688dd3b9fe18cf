// Dispatches in a chain (vulkan/recorder.h) have no barrier between them: a workgroup loads what no other dispatch of the step
// writes, waits until all workgroups of the dispatch before have counted themselves, and counts itself at its end.
//
// What a dispatch before may have written is loaded after the wait only, and not from a core's cache: through the Made types,
// or, in kernels that load it again and again (CHAIN_ACQUIRES, in the Vulkan memory model), the wait empties the cache.

struct Chain {
    uint64_t counters;  // 0: no chain
    uint at;            // this dispatch's counter; the one before has the one before
    uint awaited;       // workgroups of the dispatch before; 0: it is over
};

layout(buffer_reference, scalar, buffer_reference_align = 8) coherent volatile buffer ChainCounters {
    uint64_t broken;  // where to say that a wait had no end
    uint at[];
};

// Seconds: the device cannot have begun the dispatches in their order.
const uint MOST_POLLS = 1u << 22;

#ifdef CHAIN_ACQUIRES

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer AtomicCounters {
    uint64_t broken;
    uint at[];
};
uint counted_before(Chain chain) {
    return atomicLoad(AtomicCounters(chain.counters).at[chain.at - 1u], gl_ScopeDevice, gl_StorageSemanticsBuffer,
                      gl_SemanticsAcquire | gl_SemanticsMakeVisible);
}

#else

uint counted_before(Chain chain) { return ChainCounters(chain.counters).at[chain.at - 1u]; }

shared uvec4 chain_counted;  // x alone; a word would move what follows off the 16 bytes that it is loaded by

#endif

// By one lane. Returns how many have counted themselves.
uint poll_chain(Chain chain) {
    uint polls = 0u;
    uint counted = counted_before(chain);
    while (counted < chain.awaited && ++polls < MOST_POLLS) counted = counted_before(chain);
    if (counted < chain.awaited) IntsOut(ChainCounters(chain.counters).broken).at[0] = 1;
    return counted;
}

#ifdef CHAIN_ACQUIRES

// By every lane.
void await_chain(Chain chain) {
    if (chain.awaited == 0u) return;
    if (gl_LocalInvocationIndex == 0u) poll_chain(chain);
    barrier();
}

#else

// By every lane. Returns 0, which the compiler cannot know: added to the addresses of what the dispatch before has written,
// it keeps their loads behind the wait.
uint64_t await_chain(Chain chain) {
    if (chain.awaited == 0u) return 0ul;
    if (gl_LocalInvocationIndex == 0u) chain_counted.x = poll_chain(chain);
    barrier();
    return uint64_t(chain_counted.x >> 31);  // no dispatch has so many workgroups
}

#endif

// By every lane, at its end.
void count_in_chain(Chain chain) {
    if (chain.counters == 0ul) return;
    memoryBarrierBuffer();  // what the workgroup has written is there before it is counted
    barrier();
    if (gl_LocalInvocationIndex == 0u) atomicAdd(ChainCounters(chain.counters).at[chain.at], 1u);
}
