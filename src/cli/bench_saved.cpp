#include "cli/bench_saved.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/text_output.h"
#include "measure/compare.h"
#include "measure/html_report.h"

namespace tandem::cli {

namespace {

using CompareJson = nlohmann::ordered_json;

std::string change(double ratio) {
    return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

std::string comparison_text(const measure::RunComparison& comparison, const std::string& first,
                            const std::string& second) {
    std::string text = fmt::format("A: {}\nB: {}\n", first, second);
    for (const std::string& difference : comparison.differences) text += "not alike: " + difference + "\n";
    Table table({"", "A TOKENS/S", "B TOKENS/S", "B TO A", "FROM", "TO", "REPETITIONS", "VERDICT"}, {1, 2, 3, 4, 5, 6});
    for (const measure::RowComparison& row : comparison.rows) {
        const bool has_interval = row.speed.verdict != measure::Verdict::too_few;
        const bool differs =
            row.speed.verdict == measure::Verdict::faster || row.speed.verdict == measure::Verdict::slower;
        table.add({row.first.name(), fmt::format("{:.1f}", row.first.tokens_per_s),
                   fmt::format("{:.1f}", row.second.tokens_per_s), change(row.speed.ratio),
                   has_interval ? change(row.speed.low) : "-", has_interval ? change(row.speed.high) : "-",
                   fmt::format("{}, {}", row.first.samples_s.size(), row.second.samples_s.size()),
                   differs ? fmt::format("B is {}", name(row.speed.verdict)) : std::string(name(row.speed.verdict))});
    }
    text += "\n" + table.to_string();
    for (const std::string& row : comparison.only_first) text += fmt::format("only in A: {}\n", row);
    for (const std::string& row : comparison.only_second) text += fmt::format("only in B: {}\n", row);
    return text + fmt::format(
                      "\nFROM, TO: the interval in which the ratio of the medians lies; all of them together err in 5 "
                      "of 100\ncomparisons of runs that are alike. The same: within {:.0f} %. What changes from run to "
                      "run (clocks,\nheat, other programs) is not in it: runs taken in turn, A, B, A, B, show that.\n",
                      100 * measure::kSame);
}

std::string comparison_json(const measure::RunComparison& comparison, const std::string& first,
                            const std::string& second) {
    CompareJson rows = CompareJson::array();
    for (const measure::RowComparison& row : comparison.rows) {
        rows.push_back({{"what", row.first.name()},
                        {"a_tokens_per_s", row.first.tokens_per_s},
                        {"b_tokens_per_s", row.second.tokens_per_s},
                        {"ratio", row.speed.ratio},
                        {"low", row.speed.low},
                        {"high", row.speed.high},
                        {"verdict", name(row.speed.verdict)}});
    }
    const CompareJson json = {{"a", first},
                              {"b", second},
                              {"differences", comparison.differences},
                              {"rows", std::move(rows)},
                              {"only_a", comparison.only_first},
                              {"only_b", comparison.only_second}};
    return json.dump(2, ' ', false, CompareJson::error_handler_t::replace) + "\n";
}

}  // namespace

Result<int> compare_saved(const std::string& first, const std::string& second, bool json) {
    const measure::SavedRun a = TRY(measure::read_saved_run(first));
    const measure::SavedRun b = TRY(measure::read_saved_run(second));
    const measure::RunComparison comparison = measure::compare_runs(a, b);
    if (comparison.rows.empty()) return fail("{} and {}: no row of one is in the other", first, second);
    print(json ? comparison_json(comparison, first, second) : comparison_text(comparison, first, second));
    return 0;
}

Result<int> draw_saved(const std::string& run, const std::string& html) {
    const measure::SavedRun saved = TRY(measure::read_saved_run(run));
    TRY(write_file(html, measure::html_report(saved)));
    return 0;
}

}  // namespace tandem::cli
