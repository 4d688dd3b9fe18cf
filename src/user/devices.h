// The devices of this machine as users name them: the only folder that names concrete backends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "device/rates.h"
#include "plan/several.h"
#include "user/npu.h"

namespace tandem::user {

struct DeviceOptions {
    // "auto": the best of this machine that can hold the model; "vulkan:0,cpu": several that share its layers
    std::string device = "auto";
    // Of several, or of ranks: the layers with which the second and later begin; empty: by measured time, "layers" that
    // of ranks.
    std::string split;
    int threads = 0;  // of the CPU; 0: one per core
    bool strict = false;
    bool exact = false;  // every op by itself in f32
    int rank_timeout_s = 10;
    NpuChoice npu;
};

// Searches what a device's kernels run fastest with. The measurements give the seconds of a step on a backend of the
// Devices that tune().
struct TuneSteps {
    std::function<Result<double>(int sequences, int context)> decode_seconds;
    std::function<Result<double>(int tokens)> prompt_seconds;
    std::function<bool()> stopped;  // whether to be content with what was found so far
};

// The devices of this process, by its options: a GPU is opened once, when the first model needs it, and shared by all
// that do. From any thread.
class Devices {
  public:
    // `note` is told what a user should know and is no error, a line at a time.
    explicit Devices(DeviceOptions options, Note note = {});
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;
    ~Devices();

    // What is wrong with the options, as far as that can be told before there is a model.
    Status check();
    // A device for a model with so many bytes of weights. Where that is not the best of the machine, a note says why.
    Result<std::unique_ptr<device::Backend>> open(uint64_t weight_bytes);

    // Of what was opened last, without an NPU: what it does at best, measured now; takes up to a few seconds. Of
    // several devices the sum: what they do when all are busy.
    Result<device::Rates> measure_rates();
    // What each of several devices did of the last step; empty where there is one.
    plan::StepShares last_shares() const { return shares_->get(); }
    // Likewise: the bytes of weights of a type that reach it in a second; 0: it uses them where they lie.
    Result<double> measure_upload(DType type = DType::q8_0);
    // Searches what its kernels run fastest with, and keeps it for all later runs; returns the file it is kept in.
    Result<std::string> tune(const TuneSteps& steps);

  private:
    class Gpu;
    class Main;  // the device beside which an NPU may work
    Result<std::unique_ptr<device::Backend>> open_named(const std::string& device);
    Result<std::unique_ptr<device::Backend>> open_several(const std::vector<std::string>& devices);
    Result<std::string> choose(uint64_t weight_bytes);

    DeviceOptions options_;
    Note note_;
    std::shared_ptr<Main> main_;
    std::shared_ptr<plan::LastShares> shares_ = std::make_shared<plan::LastShares>();
};

// A device as `tandem devices` lists it.
struct ListedDevice {
    device::Description device;
    bool is_default = false;  // what --device auto takes for a model that fits
};
struct DeviceList {
    std::vector<ListedDevice> devices;
    std::string why;  // the default is not better; empty: there is nothing better
};
Result<DeviceList> list_devices();

}  // namespace tandem::user
