// One device that holds a target and its drafter and decodes one sequence at a time. The steps of speculative
// decoding, each over a fixed number of rows, so that everything is prepared and measured at construction and
// no step allocates on the device:
//   prefill  the prompt through both models, in chunks       -> the first new token
//   draft    one block after a token                         -> block_size - 1 proposals
//   verify   that block through the target                   -> the target's choice after every slot
//   step     one token through the target, nothing drafted   -> the target's choice: plain decoding
// Rows that a chunk or a block has too many are data like the others: nothing valid ever sees them, and the
// rows that follow overwrite them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "device/device.h"
#include "model/shape.h"
#include "tensor/tensor.h"

namespace draftsmith {

struct DecoderModels {
  std::filesystem::path target_folder;
  TargetShape target;
  DrafterShape drafter;
  std::span<const float> drafter_weights;  // the flat range of drafter_weight_table(drafter)
};

struct DecoderSettings {
  std::int64_t longest = 0;        // tokens of a sequence: prompt and output
  std::int64_t prefill_rows = 64;  // of one chunk
};

// Throws Error, naming both values, when the drafter was not made for such a target.
void check_drafter_fits(const DrafterShape& drafter, const TargetShape& target);

// Owned by one thread, which must be attached to the device. Calls block until the device has answered.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Forgets the sequence before. The token after the prompt, by the target.
  virtual std::int32_t prefill(std::span<const std::int32_t> prompt) = 0;
  // `last` is the newest token, at position length(); it is in no cache yet. proposals: [block_size - 1].
  virtual void draft(std::int32_t last, std::span<std::int32_t> proposals) = 0;
  // tokens: [block_size], at positions length() and on. choices: [block_size], greedy. Commits nothing.
  virtual void verify(std::span<const std::int32_t> tokens, std::span<std::int32_t> choices) = 0;
  // The first `rows` tokens of the last verify() are part of the sequence.
  virtual void commit(std::int64_t rows) = 0;
  // Runs and commits one token; the target's greedy choice. draft() is impossible until rewind().
  virtual std::int32_t step(std::int32_t token) = 0;

  // Tokens of the sequence that both caches or, after step(), the target's cache hold.
  virtual std::int64_t length() const = 0;
  virtual void rewind(std::int64_t length) = 0;

  virtual const DecoderSettings& settings() const = 0;
  virtual std::int64_t block_size() const = 0;
  // [rows, vocabulary]: of the last prefill (one row), draft, verify or step, until the next call. Memory
  // of the host; blocks while it is copied from a device that the host does not address.
  virtual Matrix<const float> logits() const = 0;
  virtual std::int64_t device_bytes() const = 0;
};

// Loads both models onto the device and warms up. Throws Error for models that do not fit each other and for
// sequences longer than the target's positions.
std::unique_ptr<Decoder> make_decoder(const Device& device, DType compute, const DecoderModels& models,
                                      const DecoderSettings& settings);

}  // namespace draftsmith
