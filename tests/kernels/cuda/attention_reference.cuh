// The formula of kernels/attention.h in double on the device, dense over [query rows, heads, context and
// block rows]; masks come from the text of the contract. With kRounded, p and ds are rounded to bf16 before
// they are multiplied, as tensor cores need it: the error of that is the unit of the tolerance.
#pragma once

#include "tests/kernels/cuda/attention_case.cuh"

namespace draftsmith::test {

struct ReferenceArrays {
  DeviceArray<double> p, ds;                 // [rows, query_heads, context rows + rows]
  DeviceArray<double> output, grad_query;    // [rows, query_heads, head_dim]
  DeviceArray<double> grad_key, grad_value;  // [context rows + rows, kv_heads, head_dim]
};

struct ReferenceArguments {
  AttentionBackward<bf16> of;
  double *p, *ds, *output, *grad_query, *grad_key, *grad_value;
};

__device__ inline double round_if(bool rounded, double value) {
  return rounded ? static_cast<double>(static_cast<float>(bf16(static_cast<float>(value)))) : value;
}

__device__ inline bool sees(const ReferenceArguments& a, std::int64_t row, std::int64_t key) {
  const std::int64_t context = a.of.context_key.rows, end = a.of.intervals.end.data[row];
  if (end < 0) return false;
  if (key < context) return key >= a.of.intervals.begin.data[row] && key < end;
  const std::int64_t block = a.of.shape.block_size, own = key - context;
  return block > 0 && own / block == row / block && (!a.of.shape.causal_in_block || own <= row);
}

__device__ inline const bf16* key_row(const ReferenceArguments& a, bool value, std::int64_t key,
                                      std::int64_t head) {
  const std::int64_t context = a.of.context_key.rows, column = head * a.of.shape.head_dim;
  if (key < context) return (value ? a.of.context_value : a.of.context_key).row(key) + column;
  return (value ? a.of.block_value : a.of.block_key).row(key - context) + column;
}

__device__ inline double dot(const bf16* a, const bf16* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(static_cast<float>(a[i])) * static_cast<double>(static_cast<float>(b[i]));
  }
  return sum;
}

template <typename Op>
__device__ double block_reduce(double value, const Op& op) {
  __shared__ double values[128];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      values[threadIdx.x] = op(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  const double result = values[0];
  __syncthreads();
  return result;
}

// One block of 128 threads per (row, query head): p, output, ds, grad_query.
__global__ void reference_rows_kernel(ReferenceArguments a, bool rounded) {
  const AttentionShape& shape = a.of.shape;
  const std::int64_t row = blockIdx.x, head = blockIdx.y,
                     kv_head = head / (shape.query_heads / shape.kv_heads);
  const std::int64_t keys = a.of.context_key.rows + (shape.block_size > 0 ? a.of.query.rows : 0);
  const std::int64_t place = row * shape.query_heads + head, d = shape.head_dim;
  double* p = a.p + place * keys;
  double* ds = a.ds + place * keys;
  const bf16* query = a.of.query.row(row) + head * d;
  const bf16* grad_output = a.of.grad_output.row(row) + head * d;
  double most = -INFINITY, sum = 0;
  for (std::int64_t key = threadIdx.x; key < keys; key += 128) {
    p[key] = sees(a, row, key)
                 ? dot(query, key_row(a, false, key, kv_head), d) * static_cast<double>(shape.scale)
                 : -INFINITY;
    most = fmax(most, p[key]);
  }
  most = block_reduce(most, [](double x, double y) { return fmax(x, y); });
  for (std::int64_t key = threadIdx.x; key < keys; key += 128) {
    p[key] = p[key] == -INFINITY ? 0 : exp(p[key] - most);
    sum += p[key];
  }
  sum = block_reduce(sum, [](double x, double y) { return x + y; });
  for (std::int64_t key = threadIdx.x; key < keys; key += 128) p[key] = sum > 0 ? p[key] / sum : 0;
  __syncthreads();
  double delta = 0;
  for (std::int64_t i = threadIdx.x; i < d; i += 128) {
    double output = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      if (p[key] == 0) continue;
      output += round_if(rounded, p[key]) *
                static_cast<double>(static_cast<float>(key_row(a, true, key, kv_head)[i]));
    }
    a.output[place * d + i] = output;
    delta += round_if(rounded, output) * static_cast<double>(static_cast<float>(grad_output[i]));
  }
  delta = block_reduce(delta, [](double x, double y) { return x + y; });
  for (std::int64_t key = threadIdx.x; key < keys; key += 128) {
    ds[key] = p[key] == 0 ? 0 : p[key] * (dot(grad_output, key_row(a, true, key, kv_head), d) - delta);
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < d; i += 128) {
    double sum_query = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      if (p[key] == 0) continue;
      sum_query += round_if(rounded, ds[key]) *
                   static_cast<double>(static_cast<float>(key_row(a, false, key, kv_head)[i]));
    }
    a.grad_query[place * d + i] = sum_query * static_cast<double>(shape.scale);
  }
}

