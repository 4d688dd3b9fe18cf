#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>

namespace tandem::engine {
namespace {

constexpr int kSchedulerBlockTokens = 4;

// A cache that remembers for every slot which beginning of a text its keys and values were computed from. A beginning
// is a number, the same for the same salt and tokens: nothing here knows how KvBlocks finds what it shares.
class ModelCache {
  public:
    explicit ModelCache(const std::vector<KvBlocks::Group>& groups) : groups_(groups) {
        for (const KvBlocks::Group& group : groups)
            slots_.emplace_back(static_cast<size_t>(group.blocks * kSchedulerBlockTokens), -1);
    }

    void copy(std::span<const BlockCopy> copies) {
        const auto before = slots_;  // copies may be made in any order
        for (const BlockCopy& copy : copies) {
            for (int i = 0; i < kSchedulerBlockTokens; ++i)
                slot(copy.group, copy.to, i) = before[static_cast<size_t>(copy.group)][index(copy.from, i)];
        }
    }

    void write(const Sequence& sequence, std::span<const TokenId> tokens, int begin, int end) {
        const std::vector<int> meant = beginnings(sequence.salt, tokens);
        for (int group = 0; group < std::ssize(groups_); ++group) {
            for (int p = begin; p < end; ++p) at(sequence, group, p) = meant[static_cast<size_t>(p)];
        }
    }

    // Whether the row at `position` sees what it should.
    bool sees_its_own(const Sequence& sequence, std::span<const TokenId> tokens, int position) {
        const std::vector<int> meant = beginnings(sequence.salt, tokens);
        for (int group = 0; group < std::ssize(groups_); ++group) {
            const int window = groups_[static_cast<size_t>(group)].window;
            for (int p = window == 0 ? 0 : std::max(0, position + 1 - window); p <= position; ++p) {
                if (at(sequence, group, p) != meant[static_cast<size_t>(p)]) return false;
            }
        }
        return true;
    }

  private:
    std::vector<int> beginnings(const std::string& salt, std::span<const TokenId> tokens) {
        std::vector<int> result;
        int parent = number_of(-1, salt.empty() ? -1 : salt[0]);
        for (TokenId token : tokens) result.push_back(parent = number_of(parent, token));
        return result;
    }
    int number_of(int parent, int token) {
        return numbers_.emplace(std::pair(parent, token), static_cast<int>(numbers_.size())).first->second;
    }
    int& slot(int group, int32_t block, int offset) { return slots_[static_cast<size_t>(group)][index(block, offset)]; }
    static size_t index(int32_t block, int offset) {
        return static_cast<size_t>(block) * kSchedulerBlockTokens + static_cast<size_t>(offset);
    }
    int& at(const Sequence& sequence, int group, int position) {
        const auto& blocks = sequence.blocks.groups[static_cast<size_t>(group)].blocks;
        return slot(group, blocks[static_cast<size_t>(position / kSchedulerBlockTokens)],
                    position % kSchedulerBlockTokens);
    }

    std::vector<KvBlocks::Group> groups_;
    std::vector<std::vector<int>> slots_;
    std::map<std::pair<int, int>, int> numbers_;
};

struct Job : Sequence {
    int number = 0;
    size_t end = 0;  // length at which it is done
    int added_at = 0;
};

// Requests that come and go at random, on a cache too small for them.
class Simulation {
  public:
    explicit Simulation(uint32_t seed, const std::vector<KvBlocks::Group>& groups, int owners = 1)
        : random_(seed), owners_(owners), blocks_(kSchedulerBlockTokens, groups), cache_(groups) {}

    void run(int steps) {
        for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
            if (jobs_.size() < 24 && chance(30)) arrive(step);
            if (chance(4)) cancel();
            advance(step);
        }
        for (int step = 0; !scheduler_.idle() && step < 10'000 && !testing::Test::HasFatalFailure(); ++step)
            advance(steps + step);
        EXPECT_TRUE(scheduler_.idle()) << scheduler_.waiting() << " requests never got their turn";
        EXPECT_EQ(blocks_.audit({}), "");
        for (int group = 0; group < blocks_.groups(); ++group)
            EXPECT_EQ(blocks_.available(group), blocks_.total(group)) << "leaked";
    }

