// Ids and texts equal those of the Hugging Face `tokenizers` library; tools/make_tokenizer_fixture.py wrote
// the cases.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"

namespace draftsmith {
namespace {

const std::string kRoot = DRAFTSMITH_SOURCE_DIR;

struct Golden {
  const char* name;
  const char* folder;
};

class TokenizerGolden : public testing::TestWithParam<Golden> {};

TEST_P(TokenizerGolden, AgreesWithTheReferenceLibrary) {
  const Tokenizer tokenizer = Tokenizer::load(kRoot + GetParam().folder);
  std::ifstream stream(kRoot + "/tests/golden/tokenizer/cases.json");
  const nlohmann::json cases = nlohmann::json::parse(stream).at(GetParam().name);
  ASSERT_GE(cases.size(), 300u);
  for (const auto& golden : cases) {
    const auto text = golden.at("text").get<std::string>();
    const auto ids = golden.at("ids").get<std::vector<std::int32_t>>();
    SCOPED_TRACE(golden.at("text").dump(-1, ' ', true));
    EXPECT_EQ(tokenizer.encode(text), ids);
    if (!golden.contains("decoded")) continue;
    EXPECT_EQ(tokenizer.decode(ids), golden.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::skip),
              golden.at("decoded_skipping_special").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenizerGolden,
                         testing::Values(Golden{"demo", "/examples/demo/target"},
                                         Golden{"qwen2", "/tests/golden/tokenizer/qwen2"},
                                         Golden{"smollm", "/tests/golden/tokenizer/smollm"},
                                         Golden{"llama3", "/tests/golden/tokenizer/llama3"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace draftsmith
