// The power is cut at every moment of a run: whatever a disk may then have lost of what was not synced, a checkpoint
// that was finished is there, and going on from what is there ends with the same bits.
#include <algorithm>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "data/file.h"
#include "data/snapshot.h"
#include "model/drafter_loader.h"
#include "power_cut/surviving_disk.h"
#include "train/export_run.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSteps = 3;
constexpr int kChances = 2;  // different losses at one moment

void set_up(TinyRun& run) {
  run.config.train.steps = kSteps;
  run.config.train.checkpoint = {.every = 1, .keep = 2};
  run.config.train.eval.every = 2;
  run.config.train.optimizer.schedule = ScheduleType::constant;  // every step changes the weights
  run.config.train.eval.conversations = 2;
  run.evaluation_documents = 2;
}

// Marks in the journal that the files of a checkpoint are written: those before it were finished.
PipelineHooks mark_checkpoints(DiskJournal& journal) {
  return {.at = [&journal](PipelinePoint point, std::int64_t step, Slot*) {
    if (point == PipelinePoint::checkpoint) journal.mark(std::to_string(step));
  }};
}

// Of temporary files and folders only the names: nobody reads what is in them.
DiskContents what_matters(const DiskContents& contents) {
  DiskContents result;
  for (const auto& [path, bytes] : contents) {
    const std::size_t begin = path.find(kTemporaryPrefix);
    if (begin == std::string::npos) {
      result[path] = bytes;
    } else {
      result[path.substr(0, path.find('/', begin))] = {};
    }
  }
  return result;
}

// Calls visit(contents, marks) for all that a disk may hold after a cut, each once; `marks` are those before it.
using Visit = std::function<void(const DiskContents&, const std::vector<std::string>& marks)>;
void cut_everywhere(const std::vector<DiskEvent>& events, const Visit& visit) {
  SurvivingDisk disk;
  std::set<DiskContents> seen;
  std::vector<std::string> marks;
  std::uint64_t seed = 0;
  const auto visit_new = [&](Survival survival) {
    const DiskContents contents = disk.contents(survival, ++seed);
    if (seen.insert(what_matters(contents)).second) visit(contents, marks);
  };
  for (const DiskEvent& event : events) {
    disk.follow(event);
    if (event.kind == DiskEvent::Kind::mark) {
      marks.push_back(event.path);
      seen.clear();  // what was good enough before may not be now
    }
    const bool matters =
        event.kind != DiskEvent::Kind::write || event.path.find(kTemporaryPrefix) == std::string::npos;
    if (!matters) continue;
    for (const Survival survival :
         {Survival::synced, Survival::names, Survival::torn, Survival::everything}) {
      visit_new(survival);
    }
    for (int i = 0; i < kChances; ++i) visit_new(Survival::by_chance);
  }
}

ExistingFolder way_on(const RunFolder& folder) {
  if (!list_checkpoints(folder).empty()) return ExistingFolder::resume;
  return fs::exists(folder.config()) ? ExistingFolder::overwrite : ExistingFolder::refuse;
}

std::vector<float> exported_weights(const RunFolder& folder) {
  verify_snapshot(folder.exported());
  return load_drafter(folder.exported()).weights;
}

TEST(PowerCut, TheJournalMissesNothing) {
  TinyRun run;
  set_up(run);
  const fs::path root = fs::path(run.config.output).parent_path();
  const DiskJournal journal(root);
  run.train();
  export_run(run.folder(), "best");
  run.train(ExistingFolder::overwrite);
  SurvivingDisk disk;
  for (const DiskEvent& event : journal.events()) disk.follow(event);
  EXPECT_TRUE(disk.contents(Survival::everything, 0) == read_disk(root));
}

TEST(PowerCut, FinishedCheckpointsStayAndTheRunGoesOnToTheSameBits) {
  TinyRun straight, stopped;
  set_up(straight);
  straight.train();
  set_up(stopped);
  DiskJournal journal(fs::path(stopped.config.output).parent_path());
  stopped.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot* slot) {
    mark_checkpoints(journal)(point, index, slot);
    if (point == PipelinePoint::exchange && index == 2) stopped.stop_signal = 15;
  };
  stopped.train();
  stopped.hooks = mark_checkpoints(journal);
  stopped.stop_signal = 0;
  stopped.train(ExistingFolder::resume);
  journal.mark("");
  cut_everywhere(journal.events(), [&](const DiskContents& contents, const std::vector<std::string>& marks) {
    TinyRun run;
    set_up(run);
    write_disk(fs::path(run.config.output).parent_path(), contents);
    if (marks.size() > 1) {
      ASSERT_GE(newest_checkpoint(run.folder()).step, std::stoi(marks[marks.size() - 2])) << marks.size();
    }
    run.train(way_on(run.folder()));
    EXPECT_EQ(run.state(kSteps), straight.state(kSteps));
    expect_same_steps(run.steps(), straight.steps());
    expect_same_evaluations(run.evaluations(), straight.evaluations());
  });
}

TEST(PowerCut, AnExportIsWholeAndTheOlderOneOrTheNewer) {
  TinyRun exporting;
  set_up(exporting);
  exporting.config.train.checkpoint.keep = 3;
  DiskJournal journal(fs::path(exporting.config.output).parent_path());
  exporting.train();
  journal.mark("trained");
  std::vector<std::vector<float>> weights;
  for (const char* checkpoint : {"1", "3"}) {
    export_run(exporting.folder(), checkpoint);
    weights.push_back(exported_weights(exporting.folder()));
    journal.mark(checkpoint);
  }
  ASSERT_NE(weights[0], weights[1]);
  cut_everywhere(journal.events(), [&](const DiskContents& contents, const std::vector<std::string>& marks) {
    if (marks.empty()) return;  // the training's own
    TinyRun run;
    write_disk(fs::path(run.config.output).parent_path(), contents);
    if (marks.size() == 3) {
      EXPECT_EQ(exported_weights(run.folder()), weights[1]);
    } else if (marks.size() == 2 || fs::exists(run.folder().exported())) {
      const std::vector<float> found = exported_weights(run.folder());
      EXPECT_TRUE(found == weights[0] || (marks.size() == 2 && found == weights[1]));
    }
    export_run(run.folder(), "3");
    EXPECT_EQ(exported_weights(run.folder()), weights[1]);
  });
}

TEST(PowerCut, OverwritingLeavesNoMixtureOfTwoRuns) {
  TinyRun straight, replaced;
  set_up(straight);
  straight.config.train.seed = 1;
  straight.train();
  set_up(replaced);
  DiskJournal journal(fs::path(replaced.config.output).parent_path());
  replaced.train();
  replaced.config.train.seed = 1;
  journal.mark("older");
  replaced.hooks = mark_checkpoints(journal);
  replaced.train(ExistingFolder::overwrite);
  journal.mark("newer");
  cut_everywhere(journal.events(), [&](const DiskContents& contents, const std::vector<std::string>& marks) {
    if (marks.empty()) return;
    TinyRun run;
    set_up(run);
    run.config.train.seed = 1;
    write_disk(fs::path(run.config.output).parent_path(), contents);
    const bool begun = marks.size() > 1;  // the newer run has written files of a checkpoint
    run.train(begun ? way_on(run.folder()) : ExistingFolder::overwrite);
    EXPECT_EQ(run.state(kSteps), straight.state(kSteps));
  });
}

}  // namespace
}  // namespace draftsmith
