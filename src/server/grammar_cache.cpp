#include "server/grammar_cache.h"

#include "server/sse.h"

namespace tandem::server {

namespace {

Result<text::CompiledGrammarPtr> compile(const ResponseFormat& format) {
    switch (format.kind) {
        case FormatKind::json_schema:
            return text::compile_json_schema(format.source);
        case FormatKind::gbnf:
            return text::compile_gbnf(format.source);
        case FormatKind::regex:
            return text::compile_regex(format.source);
        case FormatKind::choice:
            return text::compile_choice(Json::parse(format.source).get<std::vector<std::string>>());
        default:
            return text::compile_json_object();
    }
}

std::string key_of(const ResponseFormat& format) {
    return static_cast<char>('0' + static_cast<int>(format.kind)) + format.source;
}

}  // namespace

Reply<GrammarCache::Masks> GrammarCache::find(const ResponseFormat& format) {
    if (format.kind == FormatKind::text) return Masks();
    return find_or_make(key_of(format), "response_format", [&] { return compile(format); });
}

Reply<GrammarCache::Masks> GrammarCache::find(const text::CallRules& calls) {
    // The format is the model's.
    const std::string key =
        fmt::format("calls {} {} {} {}", calls.several, calls.with_text, calls.begins_in_reasoning, dump(calls.tools));
    return find_or_make(key, "tools", [&] { return text::compile_calls(calls); });
}

template <typename Compile>
Reply<GrammarCache::Masks> GrammarCache::find_or_make(const std::string& key, const char* field, Compile compile) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = by_key_.find(key);
        if (found != by_key_.end()) {
            items_.splice(items_.begin(), items_, found->second);
            return found->second->masks;
        }
    }
    Result<text::CompiledGrammarPtr> compiled = compile();
    if (!compiled) return bad_request(field, "{}", compiled.error().message);
    Masks masks = TRY(engine_.masks_for(std::move(*compiled)));

    const std::lock_guard lock(mutex_);
    if (by_key_.contains(key)) return masks;  // another thread was faster
    items_.push_front({key, masks});
    by_key_[key] = items_.begin();
    if (items_.size() > kMost) {
        by_key_.erase(items_.back().key);
        items_.pop_back();
    }
    return masks;
}

}  // namespace tandem::server
