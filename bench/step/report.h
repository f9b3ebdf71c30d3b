// What step_bench prints and keeps: one line a measurement, the time of a pass by kind of operation, and JSON lines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/step/options.h"
#include "bench/step/recorder.h"
#include "bench/step/workers.h"

namespace draftsmith::bench {

// Bounds of a result's ratio, or of the number itself where there is no ratio.
struct Goal {
  std::optional<double> at_most, at_least;
};

// A number beside the one that it is compared with.
struct Result {
  std::string work;
  double ours = 0;
  std::optional<double> reference;
  std::optional<double> best_ratio;  // of the shortest times, where the others are medians
  std::string reference_is;          // "products alone", "torch", ...; empty without a reference
  std::string unit;                  // ms, GB/s, GiB, s, tokens/s
  double useful_tflops = 0;          // of ours, or 0
  Goal goal;
  // Against torch: how many times as fast. Against anything else, and of bytes: ours as a multiple of it.
  std::optional<double> ratio() const;
};

// One pass, launched operation by operation.
struct PassTimes {
  std::map<Kind, KindTime> kinds;
  std::vector<ProductTime> products;
};

class Report {
 public:
  Report(const Options& options, const Device& device);

  // 2 * multiply-adds a second of the product that useful work is a share of (bench/step/ceilings.h).
  void set_ceiling(double flops);
  // Prints the line, and appends it to the JSON file.
  void add(const Result& result);
  void say(const std::string& text);
  void breakdown(const std::string& work, const PassTimes& times);
  // torch_gib: the reference's peak, by its allocator's count, context and libraries not among it.
  void memory(const std::string& work, const Device& device, const DeviceMemory& memory,
              std::optional<double> torch_gib);
  // pass_ms: of a pass when all is set up. The work of the first pass itself is no set-up.
  void set_up(const std::string& work, const SetUpTimes& times, double pass_ms,
              std::optional<double> torch_s);

  // What bench/reference/dflash_torch.py measured, in ms; nothing when its lines have no such measurement.
  std::optional<double> torch_step_ms(const Documents& documents, bool optimizer) const;
  std::optional<double> torch_first_step_s(
      const Documents& documents) const;  // the longest: nothing was compiled
  std::optional<double> torch_peak_gib(const Documents& documents) const;  // with the optimizer
  std::optional<double> torch_prefill_ms(const Documents& documents, std::int64_t layers) const;

 private:
  struct TorchLine {
    std::string implementation;
    std::int64_t batch = 0, sequence = 0, anchors = 0, layers = 0;
    bool optimizer = false;
    double ms = 0, first_step_s = 0, peak_gib = 0;
  };
  void read_torch(const std::string& path);
  const TorchLine* find_step(const Documents& documents, bool optimizer) const;

  const Options& options_;
  const std::string card_;
  double ceiling_tflops_ = 0;  // 0: not measured
  std::vector<TorchLine> torch_;
};

}  // namespace draftsmith::bench
