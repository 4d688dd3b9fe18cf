#include "text/grammar/schema_references.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

constexpr size_t kMaxNameBytes = 1'000;  // of an address, and of the pointer to what it names

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
    return std::nullopt;
}

// "%25" -> "%", "~1" -> "/", "~0" -> "~"
std::string unescape_pointer(std::string_view part) {
    std::string percent;
    for (size_t i = 0; i < part.size(); ++i) {
        const auto high = part[i] == '%' && i + 2 < part.size() ? hex_digit(part[i + 1]) : std::nullopt;
        const auto low = high ? hex_digit(part[i + 2]) : std::nullopt;
        if (low) {
            percent += static_cast<char>(*high * 16 + *low);
            i += 2;
        } else {
            percent += part[i];
        }
    }
    return replace_all(replace_all(percent, "~1", "/"), "~0", "~");
}

std::string escape_pointer(std::string_view part) {
    return replace_all(replace_all(replace_all(part, "~", "~0"), "/", "~1"), "%", "%25");
}

// "https" of "https://..."; a path has none.
size_t scheme_length(std::string_view address) {
    const size_t end = address.find_first_of(":/?#");
    return end != std::string_view::npos && address[end] == ':' ? end : 0;
}

// "a/b/../c/./d" -> "a/c/d"
std::string without_dots(std::string_view path) {
    std::vector<std::string_view> parts;
    bool ends_in_folder = false;
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        ends_in_folder = part == "." || part == "..";
        if (part == "..") {
            if (!parts.empty() && (parts.size() > 1 || !parts[0].empty())) parts.pop_back();
        } else if (part != ".") {
            parts.push_back(part);
        }
        begin = end + 1;
    }
    if (ends_in_folder) parts.emplace_back();
    return fmt::format("{}", fmt::join(parts, "/"));
}

// RFC 3986, 5.2: what an address means where `base` is the one of the place it stands in. Both without fragment.
std::string resolve_address(std::string_view base, std::string_view address) {
    if (address.empty()) return std::string(base);
    if (scheme_length(address) > 0) return std::string(address);
    const size_t scheme_end = scheme_length(base) > 0 ? scheme_length(base) + 1 : 0;
    if (address.starts_with("//")) return fmt::format("{}{}", base.substr(0, scheme_end), address);
    base = base.substr(0, base.find('?'));
    if (address.starts_with("?")) return fmt::format("{}{}", base, address);
    const bool has_host = base.substr(scheme_end).starts_with("//");
    const size_t path_begin = has_host ? std::min(base.find('/', scheme_end + 2), base.size()) : scheme_end;
    const std::string_view before = base.substr(0, path_begin);
    const std::string_view query = address.substr(std::min(address.find('?'), address.size()));
    address.remove_suffix(query.size());
    if (address.starts_with("/")) return fmt::format("{}{}{}", before, without_dots(address), query);
    const std::string_view path = base.substr(path_begin);
    const size_t slash = path.rfind('/');
    const std::string folder =
        slash != std::string_view::npos ? std::string(path.substr(0, slash + 1)) : std::string(has_host ? "/" : "");
    return fmt::format("{}{}{}", before, without_dots(folder + std::string(address)), query);
}

enum class Holds { schema, list, map };

// Where a schema has schemas. "items" may be a list as well.
constexpr std::array<std::pair<std::string_view, Holds>, 22> kSubschemas = {{
    {"allOf", Holds::list},
    {"anyOf", Holds::list},
    {"oneOf", Holds::list},
    {"prefixItems", Holds::list},
    {"items", Holds::schema},
    {"additionalItems", Holds::schema},
    {"contains", Holds::schema},
    {"unevaluatedItems", Holds::schema},
    {"additionalProperties", Holds::schema},
    {"propertyNames", Holds::schema},
    {"unevaluatedProperties", Holds::schema},
    {"properties", Holds::map},
    {"patternProperties", Holds::map},
    {"dependentSchemas", Holds::map},
    {"dependencies", Holds::map},
    {"$defs", Holds::map},
    {"definitions", Holds::map},
    {"not", Holds::schema},
    {"if", Holds::schema},
    {"then", Holds::schema},
    {"else", Holds::schema},
    {"contentSchema", Holds::schema},
}};

