#include "measure/load.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/statistics.h"
#include "engine/bundle.h"
#include "engine/engine.h"
#include "measure/stage.h"

namespace tandem::measure {

namespace {

using LoadClock = std::chrono::steady_clock;

double seconds_since(LoadClock::time_point begin) {
    return std::chrono::duration<double>(LoadClock::now() - begin).count();
}

double median_of(const std::vector<LoadTimes>& times, double LoadTimes::*which) {
    std::vector<double> sorted;
    for (const LoadTimes& each : times) sorted.push_back(each.*which);
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : quantile(sorted, 0.5);
}

// The share of a file's pages that are in memory; 1 where that cannot be told.
double share_in_memory(int fd, size_t size_bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const data = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return 1;
    std::vector<unsigned char> pages((size_bytes + page - 1) / page);
    const bool is_known = mincore(data, size_bytes, pages.data()) == 0;
    munmap(data, size_bytes);
    const auto present =
        std::count_if(pages.begin(), pages.end(), [](unsigned char flags) { return (flags & 1) != 0; });
    return is_known ? static_cast<double>(present) / static_cast<double>(pages.size()) : 1;
}

bool forget_file(const std::filesystem::path& file) {
    constexpr double kLeft = 0.02;  // a few pages may be on their way
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat status {};
    bool is_forgotten = fstat(fd, &status) == 0;
    if (is_forgotten && status.st_size > 0) {
        fdatasync(fd);  // what is not written yet is not forgotten
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        is_forgotten = share_in_memory(fd, static_cast<size_t>(status.st_size)) <= kLeft;
    }
    close(fd);
    return is_forgotten;
}

// A model of which only the weights are brought to the device.
Result<double> bring_weights(const LoadOptions& options) {
    const std::unique_ptr<device::Backend> backend = TRY(options.open_device());
    const engine::Bundle bundle = TRY(engine::open_bundle(options.source));
    const auto all = static_cast<double>(bundle.model.weights.size_bytes());
    const LoadClock::time_point begin = LoadClock::now();
    const auto stage =
        TRY(Stage::open(bundle.model, *backend, {.kv_dtype = options.kv_dtype, .progress = [&](double done) -> Status {
                                                     if (options.progress) options.progress(done * all, all);
                                                     return Ok{};
                                                 }}));
    return seconds_since(begin);
}

Status answer_one_token(engine::Engine& engine, const models::Model& model) {
    engine::Request request;
    request.prompt = {fixed_token(0, model.vocab)};
    request.max_tokens = 1;
    Error failure;
    request.on_event = [&](const engine::Event& event) {
        if (event.finish != nullptr) failure.message = event.finish->error;
    };
    TRY(engine.submit(std::move(request)));
    engine.run_until_idle();
    if (!failure.message.empty()) return failure;
    return Ok{};
}

// The way that `tandem run` goes.
Status become_ready(const LoadOptions& options, LoadTimes& times) {
    const std::unique_ptr<device::Backend> backend = TRY(options.open_device());
    const LoadClock::time_point begin = LoadClock::now();
    engine::Bundle bundle = TRY(engine::open_bundle(options.source));
    times.open_s = seconds_since(begin);
    const auto engine = TRY(engine::Engine::open(bundle.model, std::move(bundle.tokenizer), *backend,
                                                 {.context = options.context,
                                                  .sequences = 1,
                                                  .kv_dtype = options.kv_dtype,
                                                  .progress = [](double /*done*/) -> Status { return Ok{}; }}));
    TRY(answer_one_token(*engine, bundle.model));
    times.ready_s = seconds_since(begin);
    return Ok{};
}

Result<LoadTimes> load_once(const LoadOptions& options, const std::function<void()>& prepare) {
    LoadTimes times;
    prepare();
    times.weights_s = TRY(bring_weights(options));
    prepare();
    TRY(become_ready(options, times));
    return times;
}

// Directly and, of what the system forgets, plainly: whichever way the disk gives more.
void measure_disk_of_model(const std::vector<std::filesystem::path>& files, LoadReport& report) {
    if (files.empty()) return;
    const auto bytes_of = [](const std::filesystem::path& file) {
        std::error_code error;
        return std::filesystem::file_size(file, error);
    };
    const std::filesystem::path& largest = *std::ranges::max_element(files, {}, bytes_of);
    const bool is_forgotten = forget_files(files);
    Result<DiskRate> rate = measure_disk(largest);
    if (rate && is_forgotten && forget_files(files)) {
        const Result<DiskRate> plain = measure_disk(largest, false);
        if (plain) rate->bytes_per_s = std::max(rate->bytes_per_s, plain->bytes_per_s);
    }
    if (!rate) report.no_disk = rate.error().message;
    if (rate && (!report.disk || report.disk->bytes_per_s < rate->bytes_per_s)) report.disk = *rate;
}

}  // namespace

double LoadReport::weights_rate(uint64_t bytes, const std::vector<LoadTimes>& times) {
    const double seconds = median_of(times, &LoadTimes::weights_s);
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

double LoadReport::ready_s(const std::vector<LoadTimes>& times) {
    return median_of(times, &LoadTimes::ready_s);
}

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model) {
    constexpr std::string_view kPart = "-00000-of-00000.gguf";
    std::error_code error;
    const std::string name = model.filename().string();
    const bool is_folder = std::filesystem::is_directory(model, error);
    const bool is_split = name.size() > kPart.size() && name.find("-of-") == name.size() - kPart.size() + 6;
    if (!is_folder && !is_split) return {model};
    const std::string prefix = is_folder ? std::string() : name.substr(0, name.size() - kPart.size());
    std::vector<std::filesystem::path> files;
    const std::filesystem::path folder = is_folder ? model : model.parent_path().empty() ? "." : model.parent_path();
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string each = entry.path().filename().string();
        if (entry.path().extension() == (is_folder ? ".safetensors" : ".gguf") && each.starts_with(prefix))
            files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

bool forget_files(const std::vector<std::filesystem::path>& files) {
    bool all = !files.empty();
    for (const std::filesystem::path& file : files) all = forget_file(file) && all;
    return all;
}

Result<LoadReport> measure_load(const LoadOptions& options) {
    LoadReport report;
    std::vector<std::filesystem::path> files;
    {
        const engine::Bundle bundle = TRY(engine::open_bundle(options.source));
        report.model = bundle.checkpoint->name();
        report.weight_bytes = bundle.model.weights.size_bytes();
        if (!bundle.checkpoint->path().empty()) files = weight_files(bundle.checkpoint->path());
    }
    bool forgets = true;
    for (int i = 0; forgets && i < options.repetitions; ++i) {
        measure_disk_of_model(files, report);
        const LoadTimes times = TRY(load_once(options, [&] { forgets = forget_files(files) && forgets; }));
        if (forgets) report.cold.push_back(times);
    }
    TRY(bring_weights(options));  // all of the files is in memory afterwards
    for (int i = 0; i < options.repetitions; ++i) report.warm.push_back(TRY(load_once(options, [] {})));
    return report;
}

}  // namespace tandem::measure
