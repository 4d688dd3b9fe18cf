// App: what the server does with a request, free of sockets: who may, which route, which answer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/access_log.h"
#include "server/exchange.h"
#include "server/guard.h"
#include "server/keys.h"
#include "server/limits.h"
#include "server/metrics.h"
#include "server/model_pool.h"
#include "server/monitor.h"
#include "server/pulls.h"
#include "server/service.h"

namespace tandem::server {

struct Route;

struct AppOptions {
    GuardRules guard;
    Keys keys;                  // none: anybody who reaches the server may do anything
    bool open_metrics = false;  // /metrics needs no key
    LimitRules limits;
    ServiceOptions service;
    std::string version;
    std::unique_ptr<AccessLog> log;  // null: none
    int worker_threads = 2;
    std::chrono::milliseconds heartbeat{15'000};            // of streams that have nothing to say
    std::function<std::vector<StageSample>()> stages = {};  // of ranks, where a model is shared among some
};

// One request on its way through.
struct Call {
    RequestHead head;
    Target target;
    const Route* route = nullptr;
    bool may_administrate = false;
    Limits::Ticket ticket;
    Headers headers;  // that the answer gets whatever it is
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::string body;
    std::shared_ptr<void> room;  // that the body takes of what all may have, until it is parsed
    std::string name;            // the rest of the path, where the route has one

    std::mutex mutex;  // of what follows
    AccessEntry entry;
};
using CallPtr = std::shared_ptr<Call>;

// What is in the body of a call, which is then gone.
Result<Json> take_body(Call& call);

class App {
  public:
    // `pool` must outlive it.
    App(ModelPool& pool, AppOptions options);

    // As soon as the head of a request is there, before its body is read. A refusal is the whole answer.
    struct Admission {
        CallPtr call;
        std::optional<Response> refusal;
    };
    Admission admit(RequestHead head, std::string remote);
    // The body is in the call.
    std::shared_ptr<Exchange> handle(const CallPtr& call);
    // All of the answer is there: who has read it to its end may ask again, whatever the limit of its key.
    void free_place(Call& call) { call.ticket.reset(); }
    // One that was admitted is no longer under way.
    void ended(const Call& call);
    // The first of some tokens had left the engine so long before they were written to the client.
    void sent_after(std::chrono::steady_clock::duration delay);
    // For the log: the answer, or the refusal, is sent as far as it went.
    void finished(Call& call, int status, uint64_t sent_bytes);
    // What did not even become a request.
    Response refuse(const ApiError& error) const;

    // From now on /health says that the server ends, so that balancers send new work elsewhere,
    void announce_end();
    // and from now on it is refused.
    void drain();
    int under_way() const { return under_way_; }  // of the requests that generate

  private:
    friend struct Endpoints;

    Reply<Ok> authorize(Call& call) const;
    Reply<Ok> find_route(Call& call);
    void report_load(Call& call);
    void work(const std::shared_ptr<AnswerExchange>& exchange, std::function<void()> task);
    std::shared_ptr<Exchange> answer(const CallPtr& call, const Dialect& dialect);
    void load_only(const CallPtr& call, Ask ask, const std::shared_ptr<AnswerExchange>& exchange);
    void record(Call& call, const AnswerRecord& record);

    ModelPool& pool_;
    AppOptions options_;
    Metrics metrics_;
    Monitor monitor_;
    Limits limits_;
    std::atomic<bool> ending_ = false;    // /health says so
    std::atomic<bool> draining_ = false;  // and no new work is taken
    std::atomic<int> under_way_ = 0;
    Pulls pulls_;
    Workers workers_;  // last: its threads use the rest
    Service service_;
};

}  // namespace tandem::server
