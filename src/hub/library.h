// The models on this machine: Tandem's own, those in the cache of the Hub, and what other programs have downloaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/places.h"

namespace tandem::hub {

enum class Owner : uint8_t { tandem, hugging_face, ollama, llama_cpp, lm_studio };
std::string_view name(Owner owner);

struct LocalModel {
    std::string name;            // by which it is asked for: "org/name:Q4_K_M", "gemma3:4b"
    std::filesystem::path path;  // to be opened
    std::vector<std::filesystem::path> files;
    uint64_t size_bytes = 0;
    int64_t changed_s = 0;
    Owner owner = Owner::tandem;
    bool is_default = false;  // of its repository: the one that its name without a tag means
};

// All that is whole, by name; what cannot be read is left out.
std::vector<LocalModel> find_models(const Places& places);

// What fetches that were interrupted have left, by the names of repositories and of files: it can be removed, too.
std::vector<LocalModel> find_unfinished(const Places& places);

// The model of this name, whoever has it; nothing when there is none. A repository without a tag means the quantization
// that would be fetched, or the only one that is there.
std::optional<LocalModel> find_model(const Places& places, std::string_view name);

// Removes its files, but for those that another model needs. Only of those that Tandem may write: its own and the
// Hub's.
Status remove_model(const Places& places, const LocalModel& model);

// Gives a model another name, without a copy of it.
Status name_model(const Places& places, const std::filesystem::path& path, std::string_view name);

// ---- The parts of it, each of one program

std::vector<LocalModel> find_own(const std::filesystem::path& folder);
std::vector<LocalModel> find_in_hub_cache(const std::filesystem::path& folder);
std::vector<LocalModel> find_in_ollama(const std::filesystem::path& folder);
std::vector<LocalModel> find_in_llama_cpp(const std::filesystem::path& folder);
std::vector<LocalModel> find_in_lm_studio(const std::filesystem::path& folder);

// The digest ("sha256:...") of the model in a manifest of Ollama, the only layer that holds weights.
Result<std::string> parse_manifest(std::string_view json, std::string_view name);
// A name as one part of a path, and back.
std::string file_name_of(std::string_view name);
std::string name_of_file(std::string_view file);

}  // namespace tandem::hub
