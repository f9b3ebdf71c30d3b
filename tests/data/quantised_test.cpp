#include "data/quantised.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

void expect_config_refused(std::string_view text, std::initializer_list<std::string_view> parts) {
  const std::string source = "config.json";
  const JsonValue document = parse_json(text, source);
  expect_error([&] { refuse_quantised_config(JsonFields(source, "", document)); }, parts);
}

TEST(Quantised, ConfigurationsAreRefusedByTheirMethod) {
  expect_config_refused(R"({"quantization_config": {"quant_method": "fp8"}})",
                        {"config.json: quantization_config.quant_method", "found \"fp8\"", "the FP8 form",
                         "take the bf16, f16 or f32 model"});
  expect_config_refused(R"({"quantization_config": {"quant_method": "awq", "bits": 4}})", {"the AWQ form"});
  expect_config_refused(R"({"quantization_config": {"quant_method": "gptq"}})", {"the GPTQ form"});
  expect_config_refused(R"({"quantization_config": {"quant_method": "bitsandbytes"}})",
                        {"the bitsandbytes form"});
  expect_config_refused(R"({"quantization_config": {}})", {"quantization_config: expected no such key"});
}

TEST(Quantised, PlainConfigurationsAreNot) {
  const std::string source = "config.json";
  const JsonValue document = parse_json(R"({"quantization_config": null})", source);
  EXPECT_NO_THROW(refuse_quantised_config(JsonFields(source, "", document)));
}

// A folder whose only tensor has this name and type, of two bytes.
void write_tensor(const std::filesystem::path& folder, const std::string& name, const std::string& type,
                  int count) {
  std::string header = "{\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + std::to_string(count) +
                       "],\"data_offsets\":[0,2]}}";
  while (header.size() % 8 != 0) header += ' ';
  const std::uint64_t size = header.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << header << std::string(2, '\0');
}

TEST(Quantised, TensorsAreRefusedWhereTheConfigurationSaysNothing) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& name, const std::string& type, int count,
                                  std::initializer_list<std::string_view> parts) {
    write_tensor(folder.path(), name, type, count);
    const TensorStore store(folder.path());
    expect_error([&] { refuse_quantised_tensors(store); }, parts);
  };
  expect_refused("a.weight", "F8_E4M3", 2, {"tensor 'a.weight'", "found F8_E4M3", "the FP8 form"});
  expect_refused("a.weight", "F8_E5M2", 2, {"found F8_E5M2", "the FP8 form"});
  expect_refused("q_proj.qweight", "U8", 2,
                 {"tensor 'q_proj.qweight'", "a tensor 'q_proj.weight' in its place", "AWQ or GPTQ form"});
  expect_refused("q_proj.weight_packed", "U8", 2, {"the compressed-tensors form"});
  write_tensor(folder.path(), "a.weight", "BF16", 1);
  EXPECT_NO_THROW(refuse_quantised_tensors(TensorStore(folder.path())));
}

}  // namespace
}  // namespace draftsmith