// One block per (key, kv head).
__global__ void reference_keys_kernel(ReferenceArguments a, bool rounded) {
  const AttentionShape& shape = a.of.shape;
  const std::int64_t key = blockIdx.x, kv_head = blockIdx.y, d = shape.head_dim;
  const std::int64_t keys = gridDim.x, heads = shape.query_heads / shape.kv_heads;
  for (std::int64_t i = threadIdx.x; i < d; i += 128) {
    double grad_key = 0, grad_value = 0;
    for (std::int64_t row = 0; row < a.of.query.rows; ++row) {
      if (!sees(a, row, key)) continue;
      for (std::int64_t head = kv_head * heads; head < (kv_head + 1) * heads; ++head) {
        const std::int64_t place = (row * shape.query_heads + head) * keys + key;
        grad_key += round_if(rounded, a.ds[place]) *
                    static_cast<double>(static_cast<float>(a.of.query.row(row)[head * d + i]));
        grad_value += round_if(rounded, a.p[place]) *
                      static_cast<double>(static_cast<float>(a.of.grad_output.row(row)[head * d + i]));
      }
    }
    a.grad_key[(key * shape.kv_heads + kv_head) * d + i] = grad_key * static_cast<double>(shape.scale);
    a.grad_value[(key * shape.kv_heads + kv_head) * d + i] = grad_value;
  }
}

// Values of one result, dense.
struct ReferenceResult {
  std::vector<double> output, grad_query, grad_key, grad_value;
};

inline ReferenceResult attention_reference(const AttentionRun& run, bool rounded) {
  const AttentionShape& shape = run.shape;
  const std::int64_t keys = run.at.context_rows + (shape.block_size > 0 ? run.rows() : 0);
  const std::int64_t wide = run.rows() * shape.query_heads;
  DeviceArray<double> p(wide * keys), ds(wide * keys), output(wide * shape.head_dim),
      grad_query(wide * shape.head_dim);
  DeviceArray<double> grad_key(keys * shape.kv_heads * shape.head_dim),
      grad_value(keys * shape.kv_heads * shape.head_dim);
  const ReferenceArguments arguments{
      run.backward_arguments(), p.data(),        ds.data(),        output.data(),
      grad_query.data(),        grad_key.data(), grad_value.data()};
  reference_rows_kernel<<<dim3(static_cast<unsigned>(run.rows()), static_cast<unsigned>(shape.query_heads)),
                          128>>>(arguments, rounded);
  reference_keys_kernel<<<dim3(static_cast<unsigned>(keys), static_cast<unsigned>(shape.kv_heads)), 128>>>(
      arguments, rounded);
  require(cudaDeviceSynchronize(), "the reference");
  return {output.download(), grad_query.download(), grad_key.download(), grad_value.download()};
}

}  // namespace draftsmith::test
