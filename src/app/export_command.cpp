// Writes a run's drafter for serving.
#include <fmt/core.h>

#include "app/commands.h"
#include "metrics/progress.h"
#include "train/export_run.h"

namespace draftsmith {

int run_export(const ExportArguments& arguments) {
  const ExportedRun exported = export_run({arguments.run}, arguments.checkpoint);
  if (exported.kept) {
    fmt::print(
        "kept the older export in {}: it is of step {}, whose held-out acceptance {} is better than that of "
        "step {}, "
        "{}, the best of the whole checkpoints; to replace it: draftsmith export {} --checkpoint {}\n",
        exported.folder.string(), exported.kept->step, fixed_text(*exported.kept->acceptance, 3),
        exported.checkpoint.step,
        exported.acceptance ? fixed_text(*exported.acceptance, 3) : "which has none", arguments.run,
        exported.checkpoint.step);
    return kExitDone;
  }
  fmt::print("exported step {}{} to {}; read again and equal\n", exported.checkpoint.step,
             exported.best ? ", the best of the whole checkpoints by held-out acceptance," : "",
             exported.folder.string());
  return kExitDone;
}

}  // namespace draftsmith
