// Weights of a chunk's supervised slots and the sums of the loss. Rows are compacted: block by block, offsets
// ascending, and a block never straddles two chunks.
//   dflash:  w_k = exp(-(k - 1) / gamma), or 1 when gamma is 0            (DFlash, arXiv 2602.06036, section 3)
//   dpace:   s_k = (1 - alpha) exp(-nll_k) + alpha,  C_k = product of s_i over the block's rows up to k,
//            w_k = sum of C_j over the block's rows from k on; no gradient flows through w
//                                                                          (D-PACE, arXiv 2605.18810)
//   distilled: the numerator is the sum of w * ((1 - share) * nll + share * temperature^2 * divergence)
// Sums are unscaled; one division by the step's denominator follows the exchange.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

enum class LossKind { dflash, dpace };

struct LossSettings {
  LossKind kind = LossKind::dflash;
  float gamma = 0;          // dflash
  float alpha = 0.5f;       // dpace
  float distill_share = 0;  // of the divergence from the target's own distribution in the loss; 0: none
  float distill_temperature = 1;

  bool distilled() const { return distill_share > 0; }
};

// Where each sum lies in the vector of sums; offsets k in 1..block_size-1 follow.
struct LossSums {
  static constexpr std::int64_t kNumerator = 0;    // sum of w * loss
  static constexpr std::int64_t kDenominator = 1;  // sum of w
  static constexpr std::int64_t kNll = 2;          // sum of nll, unweighted
  static constexpr std::int64_t kRuns = 3;         // leading correct slots, a hole ends the run
  static constexpr std::int64_t kBlocks = 4;       // blocks with any supervised slot
  static constexpr std::int64_t kFirstHit = 5;     // correct slots by offset, [block_size]
  static constexpr std::int64_t hits(std::int64_t offset) { return kFirstHit + offset; }
  static constexpr std::int64_t counts(std::int64_t offset, std::int64_t block_size) {
    return kFirstHit + block_size + offset;
  }
  static constexpr std::int64_t size(std::int64_t block_size) { return kFirstHit + 2 * block_size; }
};

template <typename T>
struct BlockLoss {
  LossSettings settings;
  std::int64_t block_size = 0;
  Vector<const std::int32_t> labels;       // [rows]; < 0: unused
  Vector<const std::int32_t> blocks;       // [rows]: which block a row belongs to
  Vector<const std::int32_t> offsets;      // [rows]: its slot k
  Vector<const float> nll;                 // [rows]
  Vector<const float> divergence;          // [rows], read when distilled
  Vector<const std::int32_t> predictions;  // [rows]
  Vector<float> weights;                   // [rows]; 0 for unused rows
  Vector<double> sums;                     // [LossSums::size(block_size)], added to
};

}  // namespace draftsmith
