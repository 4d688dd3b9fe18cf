#include "server/model_pool.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "cpu/backend.h"

namespace tandem::server {
namespace {

PoolOptions options() {
    PoolOptions pool;
    pool.engine = {.context = 128, .sequences = 2};
    pool.open_device = [](uint64_t) { return cpu::make_backend({.threads = 1}); };
    return pool;
}

Reply<ModelPool::Use> acquire(ModelPool& pool, const std::string& name, std::optional<double> keep_alive_s = {}) {
    std::promise<Reply<ModelPool::Use>> promise;
    pool.acquire(name, keep_alive_s, [&](Reply<ModelPool::Use> use) { promise.set_value(std::move(use)); });
    return promise.get_future().get();
}

// A folder with the embedded model under other names.
class ModelFolder {
  public:
    ModelFolder() : path_(std::filesystem::path(testing::TempDir()) / "tandem-model-pool") {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directories(path_);
        for (const char* const name : {"one.gguf", "two.gguf"}) {
            const auto bytes = engine::embedded_models().front().gguf;
            std::ofstream(path_ / name).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
        }
        std::ofstream(path_ / "notes.txt") << "no model";
    }
    ~ModelFolder() { std::filesystem::remove_all(path_); }
    ModelFolder(const ModelFolder&) = delete;
    ModelFolder& operator=(const ModelFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

TEST(ModelPool, HasTheEmbeddedModelByDefault) {
    const auto pool = ModelPool::open(options());
    ASSERT_TRUE(pool) << pool.error().message;
    (*pool)->start();
    const Reply<ModelPool::Use> use = acquire(**pool, "");
    ASSERT_TRUE(use) << use.error().message;
    EXPECT_EQ(use->name(), engine::embedded_models().front().name);
    EXPECT_EQ((*pool)->start_progress(), 1);
    EXPECT_EQ((*pool)->card("")->context, 128);
}

TEST(ModelPool, RefusesNamesThatItDoesNotList) {
    const auto pool = ModelPool::open(options());
    ASSERT_TRUE(pool);
    for (const char* const name : {"gpt-4", "../tales", "/etc/passwd", "tales/../tales"}) {
        const Reply<ModelPool::Use> use = acquire(**pool, name);
        ASSERT_FALSE(use) << name;
        EXPECT_EQ(use.error().status, 404);
    }
}

TEST(ModelPool, FailsForAModelThatIsNotThere) {
    PoolOptions wrong = options();
    wrong.models = {{.source = "no-such.gguf"}};
    EXPECT_FALSE(ModelPool::open(std::move(wrong)));
}

TEST(ModelPool, LoadsOnDemandAndUnloadsWhatNobodyNeeds) {
    const ModelFolder folder;
    PoolOptions wanted = options();
    wanted.folder = folder.path();
    wanted.keep_alive_s = -1;
    const auto pool = ModelPool::open(std::move(wanted));
    ASSERT_TRUE(pool) << pool.error().message;
    (*pool)->start();
    EXPECT_EQ((*pool)->list().size(), 3U);
    EXPECT_EQ((*pool)->card("one")->state, ModelState::unloaded);
    {
        const Reply<ModelPool::Use> use = acquire(**pool, "one:latest");
        ASSERT_TRUE(use) << use.error().message;
        EXPECT_EQ((*pool)->card("one")->state, ModelState::ready);
        EXPECT_TRUE((*pool)->unload("one"));
        EXPECT_EQ((*pool)->card("one")->state, ModelState::ready) << "somebody has it";
    }
    while ((*pool)->card("one")->state != ModelState::unloaded) std::this_thread::yield();
    EXPECT_TRUE(acquire(**pool, "one"));
}

TEST(ModelPool, MakesRoomWithinItsMemory) {
    const ModelFolder folder;
    PoolOptions wanted = options();
    wanted.folder = folder.path();
    wanted.keep_alive_s = -1;
    wanted.memory_bytes = engine::embedded_models().front().gguf.size() * 5 / 2;
    const auto pool = ModelPool::open(std::move(wanted));
    ASSERT_TRUE(pool) << pool.error().message;
    (*pool)->start();
    for (const char* const name : {"", "one", "two", "one"}) ASSERT_TRUE(acquire(**pool, name)) << name;
    int loaded = 0;
    for (const ModelCard& card : (*pool)->list()) loaded += card.state == ModelState::ready ? 1 : 0;
    EXPECT_LT(loaded, 3);
    EXPECT_EQ((*pool)->card("one")->state, ModelState::ready);
}

TEST(ModelPool, TellsWhatDoesNotFit) {
    PoolOptions wanted = options();
    wanted.memory_bytes = 1000;
    const auto pool = ModelPool::open(std::move(wanted));
    ASSERT_TRUE(pool);
    (*pool)->start();
    const Reply<ModelPool::Use> use = acquire(**pool, "");
    ASSERT_FALSE(use);
    EXPECT_NE(use.error().message.find("--memory"), std::string::npos);
    EXPECT_FALSE((*pool)->start_error().empty());
}

}  // namespace
}  // namespace tandem::server
