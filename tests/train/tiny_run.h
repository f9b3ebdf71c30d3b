// A run that takes milliseconds a step: the tiny target of tests/golden/spec_tiny, documents made up of
// tokens that follow a rule, small budgets. Tests change what they are about.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "metrics/log_file.h"
#include "support/shown_text.h"
#include "support/temporary_folder.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace draftsmith {

// Prompts of chance tokens and answers that count upwards: most of an answer can be learned.
Corpus made_up_corpus(std::int64_t documents, std::uint64_t seed);

class TinyRun {
 public:
  TinyRun();

  RunConfig config;
  PipelineHooks hooks;
  std::atomic<int> stop_signal{0};
  bool retune = false;
  std::int64_t documents = 40;
  std::int64_t evaluation_documents = 0;  // 0: no evaluation

  TrainResult train(ExistingFolder existing = ExistingFolder::refuse);

  RunPlan plan(const PlanDetail& detail = {});

  RunFolder folder() const { return {config.output}; }
  // All weights and moments of a checkpoint, bit for bit, by tensor name.
  std::map<std::string, std::vector<float>> state(std::int64_t step) const;
  std::vector<StepRecord> steps() const;
  std::vector<EvaluationRecord> evaluations() const;
  // What the watcher was told, of all parts of the run.
  std::string said() const { return said_.str(); }

 private:
  RunInputs make_inputs();

  TemporaryFolder temporary_;
  std::string trained_target_;  // the one that is saved with a checkpoint
  ShownText said_;
};

// Losses, norms and shares of two runs are the same to the last bit; times may differ.
void expect_same_steps(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b);
void expect_same_evaluations(const std::vector<EvaluationRecord>& a, const std::vector<EvaluationRecord>& b);

// The first step of two runs that share the same micro-batches out among different numbers of drafters: loss and
// gradient agree within what the order of their additions allows. `micro_batches` are those of a step, in all.
void expect_same_first_step_in_another_order(const TinyRun& one, const TinyRun& several,
                                             std::int64_t micro_batches);

}  // namespace draftsmith