    std::vector<int> log;  // of what each step ran
    int finished = 0;
    int preemptions = 0;
    int cached = 0;
    int forks = 0;
    int longest_wait = 0;

  private:
    int pick(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
    bool chance(int percent) { return pick(100) < percent; }

    void arrive(int step) {
        auto job = std::make_unique<Job>();
        job->number = arrivals_++;
        job->added_at = step;
        job->salt = chance(20) ? "x" : "";
        // Few different tokens, and beginnings that many have in common.
        const int shared = pick(30);
        for (int i = 0; i < shared; ++i) job->tokens.push_back(i % 5);
        for (int i = 1 + pick(12); i > 0; --i) job->tokens.push_back(pick(2));
        job->end = std::min<size_t>(job->tokens.size() + 1 + static_cast<size_t>(pick(30)), 60);
        job->priority = pick(3);
        job->owner = std::string(1, static_cast<char>('a' + pick(owners_)));
        job->copies = chance(15) ? 1 + pick(3) : 1;
        if (chance(5)) {
            job->outputs = Sequence::Outputs::every_row;
            job->copies = 1;
            job->reuses_prefix = false;
        }
        scheduler_.add(*job);
        jobs_.push_back(std::move(job));
    }

    void cancel() {
        if (!jobs_.empty()) end(*jobs_[static_cast<size_t>(pick(static_cast<int>(jobs_.size())))]);
    }

    void end(Job& job) {
        preemptions += job.preemptions;
        cached += job.cached;
        scheduler_.remove(job);
        std::erase_if(jobs_, [&](const auto& other) { return other.get() == &job; });
    }

    void advance(int step) {
        for (const auto& job : jobs_) {
            job->draft.clear();
            if (job->state == Sequence::State::running && job->pending() == 1 && job->copies == 1 && chance(30)) {
                const int room = std::max(0, static_cast<int>(job->end - job->tokens.size()) - 1);
                for (int i = std::min(pick(4), room); i > 0; --i) job->draft.push_back(pick(2));
            }
        }
        const std::span<const Share> planned = scheduler_.plan();
        const std::vector<Share> shares(planned.begin(), planned.end());
        int rows = 0;
        int outputs = 0;
        bool single = true;
        for (const Share& share : shares) {
            rows += share.rows;
            outputs += share.outputs;
            single = single && share.rows == 1 && share.draws() && share.sequence->copies == 1;
            log.push_back(static_cast<Job*>(share.sequence)->number * 100 + share.rows);
        }
        ASSERT_LE(rows, kLimits.rows);
        ASSERT_LE(outputs, kLimits.outputs);
        ASSERT_LE(scheduler_.running(), kLimits.sequences);
        int steps = 1;
        if (single && chance(50) && scheduler_.prolong(3)) steps = 3;
        cache_.copy(blocks_.copies());
        blocks_.copied();
        expect_consistent();
        steps > 1 ? run_steps(shares, steps) : run_rows(shares, step);
        expect_consistent();
    }

    static std::vector<TokenId> with_draft(const Share& share) {
        std::vector<TokenId> tokens = share.sequence->tokens;
        tokens.insert(tokens.end(), share.sequence->draft.begin(), share.sequence->draft.begin() + share.drafts);
        return tokens;
    }

    void run_rows(const std::vector<Share>& shares, int step) {
        for (const Share& share : shares) {
            const Sequence& sequence = *share.sequence;
            cache_.write(sequence, with_draft(share), sequence.computed, sequence.computed + share.rows);
        }
        for (const Share& share : shares) {
            const Sequence& sequence = *share.sequence;
            for (int row = 0; row < share.rows; ++row)
                ASSERT_TRUE(cache_.sees_its_own(sequence, with_draft(share), sequence.computed + row));
        }
        for (const Share& share : shares) {
            Job& job = *static_cast<Job*>(share.sequence);
            longest_wait = std::max(longest_wait, job.state == Sequence::State::running ? step - job.added_at : 0);
            job.added_at = step;
            const bool draws = share.draws();
            scheduler_.advance(job, share.rows - share.drafts);
            if (draws) draw(job, share.drafts);
        }
    }

    void run_steps(const std::vector<Share>& shares, int steps) {
        for (int i = 0; i < steps; ++i) {
            for (const Share& share : shares) {
                const Sequence& sequence = *share.sequence;
                const int at = static_cast<int>(sequence.tokens.size()) - 1;
                cache_.write(sequence, sequence.tokens, at, at + 1);
            }
            for (const Share& share : shares) {
                Sequence& sequence = *share.sequence;
                ASSERT_TRUE(
                    cache_.sees_its_own(sequence, sequence.tokens, static_cast<int>(sequence.tokens.size()) - 1));
                sequence.tokens.push_back(pick(2));
            }
        }
        for (const Share& share : shares) {
            Job& job = *static_cast<Job*>(share.sequence);
            job.tokens.resize(std::min(job.tokens.size(), std::max(job.end, static_cast<size_t>(job.computed) + 2)));
            scheduler_.advance(job, std::min(steps, job.pending() - 1));
            finish_if_done(job);
        }
    }

    void draw(Job& job, int drafts) {
        while (job.copies > 1) {
            auto fork = std::make_unique<Job>();
            fork->tokens = job.tokens;
            fork->salt = job.salt;
            fork->priority = job.priority;
            fork->number = job.number;
            fork->added_at = job.added_at;
            fork->end = job.end;
            scheduler_.add_fork(*fork, job);
            fork->tokens.push_back(pick(2));
            jobs_.push_back(std::move(fork));
            ++forks;
        }
        const int accepted = drafts > 0 ? pick(drafts + 1) : 0;
        job.tokens.insert(job.tokens.end(), job.draft.begin(), job.draft.begin() + accepted);
        scheduler_.advance(job, accepted);
        job.tokens.push_back(pick(2));
        finish_if_done(job);
    }

    void finish_if_done(Job& job) {
        if (job.tokens.size() < job.end) return;
        ++finished;
        end(job);
    }

    void expect_consistent() const {
        std::vector<const BlockTable*> tables;
        for (const auto& job : jobs_) {
            if (job->state == Sequence::State::running) tables.push_back(&job->blocks);
        }
        ASSERT_EQ(blocks_.audit(tables), "");
    }

    static constexpr SchedulerLimits kLimits{.rows = 24, .outputs = 12, .sequences = 8};

    std::mt19937 random_;
    int owners_;
    KvBlocks blocks_;
    ModelCache cache_;
    Scheduler scheduler_{kLimits, blocks_};
    std::vector<std::unique_ptr<Job>> jobs_;
    int arrivals_ = 0;
};

TEST(Scheduler, NoBlockIsLeakedOrSharedWronglyAndNobodyStarves) {
    const std::vector<std::vector<KvBlocks::Group>> caches = {
        {{.window = 0, .blocks = 18}},
        {{.window = 0, .blocks = 24}, {.window = 10, .blocks = 20}},
        {{.window = 7, .blocks = 14}},
        {{.window = 0, .blocks = 200}, {.window = 10, .blocks = 60}},
    };
    for (const int owners : {1, 3}) {
        for (size_t i = 0; i < caches.size(); ++i) {
            Simulation simulation(static_cast<uint32_t>(i + 1), caches[i], owners);
            simulation.run(2000);
            if (testing::Test::HasFailure()) FAIL() << "with cache " << i << " and owners: " << owners;
            EXPECT_GT(simulation.finished, 300);
            EXPECT_GT(simulation.cached, 700);
            EXPECT_GT(simulation.forks, 20);
            EXPECT_LT(simulation.longest_wait, 500 * owners);  // of the whole, each has at least its part
            EXPECT_TRUE(i >= 2 || simulation.preemptions > 10) << simulation.preemptions;
        }
    }
}

TEST(Scheduler, TheSameRequestsGiveTheSamePlans) {
    const std::vector<KvBlocks::Group> groups = {{.window = 0, .blocks = 24}, {.window = 10, .blocks = 20}};
    Simulation one(7, groups, 3);
    Simulation two(7, groups, 3);
    one.run(500);
    two.run(500);
    EXPECT_EQ(one.log, two.log);
}

std::unique_ptr<Job> job(int length, int priority = 0) {
    auto made = std::make_unique<Job>();
    for (int i = 0; i < length; ++i) made->tokens.push_back(i);
    made->priority = priority;
    made->reuses_prefix = false;
    return made;
}

TEST(Scheduler, DrawsFirstAndFillsTheStepWithPrompts) {
    KvBlocks blocks(kSchedulerBlockTokens, {{.window = 0, .blocks = 64}});
    Scheduler scheduler({.rows = 10, .outputs = 4, .sequences = 4}, blocks);
    const auto first = job(1);
    const auto second = job(25);
    scheduler.add(*second);
    scheduler.add(*first);
    auto shares = scheduler.plan();
    ASSERT_EQ(shares.size(), 1U) << "the first prompt takes it all";
    EXPECT_EQ(shares[0].rows, 10);
    EXPECT_FALSE(shares[0].draws());
    scheduler.advance(*second, 10);
    shares = scheduler.plan();
    scheduler.advance(*second, 10);
    shares = scheduler.plan();  // 5 of the prompt, and the other
    ASSERT_EQ(shares.size(), 2U);
    EXPECT_TRUE(shares[0].draws() && shares[1].draws());
    scheduler.advance(*second, 5);
    scheduler.advance(*first, 1);
    second->tokens.push_back(1);
    first->tokens.push_back(1);
    const auto third = job(20);
    scheduler.add(*third);
    shares = scheduler.plan();
    ASSERT_EQ(shares.size(), 3U);
    EXPECT_EQ(shares[2].sequence, third.get());
    EXPECT_EQ(shares[2].rows, 8);
    for (const auto* sequence : {&first, &second, &third}) scheduler.remove(**sequence);
    EXPECT_EQ(blocks.available(0), 64);
}

TEST(Scheduler, MoreImportantRequestsGoFirstButNotForEver) {
    KvBlocks blocks(kSchedulerBlockTokens, {{.window = 0, .blocks = 64}});
    Scheduler scheduler({.rows = 8, .outputs = 2, .sequences = 1}, blocks);
    const auto humble = job(2, 0);
    scheduler.add(*humble);
    std::vector<std::unique_ptr<Job>> important;
    int served_before = 0;
    for (int i = 0; i < 1000 && humble->computed == 0; ++i) {  // always another one waits
        important.push_back(job(2, 1));
        scheduler.add(*important.back());
        const auto shares = scheduler.plan();
        ASSERT_EQ(shares.size(), 1U);
        Sequence& served = *shares[0].sequence;
        scheduler.advance(served, shares[0].rows);
        if (&served != humble.get()) {
            ++served_before;
            scheduler.remove(served);
        }
    }
    EXPECT_GT(served_before, 10);
    EXPECT_LT(served_before, 200);
    scheduler.remove(*humble);
    for (const auto& other : important) scheduler.remove(*other);
}

TEST(Scheduler, TheYoungestLosesItsBlocksAndIsComputedAgain) {
    KvBlocks blocks(kSchedulerBlockTokens, {{.window = 0, .blocks = 6}});
    Scheduler scheduler({.rows = 16, .outputs = 4, .sequences = 2}, blocks);
    const auto older = job(8);
    const auto younger = job(4);
    younger->salt = "other";
    scheduler.add(*older);
    scheduler.add(*younger);
    bool preempted = false;
    while (older->tokens.size() < 24) {
        const auto planned = scheduler.plan();
        const std::vector<Share> shares(planned.begin(), planned.end());
        for (const Share& share : shares) {
            scheduler.advance(*share.sequence, share.rows);
            share.sequence->tokens.push_back(5);
        }
        preempted = preempted || younger->state == Sequence::State::waiting;
        EXPECT_EQ(older->state, Sequence::State::running);
    }
    EXPECT_TRUE(preempted);
    scheduler.remove(*older);
    EXPECT_EQ(scheduler.plan().size(), 1U);
    EXPECT_EQ(younger->state, Sequence::State::running);
    scheduler.remove(*younger);
    EXPECT_EQ(blocks.available(0), 6);
}

// Owners whose sequences are steps of tokens, and no cache that could be too small.
class Owners {
  public:
    explicit Owners(const SchedulerLimits& limits) : scheduler(limits, blocks_) {}
    ~Owners() {
        for (const auto& item : jobs_) scheduler.remove(*item);
    }

