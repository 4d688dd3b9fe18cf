// Places: where models lie on this machine, Tandem's and those of other programs, and how the Hub is reached.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::hub {

// All of it follows the variables that the platform defines: those of XDG, of Hugging Face, of Ollama and of llama.cpp.
struct Places {
    std::filesystem::path hub_cache;            // of Hugging Face's programs, shared with them
    std::filesystem::path own;                  // files of plain addresses, and names that were given to models
    std::vector<std::filesystem::path> ollama;  // folders with manifests/ and blobs/
    std::filesystem::path llama_cpp;            // its older cache
    std::filesystem::path lm_studio;

    std::string endpoint = "https://huggingface.co";  // or a mirror; without a slash at its end
    std::string token;                                // for the endpoint alone; empty: none
    std::string certificates;                         // a file of authorities to trust; empty: the system's
    bool offline = false;                             // no request is made
};

// The value of a variable, or null.
using Variables = std::function<const char*(const char* name)>;

// Of the process's environment, but for tests. Paths are empty where there is no home.
Places find_places(const Variables& variables);
Places find_places();

}  // namespace tandem::hub
