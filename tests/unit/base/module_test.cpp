// Modules: what is said of one that is missing, or is not of this build.
#include "base/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::HasSubstr;

TEST(Module, IsNamedWithItsPackageWhenItIsMissing) {
    const auto found = find_in_module({.name = "nothing", .package = "tandem-nothing"}, "tandem_open_nothing");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().message, "libtandem-nothing.so is not here: install the package tandem-nothing");
}

TEST(Module, OfAnotherVersionIsRefused) {
    const auto found = find_in_module({.name = "module_of_another_version", .package = "tandem-test"}, "tandem_test");
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr("its version is 0.0.1, but that of the program "));
}

TEST(Module, ThatIsWholeGivesItsFunctions) {
    const auto found = find_in_module({.name = "test_module", .package = "tandem-test"}, "tandem_test");
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(reinterpret_cast<int (*)()>(*found)(), 42);
    const auto other = find_in_module({.name = "test_module", .package = "tandem-test"}, "tandem_other");
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message, HasSubstr("has no tandem_other: install the package tandem-test again"));
}

TEST(Module, ThatCannotBeOpenedIsAnErrorWithTheReason) {
    const auto found = find_in_module({.name = "broken_module", .package = "tandem-test"}, "tandem_test");
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr("libtandem-broken_module.so cannot be opened: "));
}

}  // namespace
}  // namespace tandem
