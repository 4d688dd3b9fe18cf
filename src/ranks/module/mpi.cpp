// The module libtandem-mpi.so: a Transport over MPI, of which only what every version has is used.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <deque>
#include <limits>
#include <map>
#include <string>

#include "base/module.h"
#include "ranks/transport.h"

TANDEM_MODULE_VERSION()

namespace tandem::ranks {

namespace {

Status check(int code, const char* what) {
    if (code == MPI_SUCCESS) return Ok{};
    std::string text(MPI_MAX_ERROR_STRING, '\0');
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    text.resize(static_cast<size_t>(length));
    return fail("MPI: {}: {}", what, text);
}

class MpiTransport final : public Transport {
  public:
    Status open() override;
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    Result<uint64_t> send(int to, std::span<const std::byte> bytes) override;
    Result<bool> sent(uint64_t ticket) override;
    Result<std::optional<Incoming>> receive() override;
    void abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }
    void close() override { MPI_Finalize(); }

  private:
    // A message that is on its way here.
    struct Arrival {
        Incoming incoming;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    Status begin_arrivals();

    int rank_ = 0;
    int size_ = 0;
    uint64_t last_ticket_ = 0;
    std::map<uint64_t, MPI_Request> sends_;
    std::deque<Arrival> arrivals_;  // in the order in which they were sent, as far as they are of one rank
};

Status MpiTransport::open() {
    int has = 0;
    TRY(check(MPI_Initialized(&has), "MPI_Initialized"));
    if (has != 0) return fail("MPI is in use already");
    int level = 0;
    TRY(check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread"));
    if (level < MPI_THREAD_FUNNELED)
        return fail("this MPI knows no threads: use one built with them (Debian: openmpi)");
    TRY(check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank"));
    return check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

Result<uint64_t> MpiTransport::send(int to, std::span<const std::byte> bytes) {
    if (bytes.size() > std::numeric_limits<int>::max())
        return fail("a message of {} bytes: MPI carries 2 GiB; choose smaller steps", bytes.size());
    MPI_Request request = MPI_REQUEST_NULL;
    TRY(check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, MPI_COMM_WORLD, &request),
              "MPI_Isend"));
    sends_[++last_ticket_] = request;
    return last_ticket_;
}

Result<bool> MpiTransport::sent(uint64_t ticket) {
    const auto found = sends_.find(ticket);
    int done = 0;
    TRY(check(MPI_Test(&found->second, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) sends_.erase(found);
    return done != 0;
}

Status MpiTransport::begin_arrivals() {
    for (;;) {
        int there = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        TRY(check(MPI_Improbe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &message, &status), "MPI_Improbe"));
        if (there == 0) return Ok{};
        int count = 0;
        TRY(check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
        Arrival& arrival = arrivals_.emplace_back();
        arrival.incoming = {.from = status.MPI_SOURCE, .bytes = std::vector<std::byte>(static_cast<size_t>(count))};
        TRY(check(MPI_Imrecv(arrival.incoming.bytes.data(), count, MPI_BYTE, &message, &arrival.request),
                  "MPI_Imrecv"));
    }
}

// Small messages overtake large ones of other ranks, but never those of their own.
Result<std::optional<Transport::Incoming>> MpiTransport::receive() {
    TRY(begin_arrivals());
    std::vector<bool> waits(static_cast<size_t>(size_), false);
    for (auto arrival = arrivals_.begin(); arrival != arrivals_.end(); ++arrival) {
        const auto from = static_cast<size_t>(arrival->incoming.from);
        if (waits[from]) continue;
        int done = 0;
        TRY(check(MPI_Test(&arrival->request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
        if (done == 0) {
            waits[from] = true;
            continue;
        }
        Incoming incoming = std::move(arrival->incoming);
        arrivals_.erase(arrival);
        return std::optional(std::move(incoming));
    }
    return std::optional<Incoming>();
}

}  // namespace

// Whoever calls it owns what it returns.
TANDEM_MODULE_EXPORT Transport* tandem_mpi_transport() {
    return new MpiTransport;
}

}  // namespace tandem::ranks
