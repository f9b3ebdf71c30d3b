// The target's part of a device: the tokens of a slot in, the raw outputs of the tapped layers out. The pass is one
// graph, on a stream of its own: on a device that is a drafter too it overlaps with that one's step.
// Owned by the main thread during set-up, then by the device's.
#pragma once

#include <filesystem>

#include "device/graph.h"
#include "model/target.h"
#include "train/run_shapes.h"
#include "train/slots.h"

namespace draftsmith {

template <typename T>
class TargetWorker {
 public:
  TargetWorker(const Device& device, const Kernels<T>& kernels, const RunShapes& shapes)
      : shapes_(shapes), target_(shapes.target, shapes.drafter.taps), launch_(device, kernels) {}

  // Lays out everything; the same call measures and cuts.
  void carve(Carver& carver);
  // Prepares every launch of the pass, its products by `choices` and adding to them, and finds how much scratch they
  // need, over views without memory.
  void measure(Preparation preparation, ProductChoices& choices);
  // Reads the weights of a Hugging Face folder into the carved memory.
  void load(const std::filesystem::path& folder);
  // Fills a packed slot launch by launch, then captures the pass.
  void warm_up(Slot& slot);

  // Copies a packed slot's tokens, runs the pass and fills the slot's features. Blocks until they are there.
  void fill(Slot& slot);
  // The pass alone, on the tokens that were copied last, as a graph or launch by launch. These do not block.
  void prefill() { pass_.replay(launch_.stream()); }
  void launch_prefill();

  // Of a layer's product, measured; overwrites memory that every pass writes anew.
  double product_rate();
  // Bytes a second from the device to a slot; fills it once more with the same features.
  double copy_rate(const Slot& slot);

  Launcher<T>& launcher() { return launch_; }
  const VocabularyTables<T>& tables() const { return weights_.tables; }

 private:
  void send_tokens(const Slot& slot);
  void receive_features(const Slot& slot);

  // Constant after construction.
  const RunShapes& shapes_;
  const Target<T> target_;
  Launcher<T> launch_;
  Graph pass_;
  // Views of the device's arena.
  TargetWeights<T> weights_;
  RopeStorage rope_;
  TargetScratch<T> scratch_;
  KeyValueStore<T> store_;                   // one pair of matrices, used by every layer in turn
  Vector<std::int32_t> tokens_, positions_;  // [context_tokens]
  Vector<std::int32_t> begin_, end_;         // [context_tokens]: the rows that each row sees
  Vector<std::byte> plan_;                   // of the pass's attention
  Matrix<T> features_;                       // [context_tokens, taps * width]
  Matrix<T> final_hidden_;                   // [context_tokens, width], empty unless the loss is distilled
};

}  // namespace draftsmith
