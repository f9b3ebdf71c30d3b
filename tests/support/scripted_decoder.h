// A decoder without models: the target continues by a fixed text, and the drafter proposes what a test wrote
// down. For the rules of the decoding loop.
#pragma once

#include <vector>

#include "generate/decoder.h"

namespace draftsmith {

class ScriptedDecoder final : public Decoder {
 public:
  // text: the whole sequence as the target would write it. drafts: proposals by position, where they differ
  // from the text.
  ScriptedDecoder(std::vector<std::int32_t> text, std::vector<std::int32_t> drafts, std::int64_t block_size)
      : text_(std::move(text)), step_text_(text_), drafts_(std::move(drafts)), block_size_(block_size) {
    settings_.longest = static_cast<std::int64_t>(text_.size());
  }

  // Makes plain decoding follow another text: a target that contradicts itself.
  void step_by(std::vector<std::int32_t> text) { step_text_ = std::move(text); }

  std::int32_t prefill(std::span<const std::int32_t> prompt) override {
    length_ = static_cast<std::int64_t>(prompt.size());
    return at(text_, length_);
  }
  void draft(std::int32_t, std::span<std::int32_t> proposals) override {
    for (std::size_t i = 0; i < proposals.size(); ++i)
      proposals[i] = at(drafts_, length_ + 1 + static_cast<std::int64_t>(i));
  }
  void verify(std::span<const std::int32_t>, std::span<std::int32_t> choices) override {
    for (std::size_t i = 0; i < choices.size(); ++i)
      choices[i] = at(text_, length_ + 1 + static_cast<std::int64_t>(i));
  }
  void commit(std::int64_t rows) override { length_ += rows; }
  std::int32_t step(std::int32_t) override { return at(step_text_, ++length_); }
  std::int64_t length() const override { return length_; }
  void rewind(std::int64_t length) override { length_ = length; }
  const DecoderSettings& settings() const override { return settings_; }
  std::int64_t block_size() const override { return block_size_; }
  Matrix<const float> logits() const override { return {}; }
  std::int64_t device_bytes() const override { return 0; }

 private:
  // Past the end of the text anything may be chosen.
  static std::int32_t at(const std::vector<std::int32_t>& tokens, std::int64_t position) {
    return position < static_cast<std::int64_t>(tokens.size()) ? tokens[position] : 0;
  }

  std::vector<std::int32_t> text_, step_text_, drafts_;
  std::int64_t block_size_;
  DecoderSettings settings_;
  std::int64_t length_ = 0;
};

}  // namespace draftsmith
