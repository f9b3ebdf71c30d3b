#include "generate/decoder.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "device/seal.h"
#include "generate/speculate.h"
#include "support/expect_error.h"
#include "support/spec_tiny.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kLength = SpecTiny::kLength;

std::vector<float> logits_row(const Decoder& decoder, std::int64_t row) {
  const float* begin = decoder.logits().row(row);
  return {begin, begin + decoder.logits().columns};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<std::int32_t> whole(const std::vector<std::int32_t>& prompt, const GenerationResult& result) {
  std::vector<std::int32_t> tokens = prompt;
  tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
  return tokens;
}

// The reference's loop ran one useless cycle where only the last token was missing: prompts 3 and 4.
TEST(DecoderTest, ProposalsAndOutputsAreThoseOfTheReference) {
  const SpecTiny tiny;
  for (const std::int64_t chunk : {8, 32, 64}) {
    const auto decoder = tiny.decoder(DType::float32, {.longest = kLength, .prefill_rows = chunk});
    for (std::int64_t i = 0; i < SpecTiny::kPrompts; ++i) {
      const std::vector<std::int32_t> prompt = tiny.prompt(i);
      const GenerationSettings settings{.max_new_tokens = kLength - static_cast<std::int64_t>(prompt.size())};
      const PromptState state = run_prompt(*decoder, prompt);
      const GenerationResult result = decode_speculatively(*decoder, state, settings);
      EXPECT_EQ(whole(prompt, result), tiny.rows("spec_output", i)[0]) << i;
      EXPECT_EQ(whole(prompt, decode_plainly(*decoder, state, settings)), tiny.rows("greedy_output", i)[0])
          << i;

      std::vector<std::vector<std::int32_t>> expected = tiny.rows("proposals", i), found;
      if (i == 3 || i == 4) expected.pop_back();
      for (const DraftCycle& cycle : result.cycles) found.push_back(cycle.proposals);
      EXPECT_EQ(found, expected) << i;
    }
  }
}

// A prompt of several chunks, the last of them padded, gives what one chunk gives up to rounding; here the
// same tokens.
TEST(DecoderTest, ChunksOfThePromptDoNotShowInTheOutput) {
  const SpecTiny tiny;
  std::vector<std::int32_t> prompt = tiny.rows("greedy_output", 0)[0];
  prompt.resize(29);
  std::vector<std::vector<std::int32_t>> outputs;
  for (const std::int64_t chunk : {1, 8, 32}) {
    const auto decoder = tiny.decoder(DType::float32, {.longest = kLength, .prefill_rows = chunk});
    outputs.push_back(
        decode_speculatively(*decoder, run_prompt(*decoder, prompt), {.max_new_tokens = 27}).tokens);
  }
  EXPECT_EQ(outputs[1], outputs[0]);
  EXPECT_EQ(outputs[2], outputs[0]);
}

// Greedy equality rests on this: the target chooses from the same numbers whether it verifies or decodes.
TEST(DecoderTest, VerifiedRowsHaveTheBitsOfPlainlyDecodedOnes) {
  const SpecTiny tiny;
  for (const DType compute : {DType::float32, DType::bf16}) {
    const auto decoder = tiny.decoder(compute, {.longest = kLength});
    std::vector<std::int32_t> block{run_prompt(*decoder, tiny.prompt(0)).first_token};
    const std::vector<std::int32_t> other = tiny.prompt(1);  // drafts that the target would not choose
    block.insert(block.end(), other.begin(), other.end() - 1);
    std::vector<std::int32_t> choices(block.size());
    decoder->verify(block, choices);
    std::vector<std::vector<float>> verified;
    for (std::int64_t row = 0; row < decoder->block_size(); ++row)
      verified.push_back(logits_row(*decoder, row));
    for (std::int64_t row = 0; row < decoder->block_size(); ++row) {
      EXPECT_EQ(decoder->step(block[row]), choices[row]);
      EXPECT_TRUE(same_bits(logits_row(*decoder, 0), verified[row])) << row;
    }
  }
}

// After rejected drafts and a rewind, both models continue as if they had never been.
TEST(DecoderTest, RollingBackLeavesNothingBehind) {
  const SpecTiny tiny;
  const auto used = tiny.decoder(DType::float32, {.longest = kLength});
  const auto fresh = tiny.decoder(DType::float32, {.longest = kLength});
  const std::vector<std::int32_t> prompt = tiny.prompt(2);
  decode_speculatively(*used, run_prompt(*used, tiny.prompt(3)), {.max_new_tokens = 40});
  const PromptState state = run_prompt(*used, prompt);
  decode_plainly(*used, state, {.max_new_tokens = 40});
  used->rewind(state.length);
  run_prompt(*fresh, prompt);

  const auto block = static_cast<std::size_t>(used->block_size());
  std::vector<std::int32_t> wrong(block, 1), choices(block), used_draft(block - 1), fresh_draft(block - 1);
  wrong[0] = state.first_token;
  used->verify(wrong, choices);  // writes a block of rows to both caches; none is committed
  used->draft(state.first_token, used_draft);
  fresh->draft(state.first_token, fresh_draft);
  EXPECT_EQ(used_draft, fresh_draft);
  for (std::int64_t row = 0; row + 1 < used->block_size(); ++row) {
    EXPECT_TRUE(same_bits(logits_row(*used, row), logits_row(*fresh, row))) << row;
  }
  used->step(state.first_token);
  fresh->step(state.first_token);
  EXPECT_TRUE(same_bits(logits_row(*used, 0), logits_row(*fresh, 0)));
}

TEST(DecoderTest, NothingIsAllocatedAfterConstruction) {
  const SpecTiny tiny;
  const auto decoder = tiny.decoder(DType::bf16, {.longest = kLength});
  seal();
  const PromptState state = run_prompt(*decoder, tiny.prompt(4));
  decode_speculatively(*decoder, state, {.max_new_tokens = 20});
  decode_plainly(*decoder, state, {.max_new_tokens = 20});
  const SealReport report = seal_report();
  unseal();
  for (const std::int64_t count : report.after) EXPECT_EQ(count, 0);
}

TEST(DecoderTest, ADrafterOfAnotherTargetIsRefused) {
  const SpecTiny tiny;
  const DecoderModels models = tiny.models();
  const auto refused = [&](auto change, std::initializer_list<std::string_view> parts) {
    DrafterShape drafter = models.drafter;
    change(drafter);
    expect_error([&] { check_drafter_fits(drafter, models.target); }, parts);
  };
  refused([](DrafterShape& shape) { shape.width = 128; }, {"hidden_size", "128", "64"});
  refused([](DrafterShape& shape) { shape.vocabulary = 100; }, {"vocab_size", "100", "96"});
  refused([](DrafterShape& shape) { shape.target_layers = 6; }, {"num_target_layers", "6", "4"});
  refused([](DrafterShape& shape) { shape.taps = {1, 3}; }, {"taps"});
  refused([](DrafterShape& shape) { shape.block_size = 64; }, {"block_size", "64"});
}

TEST(DecoderTest, ASequenceBeyondThePositionsIsRefused) {
  const SpecTiny tiny;
  expect_error([&] { tiny.decoder(DType::float32, {.longest = 257}); },
               {"257", "256", "max_position_embeddings"});
}

}  // namespace
}  // namespace draftsmith
