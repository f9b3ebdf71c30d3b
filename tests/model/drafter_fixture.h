// A drafter with everything it needs on one device, for tests: weights, tables, a micro-batch, activations,
// gradients, all in memory that tests read and write too (pinned for a GPU). Every byte of working memory
// starts as NaN, so that what a pass reads it must have written.
#pragma once

#include <functional>
#include <memory>

#include "device/memory.h"
#include "kernels/launcher.h"
#include "model/drafter.h"
#include "model/loss.h"
#include "tensor/carver.h"

namespace draftsmith {

template <typename T>
class DrafterFixture {
 public:
  struct Options {
    LossSettings loss;
    Device device;
    Recompute recompute = Recompute::none;
  };
  DrafterFixture(const DrafterShape& shape, const BatchBudget& budget, const Options& options,
                 const Kernels<T>& kernels = cpu_kernels<T>());

  // Copies the masters to the weights that the passes read.
  void set_weights(Vector<const float> masters);

  // Blocks until the results are there.
  void forward(const BatchCounts& counts, LossPass pass);
  // Sums are reset, then one forward, loss and backward; gradients are those of the unscaled sums.
  void run(const BatchCounts& counts);
  // The same; after(segment) is called when that segment of backward has run.
  void run(const BatchCounts& counts, const std::function<void(std::int64_t segment)>& after);

  // Of what forward left; after each segment `after` is called.
  void backward(GradientWrite write, const std::function<void(std::int64_t segment)>& after);

  // What tests fill and read.
  const DrafterShape shape;
  const BatchBudget budget;
  const WeightTable table;
  MicroBatch batch;
  Matrix<T> features;              // [context_tokens, taps * width]
  Matrix<T> teacher_hidden;        // [context_tokens, width]: read when the loss is distilled
  Matrix<T> embedding;             // [vocabulary, width]
  Matrix<T> head;                  // [vocabulary, width]
  Vector<T> weights;               // [table.size]
  Vector<float> weight_gradients;  // [table.size]
  DrafterActivations<T> activations;
  DrafterGradients<T> gradients;
  LossScratch<T> loss;

 private:
  void carve(Carver& carver);

  const Options options_;
  const Device device_;
  Buffer memory_, scratch_;
  RopeStorage rope_;
  Drafter<T> drafter_;
  Launcher<T> launch_;
};

}  // namespace draftsmith
