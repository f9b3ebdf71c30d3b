// The target's part of a device: the tokens of a slot in, the raw outputs of the tapped layers out.
// Owned by the main thread during set-up, then by the device's.
#pragma once

#include <filesystem>

#include "model/target.h"
#include "train/run_shapes.h"
#include "train/slots.h"

namespace draftsmith {

template <typename T>
class TargetWorker {
 public:
  explicit TargetWorker(const RunShapes& shapes)
      : shapes_(shapes), target_(shapes.target, shapes.drafter.taps) {}

  // Lays out everything; the same call measures and cuts.
  void carve(Carver& carver);
  // Reads the weights of a Hugging Face folder into the carved memory.
  void load(const Stream& stream, const std::filesystem::path& folder);

  // The pass alone, on whatever the inputs hold: what a measuring launcher prepares.
  void forward(Launcher<T>& launch);
  // Copies a packed slot's tokens, runs the pass and fills the slot's features. Blocks until they are there.
  void fill(Launcher<T>& launch, Slot& slot);

  // The widest product of a layer, on memory that every pass writes anew.
  Matmul<T> largest_product() const;

  const VocabularyTables<T>& tables() const { return weights_.tables; }

 private:
  // Constant after construction.
  const RunShapes& shapes_;
  const Target<T> target_;
  // Views of the device's arena.
  TargetWeights<T> weights_;
  RopeStorage rope_;
  TargetScratch<T> scratch_;
  KeyValueStore<T> store_;                   // one pair of matrices, used by every layer in turn
  Vector<std::int32_t> tokens_, positions_;  // [context_tokens]
  Vector<std::int32_t> begin_, end_;         // [context_tokens]: the rows that each row sees
  Matrix<T> features_;                       // [context_tokens, taps * width]
  Matrix<T> final_hidden_;                   // [context_tokens, width], empty unless the loss is distilled
};

}  // namespace draftsmith
