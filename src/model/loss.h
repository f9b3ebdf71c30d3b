// The frozen head and the loss, in chunks of the rows of y: logits, loss and its gradient, and the gradient of y, all
// before the next chunk. Whole logits never exist. Chunks past the last used row are skipped.
#pragma once

#include <cstdint>

#include "kernels/launcher.h"
#include "model/micro_batch.h"

namespace draftsmith {

// What the memory of the loss depends on.
struct LossShape {
  BatchBudget budget;
  std::int64_t width = 0, vocabulary = 0;
  LossSettings settings;
};

// The teacher's side of a chunk; empty unless the loss is distilled.
template <typename T>
struct TeacherScratch {
  Matrix<T> hidden;                                // [loss_chunk_rows, width]
  Matrix<T> logits;                                // [loss_chunk_rows, vocabulary]
  Vector<float> divergence;                        // [loss_rows]
  Vector<float> log_sum_exp, teacher_log_sum_exp;  // [loss_chunk_rows], at the temperature
};

// Working memory of one chunk, and what is kept of every row for statistics.
template <typename T>
struct LossScratch {
  Matrix<T> logits;           // [loss_chunk_rows, vocabulary], then their gradient
  Vector<float> log_sum_exp;  // [loss_chunk_rows], of a forward pass alone or beside a teacher
  TeacherScratch<T> teacher;
  Vector<float> nll;      // [loss_rows]
  Vector<float> weights;  // [loss_rows]: what a row counts in the loss, and in its gradient; 0 unused
  Vector<std::int32_t> predictions;  // [loss_rows]: argmax of the row's logits, -1 unused
  Vector<double> sums;               // [LossSums::size(block_size)]: since the last reset
};
template <typename T>
LossScratch<T> carve_loss_scratch(Carver& carver, const LossShape& shape);

enum class LossPass { with_gradient, forward_only };
template <typename T>
struct LossRun {
  LossSettings settings;
  LossPass pass = LossPass::with_gradient;
  Matrix<const T> hidden;  // [loss_rows, width]: the drafter's output
  Matrix<const T> head;    // [vocabulary, width], frozen
  Matrix<const T>
      teacher_hidden;  // [context_tokens, width]: the target's, after its final norm; read when distilled
  // [loss_rows, width], written when the pass makes gradients: each row's gradient of its own loss, which counts
  // LossScratch::weights times in the sum of the loss.
  Matrix<T> grad_hidden;
};

// The pass in parts. The chunks in use, in order: nll, predictions and gradient of their rows.
template <typename T>
void run_loss_chunk(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                    const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t chunk);
// Then once: the weights of their rows, and their sums, added to scratch.sums. With gradient the rows of the chunks that
// are not in use get the gradient 0 and the weight 0.
template <typename T>
void finish_loss(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                 const BatchCounts& counts, const BatchBudget& budget, const LossScratch<T>& scratch);

// All of it. Adds to scratch.sums; writes nll and predictions of the batch's rows.
template <typename T>
void run_loss(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch, const BatchCounts& counts,
              const BatchBudget& budget, const LossScratch<T>& scratch);

}  // namespace draftsmith