template <typename AnyJson>
AnyJson* walk_pointer(AnyJson& from, std::string_view pointer) {
    AnyJson* at = &from;
    while (!pointer.empty()) {
        pointer.remove_prefix(1);
        const std::string part = unescape_pointer(pointer.substr(0, pointer.find('/')));
        pointer.remove_prefix(std::min(pointer.find('/'), pointer.size()));
        AnyJson* next = nullptr;
        if (at->is_object()) {
            const auto found = at->find(part);
            if (found != at->end()) next = &*found;
        } else if (at->is_array() && !part.empty() && part.size() < 6 &&
                   part.find_first_not_of("0123456789") == std::string::npos) {
            const auto index = static_cast<size_t>(std::stoul(part));
            if (index < at->size()) next = &(*at)[index];
        }
        if (next == nullptr) return nullptr;
        at = next;
    }
    return at;
}

class ReferenceResolver {
  public:
    explicit ReferenceResolver(Json& root) : root_(root) {
        const Json* version = root.is_object() ? keyword(root, "$schema") : nullptr;
        const std::string name = version != nullptr && version->is_string() ? version->get<std::string>() : "";
        if (name.find("draft-03") != std::string::npos || name.find("draft-04") != std::string::npos) id_ = "id";
    }

    Status run() {
        TRY(index(root_, nullptr));
        // NOLINTNEXTLINE(modernize-loop-convert): more come while targets are looked at
        for (size_t i = 0; i < uses_.size(); ++i) {
            const Use use = uses_[i];
            *use.reference = TRY(resolve(use.reference->get<std::string>(), *use.base));
        }
        return Ok{};
    }

  private:
    struct Use {
        Json* reference = nullptr;
        const std::string* base = nullptr;
    };

    Error name_error(std::string_view keyword, std::string_view message) const {
        const std::string place = fmt::format("{}/{}", fmt::join(path_, ""), keyword);
        return fail("schema at {}: {}", to_valid_utf8(place.substr(0, kMaxNameBytes)), message);
    }

    // Of the schema that is looked at. It is written into every reference by name, so that it must be short.
    Result<std::string> pointer(std::string_view keyword) const {
        size_t size = 0;
        for (const std::string& part : path_) size += part.size();
        if (size > kMaxNameBytes)
            return name_error(keyword, fmt::format("the way to it has more than {} bytes", kMaxNameBytes));
        return fmt::format("{}", fmt::join(path_, ""));
    }

    // Finds the names of this schema and of those in it, and the places that use names. `base` is the address of the
    // resource that it is in.
    Status index(Json& schema, const std::string* base) {
        if (!schema.is_object() || !seen_.insert(&schema).second) return Ok{};
        TRY(read_id(schema, base));
        if (const Json* anchor = keyword(schema, "$anchor"); anchor != nullptr && anchor->is_string())
            TRY(add_anchor("$anchor", *base, anchor->get<std::string>()));
        const auto reference = schema.find("$ref");
        if (reference != schema.end() && reference->is_string()) uses_.push_back({&*reference, base});
        for (auto& [name, value] : schema.items()) {
            const auto subschemas = std::find_if(kSubschemas.begin(), kSubschemas.end(),
                                                 [&name = name](const auto& known) { return known.first == name; });
            if (subschemas == kSubschemas.end()) continue;
            path_.push_back("/" + name);
            TRY(index_parts(value, subschemas->second, base));
            path_.pop_back();
        }
        return Ok{};
    }

