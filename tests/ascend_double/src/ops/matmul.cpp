#include "aclnnop/aclnn_matmul.h"

#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_batch_matmul.h"
#include "aclnnop/aclnn_mm.h"
#include "elementwise.hpp"
#include "gemm.hpp"

using namespace ascend_double;

namespace {

std::vector<float> load_operand(tensor const& from, extents const& shape, operands precision) {
  auto values = load<float>(from, shape);
  round_operands(precision, values);
  return values;
}

// The product of a [batch.., m, k] and b [batch.., k, n], whose batches broadcast to `batch`.
std::vector<float> product(tensor const& a, tensor const& b, extents const& batch, operands precision) {
  auto m = a.shape[a.rank() - 2], k = a.shape[a.rank() - 1], n = b.shape[b.rank() - 1];
  std::int64_t count = 1;
  for (auto extent : batch) count *= extent;
  auto whole = [&](std::int64_t rows, std::int64_t columns) {
    auto shape = batch;
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  auto x = load_operand(a, whole(m, k), precision);
  auto y = load_operand(b, whole(k, n), precision);
  std::vector<float> result(static_cast<std::size_t>(count * m * n));
  for (std::int64_t i = 0; i < count; ++i)
    multiply({x.data() + i * m * k}, {y.data() + i * k * n}, m, k, n, result.data() + i * m * n);
  return result;
}

aclnnStatus products(char const* name, aclTensor const* self, aclTensor const* mat2, aclTensor const* out,
                     std::int8_t cube_math_type, std::size_t lowest, std::size_t highest, uint64_t* workspaceSize,
                     aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto a = p.input(self, "self");
    auto b = p.input(mat2, "mat2");
    for (auto const* each : {&a, &b})
      p.require(each->rank() >= lowest && each->rank() <= highest, "so many dimensions are not multiplied");
    auto type = promote(a.type, b.type);
    auto y = p.output(out, "out", {type});
    auto precision = p.cube(type, cube_math_type);
    bool row = a.rank() == 1, column = b.rank() == 1;
    if (row) {
      a.shape.insert(a.shape.begin(), 1);
      a.strides.insert(a.strides.begin(), 0);
    }
    if (column) {
      b.shape.push_back(1);
      b.strides.push_back(0);
    }
    p.require(a.shape.back() == b.shape[b.rank() - 2], "the inner extents of self and mat2 differ");
    extents of_a(a.shape.begin(), a.shape.end() - 2), of_b(b.shape.begin(), b.shape.end() - 2);
    auto batch = lowest == highest ? (of_a == of_b ? std::optional(of_a) : std::nullopt) : broadcast(of_a, of_b);
    p.require(batch.has_value(), "the batches of self and mat2 do not fit");
    auto shape = *batch;
    if (!row) shape.push_back(a.shape[a.rank() - 2]);
    if (!column) shape.push_back(b.shape.back());
    p.shape(y, "out", shape);
    return [=] { store(y, product(a, b, *batch, precision)); };
  });
}

// out = beta * self + alpha * mat1 mat2
aclnnStatus add_product(char const* name, aclTensor const* self, aclTensor const* mat1, aclTensor const* mat2,
                        aclScalar const* beta, aclScalar const* alpha, aclTensor const* out, std::int8_t cube_math_type,
                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan(name, workspaceSize, executor, [&](planner& p) {
    auto c = p.input(self, "self");
    auto a = p.input(mat1, "mat1");
    auto b = p.input(mat2, "mat2");
    p.require(a.rank() == 2 && b.rank() == 2, "mat1 and mat2 must have 2 dimensions");
    p.require(a.shape[1] == b.shape[0], "the inner extents of mat1 and mat2 differ");
    p.require(c.rank() == 1 || c.rank() == 2, "self must have 1 or 2 dimensions");
    auto type = promote(promote(a.type, b.type), c.type);
    auto y = p.output(out, "out", {type});
    p.shape(y, "out", {a.shape[0], b.shape[1]});
    p.require(broadcast(c.shape, y.shape) == y.shape, "self does not broadcast to out");
    auto of_self = static_cast<float>(p.number(beta, "beta").real);
    auto of_product = static_cast<float>(p.number(alpha, "alpha").real);
    auto precision = p.cube(promote(a.type, b.type), cube_math_type);
    return [=] {
      auto values = product(a, b, {}, precision);
      auto added = load<float>(c, y.shape);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= of_product;
        if (of_self != 0) values[i] += of_self * added[i];
      }
      store(y, values);
    };
  });
}

}  // namespace

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                        int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return products("aclnnMatmul", self, mat2, out, cubeMathType, 1, 6, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnMatmul)

aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType,
                                    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return products("aclnnMm", self, mat2, out, cubeMathType, 2, 2, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnMm)

aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                             int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return products("aclnnBatchMatMul", self, mat2, out, cubeMathType, 3, 3, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnBatchMatMul)

aclnnStatus aclnnAddmmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2,
                                       const aclScalar* beta, const aclScalar* alpha, aclTensor* out,
                                       int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return add_product("aclnnAddmm", self, mat1, mat2, beta, alpha, out, cubeMathType, workspaceSize, executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnAddmm)

aclnnStatus aclnnInplaceAddmmGetWorkspaceSize(const aclTensor* selfRef, const aclTensor* mat1, const aclTensor* mat2,
                                              const aclScalar* beta, const aclScalar* alpha, int8_t cubeMathType,
                                              uint64_t* workspaceSize, aclOpExecutor** executor) {
  return add_product("aclnnInplaceAddmm", selfRef, mat1, mat2, beta, alpha, selfRef, cubeMathType, workspaceSize,
                     executor);
}
ASCEND_DOUBLE_EXECUTE(aclnnInplaceAddmm)
