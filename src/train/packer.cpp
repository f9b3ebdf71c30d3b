#include "train/packer.h"

#include <algorithm>
#include <numeric>

namespace draftsmith {
namespace {

SamplerSettings sampler_settings(const Corpus& corpus, const PackerSettings& settings) {
  return {.seed = settings.seed, .documents = corpus.size(), .epochs = settings.epochs};
}

std::int64_t count_supervised(std::span<const std::uint8_t> loss_mask) {
  return std::count_if(loss_mask.begin(), loss_mask.end(), [](std::uint8_t one) { return one != 0; });
}

}  // namespace

std::vector<DocumentSize> measure_documents(const Corpus& corpus, std::int64_t anchors_per_document) {
  std::vector<DocumentSize> sizes(corpus.size());
  for (std::int64_t document = 0; document < corpus.size(); ++document) {
    const auto loss_mask = corpus[document].loss_mask;
    std::int64_t valid = 0;
    for (std::int64_t p = 0; p < std::ssize(loss_mask) && valid < anchors_per_document; ++p) {
      valid += valid_anchor(loss_mask, p) ? 1 : 0;
    }
    sizes[document] = {.tokens = std::ssize(loss_mask), .blocks = valid};
  }
  return sizes;
}

std::int64_t count_micro_batches(const Corpus& corpus, const PackerSettings& settings) {
  DRAFTSMITH_CHECK(settings.epochs.has_value(), "only a number of epochs has an end");
  const std::vector<DocumentSize> sizes = measure_documents(corpus, settings.anchors_per_document);
  Sampler sampler(sampler_settings(corpus, settings), {});
  std::int64_t count = 0;
  DocumentSize left;  // of the micro-batch being filled
  while (const auto draw = sampler.peek()) {
    const DocumentSize& size = sizes[draw->document];
    if (count == 0 || size.tokens > left.tokens || size.blocks > left.blocks) {
      ++count;
      left = {.tokens = settings.budget.context_tokens, .blocks = settings.budget.blocks};
    }
    left.tokens -= size.tokens;
    left.blocks -= size.blocks;
    sampler.advance();
  }
  return count;
}

Packer::Packer(const Corpus& corpus, const DrafterShape& shape, const PackerSettings& settings,
               const DataPosition& start)
    : corpus_(corpus),
      settings_(settings),
      sizes_(measure_documents(corpus, settings.anchors_per_document)),
      sampler_(sampler_settings(corpus, settings), start),
      builder_(settings.budget, shape) {}

BatchFacts Packer::next(const MicroBatch& batch) {
  BatchFacts facts;
  builder_.begin(batch);
  while (const auto draw = sampler_.peek()) {
    const DocumentSize& size = sizes_[draw->document];
    if (!builder_.fits(size.tokens, size.blocks)) break;
    add(*draw, facts);
    sampler_.advance();
  }
  facts.counts = builder_.finish();
  facts.after = sampler_.position();
  DRAFTSMITH_CHECK(facts.counts.documents > 0 || !sampler_.peek(), "a document fits into an empty batch");
  return facts;
}

void Packer::add(const Sampler::Draw& draw, BatchFacts& facts) {
  const DocumentView document = corpus_[draw.document];
  const Random random(settings_.seed, RandomStream::anchors, static_cast<std::uint32_t>(draw.epoch),
                      static_cast<std::uint32_t>(draw.document));
  draw_anchors(document.loss_mask, settings_.anchors_per_document, random, anchors_);
  builder_.add_document(document.ids, document.loss_mask, anchors_);
  facts.add_work(std::ssize(document.ids), anchors_);
  facts.supervised_tokens += count_supervised(document.loss_mask);
  facts.covered_tokens += count_covered(document.loss_mask, anchors_, settings_.budget.block_size);
}

std::int64_t count_covered(std::span<const std::uint8_t> loss_mask, std::span<const std::int32_t> anchors,
                           std::int64_t block_size) {
  std::int64_t covered = 0, position = 0;
  for (const std::int32_t anchor : anchors) {
    const std::int64_t end = std::min<std::int64_t>(anchor + block_size, std::ssize(loss_mask));
    for (position = std::max<std::int64_t>(position, anchor); position < end; ++position) {
      covered += loss_mask[position] ? 1 : 0;
    }
  }
  return covered;
}

}  // namespace draftsmith