    Status index_parts(Json& value, Holds holds, const std::string* base) {
        const auto part = [&](std::string_view key, Json& schema) -> Status {
            path_.push_back("/" + escape_pointer(key));
            TRY(index(schema, base));
            path_.pop_back();
            return Ok{};
        };
        if (value.is_array()) {
            for (size_t i = 0; i < value.size(); ++i) TRY(part(std::to_string(i), value[i]));
        } else if (holds == Holds::map && value.is_object()) {
            for (auto& [key, schema] : value.items()) TRY(part(key, schema));
        } else {
            return index(value, base);
        }
        return Ok{};
    }

    // The base for what is in the schema; the root has one in any case.
    Status read_id(const Json& schema, const std::string*& base) {
        const Json* id = keyword(schema, id_);
        const std::string text = id != nullptr && id->is_string() ? id->get<std::string>() : "";
        const size_t hash = std::min(text.find('#'), text.size());
        if (hash > 0 && hash + 1 < text.size()) return name_error(id_, "it has a fragment: use $anchor to name a part");
        if (hash > 0 || base == nullptr) {
            const std::string before = base == nullptr ? "" : *base;
            std::string address = resolve_address(before, std::string_view(text).substr(0, hash));
            if (address.size() > kMaxNameBytes)
                return name_error(id_, fmt::format("it has more than {} bytes", kMaxNameBytes));
            const auto [added, is_new] = resources_.emplace(std::move(address), TRY(pointer(id_)));
            if (!is_new) return name_error(id_, fmt::format("'{}' names two schemas", to_valid_utf8(text)));
            base = &added->first;
        }
        if (hash == 0 && text.size() > 1) return add_anchor(id_, *base, text.substr(1));  // until 2019 written so
        return Ok{};
    }

    Status add_anchor(std::string_view keyword, const std::string& base, const std::string& name) {
        if (!anchors_.emplace(base + "#" + name, TRY(pointer(keyword))).second)
            return name_error(keyword, fmt::format("'{}' names two schemas", to_valid_utf8(name.substr(0, 200))));
        return Ok{};
    }

    Result<std::string> resolve(const std::string& reference, const std::string& base) {
        const std::string key = base + " " + reference;
        if (const auto known = known_.find(key); known != known_.end()) return known->second;
        const size_t hash = std::min(reference.find('#'), reference.size());
        const std::string address = resolve_address(base, std::string_view(reference).substr(0, hash));
        const std::string fragment = reference.substr(std::min(hash + 1, reference.size()));
        std::string target = address.empty() ? reference : fmt::format("{}#{}", address, fragment);
        if (!fragment.empty() && fragment[0] != '/') {
            const auto anchor = anchors_.find(address + "#" + fragment);
            if (anchor != anchors_.end()) target = "#" + anchor->second;
        } else if (const auto resource = resources_.find(address); resource != resources_.end()) {
            const std::string pointer = resource->second + fragment;
            if (Json* found = walk_pointer(root_, pointer)) {
                target = "#" + pointer;
                // Where no keyword holds schemas, as under "x-parts", only a reference tells that there is one.
                path_ = {pointer};
                TRY(index(*found, &resource->first));
            }
        }
        known_.emplace(key, target);
        return target;
    }

    Json& root_;
    const char* id_ = "$id";
    std::unordered_map<std::string, std::string> resources_;  // pointers by address
    std::unordered_map<std::string, std::string> anchors_;    // pointers by address#name
    std::unordered_map<std::string, std::string> known_;      // what references were resolved to
    std::unordered_set<const Json*> seen_;
    std::vector<Use> uses_;
    std::vector<std::string> path_;  // the parts of the pointer to the schema that is looked at
};

}  // namespace

Status resolve_references(Json& root) {
    return ReferenceResolver(root).run();
}

const Json* find_pointer(const Json& from, std::string_view pointer) {
    return walk_pointer(from, pointer);
}

}  // namespace tandem::text::grammar
