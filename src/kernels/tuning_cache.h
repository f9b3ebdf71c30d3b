// Choices that were made by measuring, kept in a file so that the next run need not measure: one file in
// Device::tuning_folder for each kind of device. Several processes may use it at once: a choice is one line,
// appended by one write, and the first whole line of a product counts. A file that is absent, damaged or
// unwritable only costs measuring again.
//
// Format of `products-<values of the facts>.txt`, a line a product, fields separated by tabs:
//   product      MatmulShape::key()
//   choice       PreparedMatmul::choice
//   check        CRC-32 (reflected, 0xEDB88320) of what comes before its tab, 8 hexadecimal digits
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "device/device.h"
#include "kernels/product_choices.h"

namespace draftsmith {

class TuningCache {
 public:
  TuningCache(const Device& device, const DeviceFacts& facts);

  std::optional<std::string> find(const std::string& product) const;
  void keep(const std::string& product, const std::string& choice) const;

  // Empty: nothing is kept.
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace draftsmith
