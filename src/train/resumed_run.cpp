#include "train/resumed_run.h"

#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "train/target_identity.h"

namespace draftsmith {
namespace {

void check_target(const TrainRequest& request, const ResumedRun& resumed) {
  const std::string place = resumed.checkpoint.path.string();
  const std::string& now = request.config.target;
  const std::optional<TargetIdentity>& trained = resumed.facts.target;
  if (!trained && now != resumed.target) {
    throw Error(fmt::format(
        "{}: the target was {} and is {}, and this checkpoint, of an older draftsmith, does not say what "
        "the target held; put it back to where it was, or begin anew with --overwrite",
        place, resumed.target, now));
  }
  if (!trained || *trained == identify_target(now, trained->samples)) return;
  throw Error(
      now == resumed.target
          ? fmt::format(
                "{}: the target in {} has changed since this checkpoint (its config.json or its weights); "
                "restore it, or begin anew with --overwrite",
                place, now)
          : fmt::format(
                "{}: the target in {} is another one than that of this checkpoint, which was in {} (its "
                "config.json or its weights differ); name a copy of that one, or begin anew with --overwrite",
                place, now, resumed.target));
}

// What a run that made this checkpoint can have said. Its files are whole by their checksums; that they belong together is
// another matter.
void check_consistent(const CheckpointFolder& checkpoint, const CheckpointFacts& facts) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format(
        "{}: {}; the checkpoint was edited or mixed with another. Remove it to go on from an earlier one, "
        "or begin anew with --overwrite",
        (checkpoint.path / "state.json").string(), what));
  };
  if (facts.step != checkpoint.step) {
    refuse(fmt::format("expected step {}, as its folder says, found {}", checkpoint.step, facts.step));
  }
  const StepCounters& counters = facts.counters;
  if (counters.updates > facts.step || counters.skipped > facts.step - counters.updates ||
      counters.skipped_in_a_row > counters.skipped) {
    refuse(fmt::format(
        "expected no more than {} updates and skipped steps, found {} and {}, {} of them in a row",
        facts.step, counters.updates, counters.skipped, counters.skipped_in_a_row));
  }
  if (facts.position.place >= facts.data.documents) {
    refuse(fmt::format("expected a place among {} documents, found {}", facts.data.documents,
                       facts.position.place));
  }
}

}  // namespace

ResumedRun find_resumed_run(const TrainRequest& request, const RunFolder& folder) {
  const CheckpointFolder checkpoint = newest_checkpoint(folder);
  const std::string place = checkpoint.path.string();
  const RunConfig saved = request.check_resumed_config(read_checkpoint_config(checkpoint.path), place);
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint.path);
  check_consistent(checkpoint, facts);
  if (identify(request.inputs.train) != facts.data) {
    throw Error(
        fmt::format("{}: the training data has changed since this checkpoint ({} documents, {} tokens "
                    "then); restore it, or begin anew with --overwrite",
                    place, facts.data.documents, facts.data.tokens));
  }
  const ResumedRun resumed{.checkpoint = checkpoint, .facts = facts, .target = saved.target};
  check_target(request, resumed);
  return resumed;
}

}  // namespace draftsmith
