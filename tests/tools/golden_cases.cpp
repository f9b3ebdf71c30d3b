// golden_cases DIR [DEVICE]: runs every training case that a folder holds, in float32 and bf16, on cpu:0 or the
// named device, and prints the errors.
// Exit code 1 when a float32 error is beyond 1e-5 (loss) or 1e-4 (hidden states, every gradient tensor).
#include <exception>

#include <fmt/core.h>

#include "device/device.h"
#include "kernels/tables.h"
#include "model/golden_case.h"

int main(int argc, char** argv) {
  using namespace draftsmith;
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: golden_cases DIR [DEVICE]\n");
    return 2;
  }
  try {
    const Device device = open_device(DeviceName::parse(argc == 3 ? argv[2] : "cpu:0"), 1, 1);
    bool all_right = true;
    fmt::print("{:44} {:>9} {:>9} {:>9}  {:44} {:>9}\n", "case (float32)", "loss", "hidden", "gradient",
               "worst tensor", "bf16 loss");
    for (const auto& path : golden_training_cases(argv[1])) {
      const GoldenCase golden = load_golden_case(path);
      const GoldenErrors exact =
          golden_errors(golden, run_golden_case<float>(golden, kernels_of<float>(device), device));
      const GoldenErrors rounded =
          golden_errors(golden, run_golden_case<bf16>(golden, kernels_of<bf16>(device), device));
      const bool right = exact.loss <= 1e-5 && exact.hidden <= 1e-4 && exact.worst_gradient <= 1e-4;
      all_right = all_right && right;
      fmt::print("{:44} {:9.1e} {:9.1e} {:9.1e}  {:44} {:9.1e}{}\n", golden.name, exact.loss, exact.hidden,
                 exact.worst_gradient, exact.worst_name, rounded.loss, right ? "" : "  WRONG");
    }
    return all_right ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "golden_cases: {}\n", error.what());
    return 1;
  }
}
