// A decoder whose distributions a test wrote down: the target's next token depends on the one before, the
// drafter's on the newest token and the place in the block.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "generate/decoder.h"

namespace draftsmith {

struct MarkovModels {
  std::vector<std::vector<double>> target;   // [vocabulary, vocabulary]: of the token after each
  std::vector<std::vector<double>> drafter;  // [vocabulary, vocabulary]: row (newest + proposal) % vocabulary

  const std::vector<double>& drafted(std::int32_t newest, std::size_t proposal) const {
    return drafter[(static_cast<std::size_t>(newest) + proposal) % drafter.size()];
  }
};

class MarkovDecoder final : public Decoder {
 public:
  MarkovDecoder(const MarkovModels& models, std::int64_t block_size)
      : models_(models),
        block_size_(block_size),
        logits_(static_cast<std::size_t>(block_size) * models.target.size()) {
    settings_.longest = 64;
  }

  std::int32_t prefill(std::span<const std::int32_t> prompt) override {
    length_ = static_cast<std::int64_t>(prompt.size());
    return answer(0, models_.target[prompt.back()]);
  }
  void draft(std::int32_t last, std::span<std::int32_t> proposals) override {
    for (std::size_t i = 0; i < proposals.size(); ++i) proposals[i] = answer(i, models_.drafted(last, i));
  }
  void verify(std::span<const std::int32_t> tokens, std::span<std::int32_t> choices) override {
    for (std::size_t i = 0; i < tokens.size(); ++i) choices[i] = answer(i, models_.target[tokens[i]]);
  }
  void commit(std::int64_t rows) override { length_ += rows; }
  std::int32_t step(std::int32_t token) override {
    ++length_;
    return answer(0, models_.target[token]);
  }
  std::int64_t length() const override { return length_; }
  void rewind(std::int64_t length) override { length_ = length; }
  const DecoderSettings& settings() const override { return settings_; }
  std::int64_t block_size() const override { return block_size_; }
  Matrix<const float> logits() const override {
    const auto vocabulary = static_cast<std::int64_t>(models_.target.size());
    return matrix_view(logits_.data(), block_size_, vocabulary);
  }
  std::int64_t device_bytes() const override { return 0; }

 private:
  // Writes a row of logits; the most probable token.
  std::int32_t answer(std::size_t row, const std::vector<double>& probabilities) {
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
      logits_[row * probabilities.size() + i] = static_cast<float>(std::log(probabilities[i]));
    }
    return static_cast<std::int32_t>(std::max_element(probabilities.begin(), probabilities.end()) -
                                     probabilities.begin());
  }

  const MarkovModels& models_;
  const std::int64_t block_size_;
  std::vector<float> logits_;  // [block_size, vocabulary]
  DecoderSettings settings_;
  std::int64_t length_ = 0;
};

}  // namespace draftsmith
