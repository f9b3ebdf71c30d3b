#include "data/quantised.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::string_view kAdvice =
    "quantised weights are not supported: take the bf16, f16 or f32 model that this one was made from";

// Tensors that stand in place of a weight.
struct PackedName {
  std::string_view ending;
  std::string_view method;
};
constexpr PackedName kPackedNames[] = {{".qweight", "AWQ or GPTQ"}, {".weight_packed", "compressed-tensors"}};

}  // namespace

void refuse_quantised_config(const JsonFields& fields) {
  constexpr std::string_view kKey = "quantization_config";
  if (!fields.has(kKey)) return;
  const JsonFields quantised = fields.object(kKey);
  const std::string method = quantised.find_text("quant_method").value_or("");
  if (method.empty()) fields.refuse(kKey, "no such key", kAdvice);
  std::string name = method;
  if (name.size() <= 4)
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  quantised.refuse("quant_method", "no quantised weights",
                   fmt::format("this is the {} form of a model, and {}", name, kAdvice));
}

void refuse_quantised_tensors(const TensorStore& store) {
  for (const std::string& name : store.names()) {
    const TensorEntry& entry = store.at(name);
    if (entry.type == FileType::f8_e4m3 || entry.type == FileType::f8_e5m2) {
      throw Error(
          fmt::format("{}: expected BF16, F16 or F32, found {}: this is the FP8 form of a model, and {}",
                      entry.label, file_type_name(entry.type), kAdvice));
    }
    for (const PackedName& packed : kPackedNames) {
      if (!name.ends_with(packed.ending)) continue;
      throw Error(fmt::format(
          "{}: expected a tensor '{}.weight' in its place: this is the {} form of a model, and {}",
          entry.label, name.substr(0, name.size() - packed.ending.size()), packed.method, kAdvice));
    }
  }
}

}  // namespace draftsmith
