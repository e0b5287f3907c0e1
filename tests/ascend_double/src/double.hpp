#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "runtime.hpp"

// What an operator of the double is written with. Its phase 1 is one call of `plan`, its phase 2 one line:
//
//   aclnnStatus aclnnNegGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
//                                        aclOpExecutor** executor) {
//     return plan("aclnnNeg", workspaceSize, executor, [&](planner& p) {
//       auto x = p.input(self, "self", floating);
//       auto y = p.output(out, "out", {x.type});
//       p.shape(y, "out", x.shape);
//       return [=] {
//         auto values = load<float>(x);
//         for (float& value : values) value = -value;
//         store(y, values);
//       };
//     });
//   }
//   ASCEND_DOUBLE_EXECUTE(aclnnNeg)
//
// Phase 1 runs on the caller's thread and only describes; what it returns runs on the stream's thread, once (or each
// time, when the executor was made repeatable). Loading everything before anything is stored makes every operator safe
// in place.
namespace ascend_double {

/// ASCEND_DOUBLE_CHIP: 910 (unless said) or 910b.
chip this_chip();

using extents = std::vector<std::int64_t>;
using types = std::vector<aclDataType>;

/// Element types that most operators take; BF16 is refused on the 910 by whatever it is given to.
inline types const floating{ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
inline types const integral{ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8};
inline types const arithmetic{ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8};
inline types const any_type{ACL_FLOAT, ACL_FLOAT16, ACL_BF16,   ACL_INT8,   ACL_INT16,  ACL_INT32, ACL_INT64,
                            ACL_UINT8, ACL_UINT16,  ACL_UINT32, ACL_UINT64, ACL_DOUBLE, ACL_BOOL};

bool is_floating(aclDataType type);

/// An aclTensor with its elements where the double may touch them: element `i` lies `offset + sum of i[d] * strides[d]`
/// elements behind `elements`.
struct tensor {
  aclDataType type;
  aclFormat format;
  extents shape;
  extents strides;
  std::int64_t offset;
  std::byte* elements;

  std::size_t rank() const { return shape.size(); }
  std::int64_t count() const;
};

struct scalar {
  aclDataType type;
  double real;
  std::int64_t integer;
};

/// All elements of `from` in row-major order, converted. T: float, double, std::int64_t.
template <class T>
std::vector<T> load(tensor const& from);
/// The same of `from` broadcast to `shape`.
template <class T>
std::vector<T> load(tensor const& from, extents const& shape);
/// All elements of `to` from row-major order. FP16 and BF16 round to the nearest, integers towards zero and to their
/// limits; a NaN becomes the integer 0; true is whatever is not 0.
template <class T>
void store(tensor const& to, std::vector<T> const& values);

extern template std::vector<float> load(tensor const&);
extern template std::vector<double> load(tensor const&);
extern template std::vector<std::int64_t> load(tensor const&);
extern template std::vector<float> load(tensor const&, extents const&);
extern template std::vector<double> load(tensor const&, extents const&);
extern template std::vector<std::int64_t> load(tensor const&, extents const&);
extern template void store(tensor const&, std::vector<float> const&);
extern template void store(tensor const&, std::vector<double> const&);
extern template void store(tensor const&, std::vector<std::int64_t> const&);

/// The shape that both broadcast to; nullopt when they do not.
std::optional<extents> broadcast(extents const& a, extents const& b);
/// The type that both promote to: floating over integral, the wider of two, FLOAT of FLOAT16 and BF16.
aclDataType promote(aclDataType a, aclDataType b);
/// Row-major strides.
extents contiguous_strides(extents const& shape);
/// In [0, rank), of a dimension that counts from the end when negative. Throws as planner::require does.
std::size_t dimension(std::int64_t d, std::size_t rank);

/// How the cube rounds its operands before it multiplies (sums are FP32).
enum class operands { kept, half, hf32 };
void round_operands(operands precision, std::vector<float>& values);

/// A status that phase 1 returns, and what aclGetRecentErrMsg says.
struct refusal {
  aclnnStatus status;
  std::string message;
};
inline constexpr aclnnStatus null_parameter = 161001;
inline constexpr aclnnStatus invalid_parameter = 161002;
inline constexpr aclnnStatus runtime_failure = 361001;
inline constexpr aclnnStatus no_kernel = 561003;

/// The checks of phase 1. Each throws a refusal.
class planner {
 public:
  /// A mandatory tensor: not null, alive, one of `allowed`, within device memory that is allocated.
  tensor input(aclTensor const* handle, char const* name, types const& allowed = floating);
  tensor output(aclTensor const* handle, char const* name, types const& allowed = floating);
  std::optional<tensor> optional_input(aclTensor const* handle, char const* name, types const& allowed = floating);
  std::optional<tensor> optional_output(aclTensor const* handle, char const* name, types const& allowed = floating);
  std::vector<tensor> inputs(aclTensorList const* handle, char const* name, types const& allowed = floating);

  scalar number(aclScalar const* handle, char const* name);
  std::vector<std::int64_t> integers(aclIntArray const* handle, char const* name);
  std::vector<bool> flags(aclBoolArray const* handle, char const* name, std::size_t count);

  /// Refuses with invalid_parameter unless `condition`.
  void require(bool condition, std::string const& message) const;
  void shape(tensor const& of, char const* name, extents const& wanted) const;
  void format(tensor const& of, char const* name, std::initializer_list<aclFormat> allowed) const;
  /// Refuses with no_kernel on the named chip.
  void not_on(chip chip) const;
  /// What cubeMathType does to operands of this type on this chip; refuses what the chip refuses. On the 910 products
  /// of FP32 are products of FP16, unless ASCEND_DOUBLE_EXACT_PRODUCTS=1.
  operands cube(aclDataType type, std::int8_t cube_math_type) const;

  /// Bytes that phase 2 must be given. The double writes noise there while the operator runs.
  void workspace(std::uint64_t bytes) { workspace_bytes_ += bytes; }

 private:
  friend struct plan_access;
  tensor view(aclTensor const* handle, char const* name, types const& allowed, bool written);

  char const* operator_name_;
  std::uint64_t workspace_bytes_ = 0;
  std::shared_ptr<struct executor_arguments> arguments_;
};

/// Phase 1: makes an executor of what `describe` returns, a function without parameters for the stream to call.
aclnnStatus plan(char const* operator_name, std::uint64_t* workspace_size, aclOpExecutor** executor,
                 std::function<std::function<void()>(planner&)> const& describe);

/// Phase 2.
aclnnStatus execute(char const* operator_name, void* workspace, std::uint64_t workspace_size, aclOpExecutor* executor,
                    aclrtStream stream);

#define ASCEND_DOUBLE_EXECUTE(NAME)                                                                        \
  aclnnStatus NAME(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) { \
    return ascend_double::execute(#NAME, workspace, workspaceSize, executor, stream);                      \
  }

}  // namespace ascend_double
