// The text form of Prometheus, as far as watching a server needs it: numbers by name and labels, and histograms.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::measure {

struct MetricSample {
    std::map<std::string, std::string, std::less<>> labels;
    double value = 0;

    std::string_view label(std::string_view name) const;
};

class MetricsText {
  public:
    // Lines that are none of its are left out: a server may say more than we know.
    static MetricsText parse(std::string_view text);

    // Empty where there is none of that name.
    const std::vector<MetricSample>& all(std::string_view name) const;

  private:
    std::map<std::string, std::vector<MetricSample>, std::less<>> samples_;
};

// How often values up to a bound were seen, bound by bound; the last is infinite.
struct HistogramCounts {
    std::vector<double> bounds;
    std::vector<double> counts;  // of all up to the bound, as Prometheus has it

    double total() const { return counts.empty() ? 0 : counts.back(); }
    // What came after `before`; all of it where that is of another server, or of the same started anew.
    HistogramCounts since(const HistogramCounts& before) const;
    // Between two bounds by the share of each; 0: nothing was seen.
    double quantile(double q) const;
};

// Of `name`_bucket, of the samples with that label; those of other labels are added up.
HistogramCounts histogram_of(const MetricsText& metrics, const std::string& name, std::string_view label,
                             std::string_view value);

}  // namespace tandem::measure
