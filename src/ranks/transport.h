// Transport: messages between the ranks of a job, one after the other between any two; nothing else is asked of MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace tandem::ranks {

// One thread makes all calls, open() first.
class Transport {
  public:
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    virtual Status open() = 0;
    // After open().
    virtual int rank() const = 0;
    virtual int size() const = 0;

    // `bytes` stay where they are until sent() says so of what this returns.
    virtual Result<uint64_t> send(int to, std::span<const std::byte> bytes) = 0;
    virtual Result<bool> sent(uint64_t ticket) = 0;

    struct Incoming {
        int from = 0;
        std::vector<std::byte> bytes;
    };
    // The next message that is there as a whole, in the order in which its sender sent them.
    virtual Result<std::optional<Incoming>> receive() = 0;

    // Ends the whole job, with this process: after a rank was lost nothing else would.
    virtual void abort(int exit_code) = 0;
    // When all ranks come to their end.
    virtual void close() = 0;
};

}  // namespace tandem::ranks
