#include "format/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "format/gguf_writer.h"
#include "unit/format/bytes.h"

namespace tandem::format {
namespace {

// A safetensors file with one F32 vector per name, of two elements.
std::string safetensors(const std::vector<std::string>& names) {
    std::string header = "{";
    for (size_t i = 0; i < names.size(); ++i) {
        header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}})", i > 0 ? "," : "",
                              names[i], i * 8, i * 8 + 8);
    }
    Bytes bytes;
    bytes.string(header + "}").data.resize(bytes.data.size() + names.size() * 8);
    return std::string(bytes.view());
}

std::string error_of(const std::filesystem::path& path) {
    const auto opened = Checkpoint::open(path);
    return opened ? "opened" : opened.error().message;
}

#define EXPECT_OPEN_ERROR(path, part) EXPECT_PRED2(contains, error_of(path), part)

TEST(Checkpoint, OpensAGgufFile) {
    const TempFolder folder;
    GgufWriter writer;
    writer.set("general.architecture", "llama");
    const std::vector<std::byte> data(32);
    writer.add("w", DType::f32, {2, 4}, data);
    ASSERT_TRUE(writer.write(folder.path / "m.gguf"));
    auto opened = Checkpoint::open(folder.path / "m.gguf");
    ASSERT_TRUE(opened) << opened.error().message;
    const Checkpoint moved = std::move(*opened);
    EXPECT_EQ(moved.name(), "m.gguf");
    EXPECT_EQ(moved.path(), folder.path / "m.gguf");
    ASSERT_NE(moved.gguf(), nullptr);
    EXPECT_EQ(moved.gguf()->get_string("general.architecture"), "llama");
    EXPECT_EQ(moved.config(), nullptr);
    EXPECT_EQ(moved.tensors().size(), 1U);
    EXPECT_EQ(moved.tensor_bytes(), 32U);
    ASSERT_NE(moved.find("w"), nullptr);
    EXPECT_EQ(moved.find("v"), nullptr);
}

TEST(Checkpoint, WithAForeignTensorCanBeOpenedButNotUsed) {
    const TempFolder folder;
    Bytes bytes;
    bytes.header(2, 0).tensor("a", {8}, 0, 0).tensor("blk.3.ffn_up.weight", {256}, 15, 32).pad(32, 168);
    const auto opened = Checkpoint::open(folder.write("m.gguf", bytes.view()));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->foreign_tensors().size(), 1U);
    EXPECT_EQ(opened->tensor_bytes(), 168U);
    const Status readable = opened->check_readable();
    ASSERT_FALSE(readable);
    EXPECT_PRED2(contains, readable.error().message,
                 "m.gguf: tensor 'blk.3.ffn_up.weight' is stored as q8_k, which Tandem does not read: get the model in "
                 "one of f32, f16,");
}

TEST(Checkpoint, TakesAGgufFileInMemory) {
    GgufWriter writer;
    writer.set("general.name", "tiny");
    const auto bytes = writer.to_bytes();
    const auto checkpoint = Checkpoint::from_gguf(*bytes, "embedded");
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->name(), "embedded");
    EXPECT_TRUE(checkpoint->path().empty());
    EXPECT_EQ(checkpoint->gguf()->get_string("general.name"), "tiny");
    EXPECT_EQ(Checkpoint::from_gguf({}, "embedded").error().message,
              "embedded: not a GGUF file: it is empty, download it again");
}

TEST(Checkpoint, OpensADirectoryWithOneFile) {
    const TempFolder folder;
    folder.write("config.json", R"({"model_type":"qwen3"})");
    folder.write("model.safetensors", safetensors({"z", "a"}));
    const auto opened = Checkpoint::open(folder.path / "");
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->name(), folder.path.filename().string());
    EXPECT_EQ(opened->gguf(), nullptr);
    ASSERT_NE(opened->config(), nullptr);
    EXPECT_EQ(opened->config()->at("model_type"), "qwen3");
    EXPECT_EQ(opened->tensors().size(), 2U);
    ASSERT_NE(opened->find("z"), nullptr);
    EXPECT_EQ(opened->find("z")->shape, (std::vector<int64_t>{2}));
    EXPECT_EQ(opened->tensor_bytes(), 16U);
}

