// Energy: what a machine's own counters and sensors say was used, where it has any that may be read.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::measure {

struct EnergyUse {
    std::string source;  // "package-0", "gpu card1", "battery BAT0"
    double joules = 0;
    bool is_part = true;  // of the sum: a battery gives what the others count too
};

// RAPL counters of processors, energy counters or power sensors of GPUs, and the battery while it discharges. A counter
// that may not be read (RAPL is for root on most systems) is as one that is not there.
class EnergyMeter {
  public:
    // `root` is that of sysfs, but for tests. What an integrated GPU says is in the processor's counter already.
    explicit EnergyMeter(bool gpu_is_integrated, const std::filesystem::path& root = "/sys");

    bool empty() const { return sources_.empty(); }

    // From begin() to end(); sample() is for whoever looks in between, `at_s` on any clock that does not go back.
    void begin(double at_s);
    void sample(double at_s);
    std::vector<EnergyUse> end(double at_s);

  private:
    enum class Kind : uint8_t { counter, power };
    struct Source {
        std::string name;
        std::filesystem::path file;
        Kind kind = Kind::counter;
        bool is_part = true;
        double range_uj = 0;  // at which a counter begins again at 0; 0: it does not
        double last = 0;      // microjoules or microwatts
        double joules = 0;
    };
    void find_processors(const std::filesystem::path& root);
    void find_gpus(const std::filesystem::path& root, bool is_integrated);
    void find_batteries(const std::filesystem::path& root);
    void add(Source source);

    std::vector<Source> sources_;
    double last_s_ = 0;
};

// Samples a meter from its beginning to stop().
class EnergySpan {
  public:
    explicit EnergySpan(EnergyMeter& meter);
    EnergySpan(const EnergySpan&) = delete;
    EnergySpan& operator=(const EnergySpan&) = delete;
    ~EnergySpan();

    std::vector<EnergyUse> stop();

  private:
    void run();

    EnergyMeter& meter_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;
    std::thread thread_;
};

// Of those that are parts of the sum.
double total_joules(const std::vector<EnergyUse>& uses);

}  // namespace tandem::measure
