#include "hub/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "hub/catalog.h"
#include "hub/hub_cache.h"

namespace tandem::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kCommit(40, 'c');

class LibraryTest : public testing::Test {
  protected:
    void SetUp() override {
        root_ = fs::temp_directory_path() / fmt::format("tandem-library-{}", ::getpid());
        fs::remove_all(root_);
        places_.hub_cache = root_ / "hub";
        places_.own = root_ / "own";
        places_.ollama = {root_ / "ollama"};
        places_.llama_cpp = root_ / "llama.cpp";
        places_.lm_studio = root_ / "lm";
    }
    void TearDown() override { fs::remove_all(root_); }

    void put(const fs::path& path, const std::string& text = "GGUF") {
        fs::create_directories((root_ / path).parent_path());
        ASSERT_TRUE(write_file(root_ / path, text));
    }
    // As a program of the Hub leaves it.
    void cache(const std::string& repo, const std::string& path, char digit) {
        const HubCache cache(places_.hub_cache, repo);
        ASSERT_TRUE(cache.make_folders());
        const std::string etag(64, digit);
        ASSERT_TRUE(write_file(cache.blob(etag), "GGUF" + path));
        ASSERT_TRUE(cache.link(kCommit, path, etag));
        ASSERT_TRUE(cache.set_ref("main", kCommit, [] { return false; }));
    }
    std::vector<std::string> names() {
        std::vector<std::string> all;
        for (const LocalModel& model : find_models(places_)) all.push_back(model.name);
        return all;
    }

    fs::path root_;
    Places places_;
};

TEST_F(LibraryTest, FindsWhatAllProgramsHave) {
    cache("org/name", "m-Q4_K_M.gguf", '1');
    put("own/mine.gguf");
    put("llama.cpp/org_repo_m-Q8_0.gguf");
    put("lm/maker/model-GGUF/m-Q6_K.gguf");
    const std::string digest(64, 'd');
    put("ollama/blobs/sha256-" + digest);
    put("ollama/manifests/registry.ollama.ai/library/gemma3/4b",
        R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" + digest + R"("}]})");
    put("ollama/manifests/registry.ollama.ai/library/gone/latest",
        R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" + std::string(64, 'e') +
            R"("}]})");
    EXPECT_THAT(names(),
                ElementsAre("gemma3:4b", "maker/model-GGUF:Q6_K", "mine", "org/name:Q4_K_M", "org_repo_m-Q8_0"));
    EXPECT_EQ(find_model(places_, "gemma3:4b")->path, root_ / "ollama/blobs" / ("sha256-" + digest));
    EXPECT_EQ(find_model(places_, "hf.co/org/name")->path,
              places_.hub_cache / "models--org--name/snapshots" / kCommit / "m-Q4_K_M.gguf");
    EXPECT_FALSE(find_model(places_, "gone"));
    EXPECT_FALSE(find_model(places_, "org/name:Q8_0"));
}

TEST_F(LibraryTest, KnowsWhichOfARepositoryIsMeant) {
    cache("org/name", "m-Q8_0.gguf", '1');
    EXPECT_EQ(find_model(places_, "org/name")->name, "org/name:Q8_0");
    cache("org/name", "m-Q4_K_M.gguf", '2');
    EXPECT_EQ(find_model(places_, "org/name")->name, "org/name:Q4_K_M");
    EXPECT_EQ(find_model(places_, "org/name:q8_0")->name, "org/name:Q8_0");
    EXPECT_EQ(find_model(places_, "org/name:m-Q8_0.gguf")->name, "org/name:Q8_0");
}

TEST_F(LibraryTest, LeavesOutWhatIsNotWhole) {
    cache("org/name", "m-Q8_0-00001-of-00002.gguf", '1');
    EXPECT_THAT(names(), ElementsAre());
    cache("org/name", "m-Q8_0-00002-of-00002.gguf", '2');
    EXPECT_THAT(names(), ElementsAre("org/name:Q8_0"));
    cache("org/tensors", "config.json", '3');
    cache("org/tensors", "model-00001-of-00002.safetensors", '4');
    EXPECT_THAT(names(), ElementsAre("org/name:Q8_0"));
    cache("org/tensors", "model-00002-of-00002.safetensors", '5');
    EXPECT_THAT(names(), ElementsAre("org/name:Q8_0", "org/tensors:safetensors"));
}

