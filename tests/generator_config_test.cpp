#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "generator/family.h"

namespace attune {
namespace {

using testing::HasSubstr;

const Family& mma() {
    return *find_family("mma");
}

TEST(Config, EveryValueOfEveryAxisRoundTrips) {
    for (const Family& family : families())
        for (const Axis& axis : family.axes)
            for (int value : axis.values) {
                const Config base = *Config::parse(std::string(family.name) + "/");
                const Config config = base.with(axis.key, value);
                EXPECT_EQ(config[axis.key], value);
                const auto parsed = Config::parse(config.text());
                ASSERT_TRUE(parsed) << config.text();
                EXPECT_EQ(*parsed, config) << config.text();
            }
}

TEST(Config, OrderIsFreeAndMissingAxesTakeTheirDefault) {
    const auto config = Config::parse("mma/w8.kv32.part=kv");
    ASSERT_TRUE(config);
    for (const Axis& axis : mma().axes) {
        const std::string_view key = axis.key;
        const int expected = key == "w"      ? 8
                             : key == "kv"   ? 32
                             : key == "part" ? 1
                                             : axis.default_value;
        EXPECT_EQ((*config)[key], expected) << key;
    }
}

TEST(Config, TwoConfigsNeverShareAText) {
    std::set<std::string> texts;
    std::size_t configs = 0;
    const Config base = *Config::parse("mma/");
    for (const Axis& a : mma().axes)
        for (int value : a.values)
            for (const Axis& b : mma().axes)
                for (int other : b.values) {
                    if (a.key >= b.key) continue;
                    texts.insert(base.with(a.key, value).with(b.key, other).text());
                    ++configs;
                }
    std::set<std::vector<int>> distinct;
    for (const std::string& text : texts) distinct.insert(Config::parse(text)->values);
    EXPECT_EQ(distinct.size(), texts.size());
    EXPECT_GT(configs, texts.size());  // the base is reached many times
}

class RefusedConfig : public testing::TestWithParam<const char*> {};

TEST_P(RefusedConfig, SaysWhatThereIs) {
    const auto parsed = Config::parse(GetParam());
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    EXPECT_THAT(parsed.error().message, HasSubstr(" is not "));
    EXPECT_NE(parsed.error().next_step, "");
}

INSTANTIATE_TEST_SUITE_P(Forms, RefusedConfig,
                         testing::Values("", "mma", "/", "wmmma/q128", "MMA/q128", "mma/q129",
                                         "mma/q", "mma/q-128", "mma/q0128", "mma/128",
                                         "mma/q128..w4", "mma/q128,kv64", "mma/part=head",
                                         "mma/part", "mma/part=", "mma/zzz1", "mma/ q128",
                                         "mma/q128.w4 ", "mma//q128", "mma/q128.kv64.q64",
                                         "mma/w4.w4"));

TEST(Config, RefusalNamesTheAxisThatIsMeant) {
    EXPECT_THAT(Config::parse("mma/sec9").error().message, HasSubstr("value of section_heads"));
    EXPECT_THAT(Config::parse("mma/sec9").error().next_step, HasSubstr("sec0 sec8 sec32"));
    EXPECT_THAT(Config::parse("mma/qop=l2").error().next_step, HasSubstr("qop=smem qop=reg"));
    EXPECT_THAT(Config::parse("mma/tile64").error().next_step, HasSubstr("axes are q kv w"));
}

TEST(Family, AxesAreWellFormed) {
    for (const Family& family : families()) {
        std::set<std::string_view> keys, names;
        for (const Axis& axis : family.axes) {
            EXPECT_TRUE(keys.insert(axis.key).second) << axis.key;
            EXPECT_TRUE(names.insert(axis.name).second) << axis.name;
            EXPECT_TRUE(std::is_sorted(axis.values.begin(), axis.values.end())) << axis.key;
            EXPECT_THAT(axis.values, testing::Contains(axis.default_value)) << axis.key;
            EXPECT_TRUE(axis.words.empty() || axis.words.size() == axis.values.size()) << axis.key;
            EXPECT_EQ(family.axis(axis.key), &axis);
        }
        EXPECT_EQ(family.axis("none"), nullptr);
        EXPECT_EQ(find_family(family.name), &family);
    }
    EXPECT_EQ(find_family("none"), nullptr);
}

TEST(Family, ConstraintsNameRealAxesAndAreNamedOnce) {
    for (const Family& family : families()) {
        std::set<std::string> names;
        for (const Constraint& constraint : family.constraints) {
            EXPECT_TRUE(names.insert(constraint.name).second) << constraint.name;
            EXPECT_NE(std::string(constraint.meaning), "");
            for (const char* key : constraint.axes) EXPECT_NE(family.axis(key), nullptr) << key;
        }
    }
}

}  // namespace
}  // namespace attune