    Job& add(const std::string& owner, int prompt, size_t answer, int copies = 1) {
        auto made = job(prompt);
        made->owner = owner;
        made->salt = std::to_string(jobs_.size());
        made->reuses_prefix = true;
        made->copies = copies;
        made->end = made->tokens.size() + answer;
        scheduler.add(*made);
        jobs_.push_back(std::move(made));
        return *jobs_.back();
    }

    void step() {
        const auto planned = scheduler.plan();
        for (const Share& share : std::vector<Share>(planned.begin(), planned.end())) {
            Job& served = *static_cast<Job*>(share.sequence);
            const bool draws = share.draws();
            rows[served.owner] += share.rows;
            scheduler.advance(served, share.rows);
            if (draws) draw(served);
        }
        blocks_.copied();
    }

    int running(const std::string& owner) const {
        return static_cast<int>(std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& item) {
            return item->owner == owner && item->state == Sequence::State::running;
        }));
    }
    int preemptions() const {
        int sum = 0;
        for (const auto& item : jobs_) sum += item->preemptions;
        return sum;
    }
    static bool ended(const Job& one) { return one.tokens.size() >= one.end; }

    std::map<std::string, int> rows;

  private:
    void draw(Job& served) {
        while (served.copies > 1) {
            auto fork = job(1);
            fork->tokens = served.tokens;
            fork->salt = served.salt;
            fork->end = served.end;
            scheduler.add_fork(*fork, served);
            take(*fork, static_cast<TokenId>(jobs_.size()));
            jobs_.push_back(std::move(fork));
        }
        take(served, 1);
    }
    void take(Job& served, TokenId token) {
        served.tokens.push_back(token);
        if (ended(served)) scheduler.remove(served);
    }