TEST_F(LibraryTest, RemovesOnlyWhatNothingElseNeeds) {
    cache("org/name", "m-Q8_0.gguf", '1');
    cache("org/name", "copy/m-Q4_K_M.gguf", '1');  // the same blob
    ASSERT_TRUE(remove_model(places_, *find_model(places_, "org/name:Q4_K_M")));
    EXPECT_THAT(names(), ElementsAre("org/name:Q8_0"));
    ASSERT_TRUE(remove_model(places_, *find_model(places_, "org/name:Q8_0")));
    EXPECT_FALSE(fs::exists(places_.hub_cache / "models--org--name"));
    put("lm/maker/model/m-Q6_K.gguf");
    const Status kept = remove_model(places_, *find_model(places_, "maker/model:Q6_K"));
    ASSERT_FALSE(kept);
    EXPECT_THAT(kept.error().message, HasSubstr("belongs to LM Studio"));
}

TEST_F(LibraryTest, GivesModelsOtherNames) {
    cache("org/name", "m-Q8_0.gguf", '1');
    const fs::path path = find_model(places_, "org/name")->path;
    ASSERT_TRUE(name_model(places_, path, "me/my:latest"));
    EXPECT_EQ(find_model(places_, "me/my")->path, path);
    EXPECT_EQ(find_model(places_, "me/my:latest")->path, path);
    ASSERT_TRUE(remove_model(places_, *find_model(places_, "me/my")));
    EXPECT_THAT(names(), ElementsAre("org/name:Q8_0"));
    EXPECT_EQ(name_of_file(file_name_of("../a%b/c:d")), "../a%b/c:d");
    EXPECT_EQ(file_name_of("../a").find('/'), std::string::npos);
}

TEST(Places, FollowTheVariablesOfThePlatform) {
    std::map<std::string, std::string> variables = {{"HOME", "/nowhere/me"}};
    const auto look = [&] {
        return find_places([&](const char* name) -> const char* {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        });
    };
    EXPECT_EQ(look().hub_cache, "/nowhere/me/.cache/huggingface/hub");
    EXPECT_EQ(look().own, "/nowhere/me/.local/share/tandem/models");
    EXPECT_EQ(look().endpoint, "https://huggingface.co");
    EXPECT_FALSE(look().offline);
    variables.insert({{"XDG_CACHE_HOME", "/c"},
                      {"XDG_DATA_HOME", "/d"},
                      {"HF_ENDPOINT", "https://m.example/"},
                      {"HF_TOKEN", " hf_x\n"},
                      {"HF_HUB_OFFLINE", "1"},
                      {"OLLAMA_MODELS", "/o"}});
    EXPECT_EQ(look().hub_cache, "/c/huggingface/hub");
    EXPECT_EQ(look().own, "/d/tandem/models");
    EXPECT_EQ(look().endpoint, "https://m.example");
    EXPECT_EQ(look().token, "hf_x");
    EXPECT_TRUE(look().offline);
    EXPECT_EQ(look().ollama.front(), "/o");
    variables["HF_HOME"] = "/h";
    EXPECT_EQ(look().hub_cache, "/h/hub");
    variables["HF_HOME"] = "~/h";
    EXPECT_EQ(look().hub_cache, "/nowhere/me/h/hub");
    variables["HF_HOME"] = "models";
    EXPECT_EQ(look().hub_cache, std::filesystem::current_path() / "models/hub");
    variables["HF_HUB_CACHE"] = "/b";
    EXPECT_EQ(look().hub_cache, "/b");
}

TEST(Catalog, FindsNamesAndFamilies) {
    EXPECT_EQ(find_in_catalog("Gemma3:27B")->name, "gemma3:27b");
    EXPECT_EQ(find_in_catalog("gemma3")->name, "gemma3:4b");
    EXPECT_EQ(find_in_catalog("gemma3:5b"), nullptr);
    EXPECT_EQ(find_in_catalog(""), nullptr);
}

}  // namespace
}  // namespace tandem::hub
