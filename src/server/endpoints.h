// What the routes without a dialect do.
#pragma once

#include <functional>
#include <memory>

#include "server/app.h"

namespace tandem::server {

struct Endpoints {
    using Exchanged = std::shared_ptr<Exchange>;

    static Exchanged root(App& app, const CallPtr& call);  // the page for browsers, Ollama's word for others
    static Exchanged page(App& app, const CallPtr& call);
    static Exchanged health(App& app, const CallPtr& call);
    static Exchanged metrics(App& app, const CallPtr& call);
    static Exchanged description(App& app, const CallPtr& call);  // openapi.json
    static Exchanged live(App& app, const CallPtr& call);
    static Exchanged tokenize(App& app, const CallPtr& call);
    static Exchanged detokenize(App& app, const CallPtr& call);
    static Exchanged models(App& app, const CallPtr& call);
    static Exchanged model(App& app, const CallPtr& call);
    static Exchanged count_tokens(App& app, const CallPtr& call);
    static Exchanged ollama_tags(App& app, const CallPtr& call);
    static Exchanged ollama_ps(App& app, const CallPtr& call);
    static Exchanged ollama_show(App& app, const CallPtr& call);
    static Exchanged ollama_version(App& app, const CallPtr& call);
    static Exchanged ollama_pull(App& app, const CallPtr& call);
    static Exchanged ollama_delete(App& app, const CallPtr& call);
    static Exchanged ollama_copy(App& app, const CallPtr& call);
    static Exchanged ollama_create(App& app, const CallPtr& call);
    static Exchanged catalog(App& app, const CallPtr& call);  // models to pull, and which fit this machine

  private:
    class Answering;
    using OnBody = std::function<void(Json body, const Answering& answering)>;
    static Exchanged with_body(App& app, const CallPtr& call, OnBody then);
    using OnModel = std::function<Reply<Json>(const Json& body, LoadedModel& model)>;
    static Exchanged with_model(App& app, const CallPtr& call, OnModel then);
};

}  // namespace tandem::server