TEST(Checkpoint, OpensADirectoryOfShards) {
    const TempFolder folder;
    folder.write("config.json", "{}");
    folder.write("model-1.safetensors", safetensors({"a", "b"}));
    folder.write("model-2.safetensors", safetensors({"c"}));
    folder.write(
        "model.safetensors.index.json",
        R"({"metadata":{},"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"}})");
    auto opened = Checkpoint::open(folder.path);
    ASSERT_TRUE(opened) << opened.error().message;
    const Checkpoint moved = std::move(*opened);
    EXPECT_EQ(moved.tensors().size(), 3U);
    ASSERT_NE(moved.find("c"), nullptr);
    EXPECT_EQ(moved.find("c")->data.size(), 8U);
    EXPECT_EQ(moved.find("d"), nullptr);
}

TEST(Checkpoint, SaysWhatIsWrongWithAPath) {
    const TempFolder folder;
    EXPECT_OPEN_ERROR(folder.path / "nothing", "nothing: no such file or directory: give a .gguf file");
    EXPECT_OPEN_ERROR(folder.path, "a directory without config.json");
    EXPECT_OPEN_ERROR(folder.write("notes.txt", "just text"), "notes.txt: not a GGUF file");
    EXPECT_OPEN_ERROR(folder.write("empty.gguf", ""), "empty.gguf: not a GGUF file: it is empty");
    EXPECT_OPEN_ERROR(folder.write("model.safetensors", safetensors({"a"})), "give the directory that holds it");
    EXPECT_OPEN_ERROR("/dev/null", "/dev/null: is not a regular file");
    ASSERT_EQ(::mkfifo((folder.path / "pipe").c_str(), 0600), 0);
    EXPECT_OPEN_ERROR(folder.path / "pipe", "pipe: is not a regular file");
}

TEST(Checkpoint, SaysWhatIsWrongWithADirectory) {
    const TempFolder folder;
    folder.write("config.json", "{");
    EXPECT_OPEN_ERROR(folder.path, "config.json: not valid JSON: parse error at line 1");
    folder.write("config.json", "[]");
    EXPECT_OPEN_ERROR(folder.path, "config.json: a JSON object was expected");
    folder.write("config.json", "{}");
    EXPECT_OPEN_ERROR(folder.path, "has neither model.safetensors nor model.safetensors.index.json");
}

TEST(Checkpoint, RefusesABadIndex) {
    const TempFolder folder;
    folder.write("config.json", "{}");
    folder.write("a.safetensors", safetensors({"a", "both"}));
    folder.write("b.safetensors", safetensors({"b", "both"}));
    const auto error_with = [&](std::string_view index) {
        folder.write("model.safetensors.index.json", index);
        return error_of(folder.path);
    };
    EXPECT_PRED2(contains, error_with("{}"), "has no weight_map object");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":[]})"), "has no weight_map object");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":{}})"), "weight_map is empty");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":{"a":1}})"), "weight_map 'a' is not a file name");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":{"a":"gone.safetensors"}})"), "gone.safetensors: cannot open");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":{"x":"a.safetensors"}})"),
                 "a.safetensors: has no tensor 'x', which model.safetensors.index.json expects in it");
    EXPECT_PRED2(contains, error_with(R"({"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})"),
                 "tensor 'both' is in two shards");
    for (std::string_view name : {"../a.safetensors", "/etc/a.safetensors", "x/../a.safetensors", "..", "", "a.bin",
                                  ".safetensors", "a\\u0000.safetensors", "x\\\\a.safetensors"}) {
        EXPECT_PRED2(contains, error_with(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name)),
                     "which is not a safetensors file of this directory");
    }
}

}  // namespace
}  // namespace tandem::format
