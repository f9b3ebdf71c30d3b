#include "model/loss.h"

#include "base/arithmetic.h"

namespace draftsmith {

namespace {

// Rows begin on 16 bytes whatever the vocabulary is: else a GPU multiplies with them by its slow, plain kernel.
template <typename T>
Matrix<T> carve_logits(Carver& carver, std::int64_t rows, std::int64_t vocabulary) {
  constexpr std::int64_t kOnSixteenBytes = 16 / sizeof(T);
  return carver.matrix<T>(rows, round_up(vocabulary, kOnSixteenBytes)).slice_columns(0, vocabulary);
}

template <typename T>
TeacherScratch<T> carve_teacher_scratch(Carver& carver, const LossShape& shape) {
  const std::int64_t chunk = shape.budget.loss_chunk_rows;
  return {.hidden = carver.matrix<T>(chunk, shape.width),
          .logits = carve_logits<T>(carver, chunk, shape.vocabulary),
          .divergence = carver.vector<float>(shape.budget.loss_rows()),
          .log_sum_exp = carver.vector<float>(chunk),
          .teacher_log_sum_exp = carver.vector<float>(chunk)};
}

}  // namespace

template <typename T>
LossScratch<T> carve_loss_scratch(Carver& carver, const LossShape& shape) {
  const BatchBudget& budget = shape.budget;
  const std::int64_t chunk = budget.loss_chunk_rows;
  LossScratch<T> scratch{.logits = carve_logits<T>(carver, chunk, shape.vocabulary),
                         .log_sum_exp = carver.vector<float>(chunk)};
  if (shape.settings.distilled()) scratch.teacher = carve_teacher_scratch<T>(carver, shape);
  scratch.nll = carver.vector<float>(budget.loss_rows());
  scratch.weights = carver.vector<float>(budget.loss_rows());
  scratch.predictions = carver.vector<std::int32_t>(budget.loss_rows());
  scratch.sums = carver.vector<double>(LossSums::size(budget.block_size));
  return scratch;
}

namespace {

// The teacher's logits of one chunk and how far the draft's are from them.
template <typename T>
void teacher_forward(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                     const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t first) {
  const std::int64_t rows = budget.loss_chunk_rows;
  const TeacherScratch<T>& teacher = scratch.teacher;
  launch(GatherRows<T>{.table = run.teacher_hidden,
                       .index = batch.loss_teachers.slice(first, rows),
                       .output = teacher.hidden});
  launch(
      Matmul<T>{.form = MatmulForm::nt, .left = teacher.hidden, .right = run.head, .output = teacher.logits});
  launch(DistillationForward<T>{.logits = scratch.logits,
                                .teacher_logits = teacher.logits,
                                .labels = batch.loss_labels.slice(first, rows),
                                .temperature = run.settings.distill_temperature,
                                .divergence = teacher.divergence.slice(first, rows),
                                .log_sum_exp = teacher.log_sum_exp,
                                .teacher_log_sum_exp = teacher.teacher_log_sum_exp});
}

// With the gradient in the place of the logits, unless these are needed for it again or there is none.
template <typename T>
void cross_entropy(Launcher<T>& launch, const LossRun<T>& run, Vector<const std::int32_t> labels,
                   const LossScratch<T>& scratch, std::int64_t first) {
  const Vector<float> nll = scratch.nll.slice(first, labels.size);
  const Vector<std::int32_t> predictions = scratch.predictions.slice(first, labels.size);
  if (run.pass == LossPass::with_gradient && !run.settings.distilled()) {
    return launch(CrossEntropyWithGradient<T>{
        .logits = scratch.logits, .labels = labels, .nll = nll, .predictions = predictions});
  }
  launch(CrossEntropyForward<T>{.logits = scratch.logits,
                                .labels = labels,
                                .nll = nll,
                                .log_sum_exp = scratch.log_sum_exp,
                                .predictions = predictions});
}

// Logits and nll of one chunk; not distilled, the logits' gradient too.
template <typename T>
void chunk_forward(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                   const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t first) {
  const std::int64_t rows = budget.loss_chunk_rows;
  const Vector<const std::int32_t> labels = batch.loss_labels.slice(first, rows);
  launch(Matmul<T>{.form = MatmulForm::nt,
                   .left = run.hidden.slice_rows(first, rows),
                   .right = run.head,
                   .output = scratch.logits});
  cross_entropy(launch, run, labels, scratch, first);
  if (run.settings.distilled()) teacher_forward(launch, run, batch, budget, scratch, first);
}

template <typename T>
void distilled_gradient(Launcher<T>& launch, const LossRun<T>& run, Vector<const std::int32_t> labels,
                        const LossScratch<T>& scratch) {
  launch(DistillationBackward<T>{.logits = scratch.logits,
                                 .teacher_logits = scratch.teacher.logits,
                                 .labels = labels,
                                 .hard_log_sum_exp = scratch.log_sum_exp,
                                 .log_sum_exp = scratch.teacher.log_sum_exp,
                                 .teacher_log_sum_exp = scratch.teacher.teacher_log_sum_exp,
                                 .share = run.settings.distill_share,
                                 .temperature = run.settings.distill_temperature,
                                 .grad_logits = scratch.logits});
}

// From the gradient of the chunk's logits, in their place, to that of its rows of y.
template <typename T>
void chunk_backward(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                    const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t first) {
  const std::int64_t rows = budget.loss_chunk_rows;
  if (run.settings.distilled())
    distilled_gradient(launch, run, batch.loss_labels.slice(first, rows), scratch);
  launch(Matmul<T>{.form = MatmulForm::nn,
                   .left = scratch.logits,
                   .right = run.head,
                   .output = run.grad_hidden.slice_rows(first, rows)});
}

}  // namespace

template <typename T>
void run_loss_chunk(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                    const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t chunk) {
  const std::int64_t first = chunk * budget.loss_chunk_rows;
  chunk_forward(launch, run, batch, budget, scratch, first);
  if (run.pass == LossPass::with_gradient) chunk_backward(launch, run, batch, budget, scratch, first);
}

template <typename T>
void finish_loss(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                 const BatchCounts& counts, const BatchBudget& budget, const LossScratch<T>& scratch) {
  const std::int64_t used = counts.loss_chunks * budget.loss_chunk_rows, unused = budget.loss_rows() - used;
  const Vector<float> divergence =
      run.settings.distilled() ? scratch.teacher.divergence.slice(0, used) : Vector<float>{};
  launch(BlockLoss<T>{.settings = run.settings,
                      .block_size = budget.block_size,
                      .labels = batch.loss_labels.slice(0, used),
                      .blocks = batch.loss_blocks.slice(0, used),
                      .offsets = batch.loss_offsets.slice(0, used),
                      .nll = scratch.nll.slice(0, used),
                      .divergence = divergence,
                      .predictions = scratch.predictions.slice(0, used),
                      .weights = scratch.weights.slice(0, used),
                      .sums = scratch.sums});
  if (run.pass == LossPass::forward_only) return;
  launch(FillZero{bytes_of(run.grad_hidden.slice_rows(used, unused))});
  launch(FillZero{bytes_of(scratch.weights.slice(used, unused))});
}

template <typename T>
void run_loss(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch, const BatchCounts& counts,
              const BatchBudget& budget, const LossScratch<T>& scratch) {
  for (std::int64_t chunk = 0; chunk < counts.loss_chunks; ++chunk) {
    run_loss_chunk(launch, run, batch, budget, scratch, chunk);
  }
  finish_loss(launch, run, batch, counts, budget, scratch);
}

template LossScratch<float> carve_loss_scratch(Carver&, const LossShape&);
template LossScratch<bf16> carve_loss_scratch(Carver&, const LossShape&);
template void run_loss_chunk(Launcher<float>&, const LossRun<float>&, const MicroBatch&, const BatchBudget&,
                             const LossScratch<float>&, std::int64_t);
template void run_loss_chunk(Launcher<bf16>&, const LossRun<bf16>&, const MicroBatch&, const BatchBudget&,
                             const LossScratch<bf16>&, std::int64_t);
template void finish_loss(Launcher<float>&, const LossRun<float>&, const MicroBatch&, const BatchCounts&,
                          const BatchBudget&, const LossScratch<float>&);
template void finish_loss(Launcher<bf16>&, const LossRun<bf16>&, const MicroBatch&, const BatchCounts&,
                          const BatchBudget&, const LossScratch<bf16>&);
template void run_loss(Launcher<float>&, const LossRun<float>&, const MicroBatch&, const BatchCounts&,
                       const BatchBudget&, const LossScratch<float>&);
template void run_loss(Launcher<bf16>&, const LossRun<bf16>&, const MicroBatch&, const BatchCounts&,
                       const BatchBudget&, const LossScratch<bf16>&);

}  // namespace draftsmith
