#include "measure/metrics_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace tandem::measure {

namespace {

constexpr size_t kMostSamples = size_t{1} << 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::optional<double> metric_number(std::string_view text) {
    if (text == "+Inf") return kNever;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data() || std::isnan(value)) return std::nullopt;
    return value;
}

// Reads name="value",... up to the brace; what is left behind it. Nothing where it is not so.
std::optional<std::string_view> read_labels(std::string_view text, MetricSample& sample) {
    while (!text.starts_with('}')) {
        const size_t equals = text.find("=\"");
        if (equals == std::string_view::npos) return std::nullopt;
        const std::string_view name = text.substr(0, equals);
        text.remove_prefix(equals + 2);
        std::string value;
        while (!text.empty() && text.front() != '"') {
            if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
            value += text.front();
            text.remove_prefix(1);
        }
        if (text.empty()) return std::nullopt;
        text.remove_prefix(1);
        if (text.starts_with(',')) text.remove_prefix(1);
        sample.labels.insert_or_assign(std::string(name), std::move(value));
    }
    return text.substr(1);
}

}  // namespace

std::string_view MetricSample::label(std::string_view name) const {
    const auto found = labels.find(name);
    return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

MetricsText MetricsText::parse(std::string_view text) {
    MetricsText metrics;
    size_t count = 0;
    while (!text.empty() && count < kMostSamples) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        const size_t name_end = line.find_first_of("{ ");
        if (line.starts_with('#') || name_end == std::string_view::npos) continue;
        const std::string_view name = line.substr(0, name_end);
        MetricSample sample;
        std::string_view rest = line.substr(name_end);
        if (rest.starts_with('{')) {
            const auto behind = read_labels(rest.substr(1), sample);
            if (!behind) continue;
            rest = *behind;
        }
        const size_t begin = rest.find_first_not_of(' ');
        if (begin == std::string_view::npos) continue;
        rest = rest.substr(begin, rest.find_first_of(" \r", begin) - begin);
        const std::optional<double> value = metric_number(rest);
        if (!value) continue;
        sample.value = *value;
        metrics.samples_[std::string(name)].push_back(std::move(sample));
        ++count;
    }
    return metrics;
}

const std::vector<MetricSample>& MetricsText::all(std::string_view name) const {
    static const std::vector<MetricSample> kNone;
    const auto found = samples_.find(name);
    return found == samples_.end() ? kNone : found->second;
}

HistogramCounts HistogramCounts::since(const HistogramCounts& before) const {
    if (before.bounds != bounds || before.total() > total()) return *this;
    HistogramCounts fresh = *this;
    for (size_t i = 0; i < counts.size(); ++i) fresh.counts[i] -= before.counts[i];
    return fresh;
}

double HistogramCounts::quantile(double q) const {
    const double wanted = q * total();
    if (total() <= 0) return 0;
    double low = 0;
    double below = 0;
    for (size_t i = 0; i < bounds.size(); ++i) {
        if (counts[i] >= wanted) {
            if (bounds[i] == kNever) return low;  // all that is known is that it was longer
            const double inside = counts[i] - below;
            return low + (inside > 0 ? (wanted - below) / inside : 0) * (bounds[i] - low);
        }
        low = bounds[i];
        below = counts[i];
    }
    return low;
}

HistogramCounts histogram_of(const MetricsText& metrics, const std::string& name, std::string_view label,
                             std::string_view value) {
    std::map<double, double> counts;
    for (const MetricSample& sample : metrics.all(name + "_bucket")) {
        const std::optional<double> bound = metric_number(sample.label("le"));
        if (bound && sample.label(label) == value) counts[*bound] += sample.value;
    }
    HistogramCounts histogram;
    for (const auto& [bound, count] : counts) {
        histogram.bounds.push_back(bound);
        histogram.counts.push_back(count);
    }
    return histogram;
}

}  // namespace tandem::measure
