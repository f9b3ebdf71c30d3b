// Which kernel does a product: decided by its shape and strides alone.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/operations.h"

namespace draftsmith::cuda {

namespace {

// The library's fast kernels load 16 bytes at a time; a product whose rows begin elsewhere goes the plain
// way. Views begin where rows do, so the strides tell.
bool on_sixteen_bytes(const MatmulShape& shape) {
  const std::int64_t storage = shape.storage == DType::bf16 ? 2 : 4;
  const std::int64_t output = shape.output == DType::bf16 ? 2 : 4;
  return shape.left_stride * storage % 16 == 0 && shape.right_stride * storage % 16 == 0 &&
         shape.output_stride * output % 16 == 0;
}

enum class Path { few_rows, plain, library };

Path path_of(const MatmulShape& shape) {
  if (shape.form == MatmulForm::nt && shape.rows <= kFewRows) return Path::few_rows;
  // The library adds a bias of the output's type only.
  const bool widened_bias = shape.bias && shape.storage != shape.output;
  return !on_sixteen_bytes(shape) || widened_bias ? Path::plain : Path::library;
}

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_matmul(const Device& device, const MatmulShape& shape,
                                               const std::string& choice) {
  DRAFTSMITH_CHECK(shape.rows > 0 && shape.columns > 0 && shape.depth > 0, "a product has entries and terms");
  DRAFTSMITH_CHECK(!shape.bias || shape.form == MatmulForm::nt, "only the nt form has a bias");
  DRAFTSMITH_CHECK(shape.storage == DType::bf16 || shape.output == DType::float32,
                   "products of floats are floats");
  switch (path_of(shape)) {
    case Path::few_rows:
      return prepare_few_rows(shape);
    case Path::plain:
      return prepare_plain(shape);
    case Path::library:
      break;
  }
  return prepare_library(device, shape, choice);
}

std::int64_t matmul_scratch_bytes(const Device&, const MatmulShape& shape) {
  return path_of(shape) == Path::library ? kLibraryScratchBytes : 0;
}

void run_matmul(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands) {
  static_cast<const CudaMatmul&>(prepared).run(stream, operands);
}

}  // namespace draftsmith::cuda
