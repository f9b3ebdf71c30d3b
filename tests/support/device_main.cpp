// The main of tests that run on one device: PROGRAM [--device=cuda:0] [--aligned] [gtest options]. Exit code
// 77, which ctest takes for skipped, when the device cannot be used here.
#include <cstdio>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/devices.h"
#include "support/temporary_folder.h"

int main(int argc, char** argv) {
  using namespace draftsmith;
  testing::InitGoogleMock(&argc, argv);
  const TemporaryFolder tuning;  // products prepared twice are the same
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view kDevice = "--device=";
    if (argument == "--aligned") {
      test::device_options().aligned = true;
    } else if (argument.starts_with(kDevice)) {
      try {
        test::device_options().device = open_device(DeviceName::parse(argument.substr(kDevice.size())), 1, 1);
      } catch (const Error& error) {
        std::printf("%s\n", error.what());
        return 77;
      }
      test::device_options().device.tuning_folder = tuning.path();
    } else {
      std::printf("usage: %s [--device=cuda:0] [--aligned] [gtest options]\n", argv[0]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
