#include "app/options.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftsmith {
namespace {

using testing::HasSubstr;

TEST(Options, NamesAreUniqueAndExplained) {
  std::set<std::string_view> names;
  for (const Option& option : all_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_EQ(find_option(option.name), &option);
  }
  EXPECT_EQ(find_option("train"), nullptr);
}

TEST(Options, EveryDefaultIsAllowed) {
  for (const Option& option : all_options()) {
    const OptionValue value = option.get(RunConfig{});
    EXPECT_TRUE(!value.empty() || option.is_required || option.may_be_auto || option.may_be_null)
        << option.name;
    for (const OptionScalar& scalar : value) EXPECT_TRUE(is_allowed(option, scalar)) << option.name;
  }
}

// Two rows with the same member, or one whose access was copied from a neighbour, would show here.
TEST(Options, EachSetsItsOwnMemberOnly) {
  for (const Option& option : all_options()) {
    RunConfig config;
    OptionValue value = option.get(config);
    switch (option.type) {
      case ValueType::flag:
        value = {value.empty() || !std::get<bool>(value.front())};
        break;
      case ValueType::integer:
        value = {option.integers.most};
        break;
      case ValueType::real:
        value = {0.625};
        break;
      case ValueType::text:
        value = {std::string("other")};
        break;
      case ValueType::choice:
        value = {std::string(option.choices.back())};
        break;
    }
    option.set(config, value);
    for (const Option& other : all_options()) {
      EXPECT_EQ(other.get(config), &other == &option ? value : other.get(RunConfig{})) << option.name;
    }
  }
}

TEST(Options, RangesExcludeWhatTheySay) {
  const Option& lr = *find_option("train.optimizer.lr");
  EXPECT_FALSE(is_allowed(lr, 0.0));
  EXPECT_TRUE(is_allowed(lr, 1e-30));
  EXPECT_FALSE(is_allowed(lr, 1e-300));  // 0 in float32
  const Option& betas = *find_option("train.optimizer.betas");
  EXPECT_TRUE(is_allowed(betas, std::int64_t{0}));
  EXPECT_FALSE(is_allowed(betas, 1.0));
  EXPECT_TRUE(is_allowed(betas, 0.9999999));
  EXPECT_FALSE(is_allowed(betas, 0.99999999999));  // 1 in float32
  EXPECT_EQ(refusal_hint(betas, 0.99999999999, "0.99999999999"), ", which float32 takes for 1");
  const Option& slots = *find_option("devices.queue.slots");
  EXPECT_TRUE(is_allowed(slots, std::int64_t{1}));
  EXPECT_FALSE(is_allowed(slots, std::int64_t{0}));
  EXPECT_FALSE(is_allowed(slots, 1.0));
}

TEST(Options, TheReferenceListsNameDefaultAndRange) {
  EXPECT_THAT(option_reference(), HasSubstr("slots of a draft block: the anchor and what is drafted (8)"));
  EXPECT_THAT(option_reference(), HasSubstr("an integer from 2 to 32"));
  EXPECT_THAT(option_reference(), HasSubstr("([0.9, 0.999])"));
  EXPECT_THAT(option_reference(), HasSubstr("Hugging Face folder of the target (required)"));
}

}  // namespace
}  // namespace draftsmith
