// Products aside: beside other launches, with the bits that they have in order.
#include "kernels/launcher.h"

#include <gtest/gtest.h>

#include "support/devices.h"
#include "support/guard.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

// Five gradients of weights aside, each beside the product that makes the next one's operand.
struct Chain {
  static constexpr int kSteps = 5;
  static constexpr std::int64_t kRows = 192, kWidth = 128;

  Chain() : launch_(device_, kernels_of<bf16>(device_)) {
    attach_thread(device_);
    weight_.fill_normal(1, 0.1);
    rows_[0].fill_normal(2);
    launch_.set_mode(LaunchMode::measure);
    run();
    launch_.set_mode(LaunchMode::run);
    scratch_ = Buffer::on_device(device_, launch_.library().scratch_bytes());
    launch_.library().set_scratch({scratch_.data(), scratch_.bytes()});
  }

  std::vector<std::vector<double>> results(Overlap overlap) {
    for (Guarded<float>& gradient : gradients_) gradient.poison();
    launch_.set_overlap(overlap);
    run();
    synchronize(launch_.stream());
    std::vector<std::vector<double>> all;
    for (Guarded<float>& gradient : gradients_) all.push_back(gradient.values());
    return all;
  }
  const MatmulLibrary& library() { return launch_.library(); }

 private:
  void run() {
    for (int i = 0; i < kSteps; ++i) {
      launch_.aside(Matmul<bf16, float>{.form = MatmulForm::tn,
                                        .left = rows_[i].matrix(),
                                        .right = rows_[0].matrix(),
                                        .output = gradients_[i].matrix()});
      launch_(Matmul<bf16>{.form = MatmulForm::nn,
                           .left = rows_[i].matrix(),
                           .right = weight_.matrix(),
                           .output = rows_[i + 1].matrix()});
    }
    launch_.await_aside();
  }

  const Device device_ = test_device();
  Launcher<bf16> launch_;
  Buffer scratch_;
  Guarded<bf16> weight_{kWidth, kWidth};
  std::vector<Guarded<bf16>> rows_ = std::vector<Guarded<bf16>>(kSteps + 1, Guarded<bf16>(kRows, kWidth));
  std::vector<Guarded<float>> gradients_ =
      std::vector<Guarded<float>>(kSteps, Guarded<float>(kWidth, kWidth));
};

TEST(LauncherTest, ProductsAsideHaveTheBitsThatTheyHaveInOrder) {
  Chain chain;
  const auto in_order = chain.results(Overlap::none);
  for (int round = 0; round < 20; ++round) EXPECT_EQ(chain.results(Overlap::products_aside), in_order);
}

TEST(LauncherTest, ProductsAsideHaveScratchOfTheirOwn) {
  Chain chain;
  const Vector<std::byte> main = chain.library().scratch(), aside = chain.library().scratch_aside();
  EXPECT_EQ(main.size + aside.size, chain.library().scratch_bytes());
  EXPECT_EQ(aside.data, main.data + main.size);
}

}  // namespace
}  // namespace draftsmith::test