    KvBlocks blocks_{kSchedulerBlockTokens, {{.window = 0, .blocks = 4096}}};
    std::vector<std::unique_ptr<Job>> jobs_;

  public:
    Scheduler scheduler;
};

TEST(Scheduler, ANewOwnerIsServedAtOnceHoweverManySequencesAnotherHas) {
    Owners owners({.rows = 64, .outputs = 48, .sequences = 32});
    for (int i = 0; i < 32; ++i) owners.add("greedy", 8, 500, 16);
    for (int i = 0; i < 10; ++i) owners.step();
    EXPECT_EQ(owners.running("greedy"), 32) << "alone, it has everything";
    EXPECT_EQ(owners.preemptions(), 0);

    const Job& small = owners.add("small", 12, 4);
    for (int i = 0; i < 4; ++i) owners.step();
    EXPECT_TRUE(Owners::ended(small)) << "4 tokens in 4 steps, as if nobody else were there";
    EXPECT_EQ(owners.preemptions(), 1);
    owners.step();
    EXPECT_EQ(owners.running("greedy"), 32) << "and what is free again is taken again";
}

TEST(Scheduler, OwnersThatBothWantAllHaveHalfOfTheSlots) {
    Owners owners({.rows = 64, .outputs = 48, .sequences = 16});
    for (int i = 0; i < 64; ++i) owners.add("one", 4, 100);
    owners.step();
    EXPECT_EQ(owners.running("one"), 16);
    for (int i = 0; i < 64; ++i) owners.add("two", 4, 100);
    for (int i = 0; i < 50; ++i) {
        owners.step();
        EXPECT_EQ(owners.running("one"), 8);
        EXPECT_EQ(owners.running("two"), 8);
    }
    EXPECT_EQ(owners.preemptions(), 8) << "nothing goes back and forth";
}

TEST(Scheduler, RowsOfLongPromptsAreSharedToo) {
    Owners owners({.rows = 64, .outputs = 16, .sequences = 8});
    for (int i = 0; i < 4; ++i) owners.add("greedy", 1000, 1);
    owners.step();
    const Job& small = owners.add("small", 40, 1);
    owners.step();
    EXPECT_TRUE(Owners::ended(small)) << "a prompt that fits into a step waits for no other";

    owners.rows.clear();
    owners.add("equal", 1000, 1);
    for (int i = 0; i < 10; ++i) owners.step();
    EXPECT_LE(std::abs(owners.rows["equal"] - owners.rows["greedy"]), 64) << "a step at most";
}

TEST(Scheduler, ManyNewcomersDoNotKeepASequenceFromItsEnd) {
    Owners owners({.rows = 64, .outputs = 16, .sequences = 4});
    std::vector<const Job*> patient;
    for (int i = 0; i < 4; ++i) patient.push_back(&owners.add("patient", 4, 60));
    int newcomers = 0;
    int steps = 0;
    for (; !std::all_of(patient.begin(), patient.end(), [](const Job* one) { return Owners::ended(*one); }); ++steps) {
        ASSERT_LT(steps, 400) << "the four share two slots at the least: 60 steps, twice, and what they do again";
        owners.add("new " + std::to_string(newcomers++), 4, 1);
        owners.step();
    }
    EXPECT_LE(owners.preemptions(), 4 + 4 * 60 / 16) << "each gives way once, and then once in 16 tokens";
}

TEST(Scheduler, NobodyGivesWayToOneThatStillDoesNotFit) {
    Owners owners({.rows = 64, .outputs = 48, .sequences = 16});
    for (int i = 0; i < 16; ++i) owners.add("one", 4, 20);
    owners.step();
    const Job& wide = owners.add("two", 4, 4, 12);  // more than its half
    owners.step();
    EXPECT_EQ(owners.preemptions(), 0);
    for (int i = 0; i < 40; ++i) owners.step();
    EXPECT_TRUE(Owners::ended(wide)) << "it waits for free slots, and nobody passes it";
}

TEST(Scheduler, KnowsWhoseDeadlineHasCome) {
    KvBlocks blocks(kSchedulerBlockTokens, {{.window = 0, .blocks = 6}});
    Scheduler scheduler({.rows = 16, .outputs = 4, .sequences = 2}, blocks);
    const TimePoint start{};
    const auto patient = job(2);
    const auto hasty = job(2);
    hasty->deadline = start + std::chrono::seconds(5);
    scheduler.add(*patient);
    scheduler.add(*hasty);
    EXPECT_TRUE(scheduler.expired(start).empty());
    EXPECT_EQ(scheduler.expired(start + std::chrono::seconds(5)), std::vector<Sequence*>{hasty.get()});
    scheduler.remove(*hasty);
    EXPECT_EQ(scheduler.waiting(), 1);
    scheduler.remove(*patient);
}

}  // namespace
}  // namespace tandem::engine
