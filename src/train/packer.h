// Documents into training micro-batches: next-fit in the sampler's order, each with anchors drawn for
// (seed, epoch, document). The result depends on the data, the seed and the budget alone, never on how many
// targets or drafters there are.
#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"
#include "model/micro_batch.h"
#include "train/sampler.h"
#include "train/slots.h"

namespace draftsmith {

struct PackerSettings {
  std::uint64_t seed = 0;
  std::int64_t anchors_per_document = 0;
  std::optional<std::int64_t> epochs;  // nothing: for ever
  BatchBudget budget;
};

// What packing needs to know of a document.
struct DocumentSize {
  std::int64_t tokens = 0;
  std::int64_t blocks = 0;  // as many as it has valid anchors, at most anchors_per_document
};
std::vector<DocumentSize> measure_documents(const Corpus& corpus, std::int64_t anchors_per_document);

// How many micro-batches `epochs` make, found by packing sizes alone. Settings without epochs are a failed
// check.
std::int64_t count_micro_batches(const Corpus& corpus, const PackerSettings& settings);

// Used by one thread: the feeder's. The corpus must outlive it.
class Packer {
 public:
  Packer(const Corpus& corpus, const DrafterShape& shape, const PackerSettings& settings,
         const DataPosition& start);

  // Writes the next micro-batch; an empty one after the last epoch.
  BatchFacts next(const MicroBatch& batch);

 private:
  void add(const Sampler::Draw& draw, BatchFacts& facts);

  const Corpus& corpus_;
  const PackerSettings settings_;
  const std::vector<DocumentSize> sizes_;
  Sampler sampler_;
  MicroBatchBuilder builder_;
  std::vector<std::int32_t> anchors_;
};

// Supervised tokens in some block as its anchor or a slot. Anchors ascend.
std::int64_t count_covered(std::span<const std::uint8_t> loss_mask, std::span<const std::int32_t> anchors,
                           std::int64_t block_size);

}  // namespace draftsmith
