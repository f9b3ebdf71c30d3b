#include "model/loss.h"

namespace draftsmith {

template <typename T>
LossScratch<T> carve_loss_scratch(Carver& carver, const BatchBudget& budget, std::int64_t width,
                                  std::int64_t vocabulary) {
  const std::int64_t chunk = budget.loss_chunk_rows;
  return {.hidden = carver.matrix<T>(chunk, width),
          .logits = carver.matrix<float>(chunk, vocabulary),
          .grad_logits = carver.matrix<T>(chunk, vocabulary),
          .grad_hidden = carver.matrix<T>(chunk, width),
          .log_sum_exp = carver.vector<float>(chunk),
          .weights = carver.vector<float>(chunk),
          .nll = carver.vector<float>(budget.loss_rows()),
          .predictions = carver.vector<std::int32_t>(budget.loss_rows()),
          .sums = carver.vector<double>(LossSums::size(budget.block_size))};
}

namespace {

// Logits, loss and sums of one chunk.
template <typename T>
void chunk_forward(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                   const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t first) {
  const std::int64_t rows = budget.loss_chunk_rows;
  const Vector<const std::int32_t> labels = batch.loss_labels.slice(first, rows);
  launch(GatherRows<T>{
      .table = run.hidden, .index = batch.loss_index.slice(first, rows), .output = scratch.hidden});
  launch(Matmul<T, float>{
      .form = MatmulForm::nt, .left = scratch.hidden, .right = run.head, .output = scratch.logits});
  launch(CrossEntropyForward<T>{.logits = scratch.logits,
                                .labels = labels,
                                .nll = scratch.nll.slice(first, rows),
                                .log_sum_exp = scratch.log_sum_exp,
                                .predictions = scratch.predictions.slice(first, rows)});
  launch(BlockLoss<T>{.settings = run.settings,
                      .block_size = budget.block_size,
                      .labels = labels,
                      .blocks = batch.loss_blocks.slice(first, rows),
                      .offsets = batch.loss_offsets.slice(first, rows),
                      .nll = scratch.nll.slice(first, rows),
                      .predictions = scratch.predictions.slice(first, rows),
                      .weights = scratch.weights,
                      .sums = scratch.sums});
}

// The gradient of the chunk's rows of y, while its logits are there.
template <typename T>
void chunk_backward(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch,
                    const BatchBudget& budget, const LossScratch<T>& scratch, std::int64_t first) {
  const std::int64_t rows = budget.loss_chunk_rows;
  launch(CrossEntropyBackward<T>{.logits = scratch.logits,
                                 .labels = batch.loss_labels.slice(first, rows),
                                 .log_sum_exp = scratch.log_sum_exp,
                                 .weights = scratch.weights,
                                 .grad_logits = scratch.grad_logits});
  launch(Matmul<T>{
      .form = MatmulForm::nn, .left = scratch.grad_logits, .right = run.head, .output = scratch.grad_hidden});
  launch(ScatterRows<T>{
      .input = scratch.grad_hidden, .index = batch.loss_index.slice(first, rows), .output = run.grad_hidden});
}

}  // namespace

template <typename T>
void run_loss(Launcher<T>& launch, const LossRun<T>& run, const MicroBatch& batch, const BatchCounts& counts,
              const BatchBudget& budget, const LossScratch<T>& scratch) {
  const bool with_gradient = run.pass == LossPass::with_gradient;
  if (with_gradient) launch(FillZero{bytes_of(run.grad_hidden)});
  for (std::int64_t chunk = 0; chunk < counts.loss_chunks; ++chunk) {
    const std::int64_t first = chunk * budget.loss_chunk_rows;
    chunk_forward(launch, run, batch, budget, scratch, first);
    if (with_gradient) chunk_backward(launch, run, batch, budget, scratch, first);
  }
}

template LossScratch<float> carve_loss_scratch(Carver&, const BatchBudget&, std::int64_t, std::int64_t);
template LossScratch<bf16> carve_loss_scratch(Carver&, const BatchBudget&, std::int64_t, std::int64_t);
template void run_loss(Launcher<float>&, const LossRun<float>&, const MicroBatch&, const BatchCounts&,
                       const BatchBudget&, const LossScratch<float>&);
template void run_loss(Launcher<bf16>&, const LossRun<bf16>&, const MicroBatch&, const BatchCounts&,
                       const BatchBudget&, const LossScratch<bf16>&);

}  // namespace draftsmith
