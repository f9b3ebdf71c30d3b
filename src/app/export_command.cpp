// Writes a run's drafter for serving.
#include <fmt/core.h>

#include "app/commands.h"
#include "train/export_run.h"

namespace draftsmith {

int run_export(const ExportArguments& arguments) {
  const ExportedRun exported = export_run({arguments.run}, arguments.checkpoint);
  fmt::print("exported step {}{} to {}; read again and equal\n", exported.checkpoint.step,
             exported.best ? ", the best of the whole checkpoints by held-out acceptance," : "",
             exported.folder.string());
  return kExitDone;
}

}  // namespace draftsmith
