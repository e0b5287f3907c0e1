#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "meta.hpp"

namespace ascend_double {

chip this_chip() { return configuration().chip; }

bool is_floating(aclDataType type) {
  return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16 || type == ACL_DOUBLE;
}

std::int64_t tensor::count() const {
  std::int64_t result = 1;
  for (auto extent : shape) result *= extent;
  return result;
}

extents contiguous_strides(extents const& shape) {
  extents strides(shape.size());
  std::int64_t step = 1;
  for (auto d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

std::optional<extents> broadcast(extents const& a, extents const& b) {
  auto const& longer = a.size() < b.size() ? b : a;
  auto const& shorter = a.size() < b.size() ? a : b;
  auto result = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    auto& extent = result[longer.size() - shorter.size() + i];
    if (extent == 1)
      extent = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != extent)
      return std::nullopt;
  }
  return result;
}

aclDataType promote(aclDataType a, aclDataType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (bytes_of(a) != bytes_of(b)) return bytes_of(a) > bytes_of(b) ? a : b;
  if (is_floating(a)) return ACL_FLOAT;
  if (a == ACL_BOOL || b == ACL_BOOL) return a == ACL_BOOL ? b : a;
  return bytes_of(a) == 1 ? ACL_INT16 : a;
}

std::size_t dimension(std::int64_t d, std::size_t rank) {
  auto n = std::max<std::int64_t>(static_cast<std::int64_t>(rank), 1);
  if (d < -n || d >= n) throw refusal{invalid_parameter, "no dimension " + std::to_string(d)};
  return static_cast<std::size_t>(d < 0 ? d + n : d);
}

void round_operands(operands precision, std::vector<float>& values) {
  if (precision == operands::half)
    for (auto& value : values) value = static_cast<float>(Eigen::half(value));
  if (precision == operands::hf32) {
    // 11 of 23 bits of the fraction.
    for (auto& value : values) {
      if (!std::isfinite(value)) continue;
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      bits = (bits + 0x7ff + ((bits >> 12) & 1)) & ~0xfffu;
      std::memcpy(&value, &bits, sizeof bits);
    }
  }
}

namespace {

// Calls `f` with where each element lies, in row-major order.
template <class F>
void each_place(extents const& shape, extents const& strides, std::int64_t offset, F f) {
  auto rank = shape.size();
  for (auto extent : shape)
    if (extent == 0) return;
  if (rank == 0) return f(offset);
  extents at(rank, 0);
  for (auto place = offset;;) {
    for (std::int64_t i = 0; i < shape[rank - 1]; ++i) f(place + i * strides[rank - 1]);
    auto d = rank - 1;
    for (;;) {
      if (d-- == 0) return;
      place += strides[d];
      if (++at[d] < shape[d]) break;
      place -= shape[d] * strides[d];
      at[d] = 0;
    }
  }
}

template <class F>
void with_element(aclDataType type, F f) {
  switch (type) {
    case ACL_FLOAT: return f(float{});
    case ACL_DOUBLE: return f(double{});
    case ACL_FLOAT16: return f(Eigen::half{});
    case ACL_BF16: return f(Eigen::bfloat16{});
    case ACL_INT8: return f(std::int8_t{});
    case ACL_UINT8: return f(std::uint8_t{});
    case ACL_INT16: return f(std::int16_t{});
    case ACL_UINT16: return f(std::uint16_t{});
    case ACL_INT32: return f(std::int32_t{});
    case ACL_UINT32: return f(std::uint32_t{});
    case ACL_INT64: return f(std::int64_t{});
    case ACL_UINT64: return f(std::uint64_t{});
    case ACL_BOOL: return f(bool{});
    default: throw task_failure{ACL_ERROR_RT_AICORE_EXCEPTION, "an element type without arithmetic"};
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    auto real = static_cast<double>(value);
    if (std::isnan(real)) return To{0};
    constexpr auto low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto high = static_cast<double>(std::numeric_limits<To>::max());
    if (real <= low) return std::numeric_limits<To>::min();
    if (real >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(real);
  } else if constexpr (std::is_same_v<To, Eigen::half> || std::is_same_v<To, Eigen::bfloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<From, Eigen::half> || std::is_same_v<From, Eigen::bfloat16>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

template <class T>
std::vector<T> load(tensor const& from) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(from.count()));
  with_element(from.type, [&]<class E>(E) {
    each_place(from.shape, from.strides, from.offset, [&](std::int64_t place) {
      std::conditional_t<std::is_same_v<E, bool>, std::uint8_t, E> element;
      std::memcpy(&element, from.elements + static_cast<std::size_t>(place) * sizeof(E), sizeof(E));
      if constexpr (std::is_same_v<E, bool>)
        values.push_back(element != 0 ? T{1} : T{0});
      else
        values.push_back(convert<T>(element));
    });
  });
  return values;
}

template <class T>
std::vector<T> load(tensor const& from, extents const& shape) {
  auto wide = from;
  wide.shape = shape;
  wide.strides.assign(shape.size(), 0);
  auto missing = shape.size() - from.rank();
  for (std::size_t d = 0; d < from.rank(); ++d) wide.strides[missing + d] = from.shape[d] == 1 ? 0 : from.strides[d];
  return load<T>(wide);
}

template <class T>
void store(tensor const& to, std::vector<T> const& values) {
  if (values.size() != static_cast<std::size_t>(to.count()))
    violation("an operator of the double stores " + std::to_string(values.size()) + " values in a tensor of " +
              std::to_string(to.count()));
  auto next = values.begin();
  with_element(to.type, [&]<class E>(E) {
    each_place(to.shape, to.strides, to.offset, [&](std::int64_t place) {
      auto element = convert<E>(static_cast<T>(*next++));
      std::memcpy(to.elements + static_cast<std::size_t>(place) * sizeof(E), &element, sizeof(E));
    });
  });
}

template std::vector<float> load(tensor const&);
template std::vector<double> load(tensor const&);
template std::vector<std::int64_t> load(tensor const&);
template std::vector<float> load(tensor const&, extents const&);
template std::vector<double> load(tensor const&, extents const&);
template std::vector<std::int64_t> load(tensor const&, extents const&);
template void store(tensor const&, std::vector<float> const&);
template void store(tensor const&, std::vector<double> const&);
template void store(tensor const&, std::vector<std::int64_t> const&);

tensor planner::view(aclTensor const* handle, char const* name, types const& allowed, bool written) {
  if (!handle) throw refusal{null_parameter, std::string(name) + " is null"};
  auto record = tensors().find(handle, operator_name_);
  require(std::find(allowed.begin(), allowed.end(), record->type) != allowed.end(),
          std::string(name) + " is of type " + std::to_string(record->type));
  require(record->type != ACL_BF16 || this_chip() != chip::ascend_910, std::string(name) + ": no BF16 on the 910");
  tensor result{record->type, record->format, record->shape, record->strides, record->offset, nullptr};
  arguments_->tensors.push_back(handle);
  if (result.count() == 0) return result;
  auto size = bytes_of(result.type);
  std::int64_t last = result.offset;
  for (std::size_t d = 0; d < result.rank(); ++d) last += (result.shape[d] - 1) * result.strides[d];
  auto begin = reinterpret_cast<std::uintptr_t>(record->address) + static_cast<std::size_t>(result.offset) * size;
  use touched{begin, static_cast<std::size_t>(last - result.offset + 1) * size, written};
  auto device = current_context() ? current_context()->device : -1;
  device_memory::instance().require_live(touched, device, std::string(operator_name_) + ", " + name);
  result.elements = device_memory::instance().bytes(record->address);
  arguments_->uses.push_back(touched);
  return result;
}

tensor planner::input(aclTensor const* handle, char const* name, types const& allowed) {
  return view(handle, name, allowed, false);
}

tensor planner::output(aclTensor const* handle, char const* name, types const& allowed) {
  return view(handle, name, allowed, true);
}

std::optional<tensor> planner::optional_input(aclTensor const* handle, char const* name, types const& allowed) {
  return handle ? std::optional(input(handle, name, allowed)) : std::nullopt;
}

std::optional<tensor> planner::optional_output(aclTensor const* handle, char const* name, types const& allowed) {
  return handle ? std::optional(output(handle, name, allowed)) : std::nullopt;
}

std::vector<tensor> planner::inputs(aclTensorList const* handle, char const* name, types const& allowed) {
  if (!handle) throw refusal{null_parameter, std::string(name) + " is null"};
  std::vector<tensor> result;
  for (auto const* each : tensor_lists().find(handle, operator_name_)->tensors)
    result.push_back(input(each, name, allowed));
  return result;
}

scalar planner::number(aclScalar const* handle, char const* name) {
  if (!handle) throw refusal{null_parameter, std::string(name) + " is null"};
  return *scalars().find(handle, operator_name_);
}

std::vector<std::int64_t> planner::integers(aclIntArray const* handle, char const* name) {
  if (!handle) throw refusal{null_parameter, std::string(name) + " is null"};
  return *integer_arrays().find(handle, operator_name_);
}

std::vector<bool> planner::flags(aclBoolArray const* handle, char const* name, std::size_t count) {
  if (!handle) throw refusal{null_parameter, std::string(name) + " is null"};
  auto result = *flag_arrays().find(handle, operator_name_);
  require(result.size() == count, std::string(name) + " has " + std::to_string(result.size()) + " elements");
  return result;
}

void planner::require(bool condition, std::string const& message) const {
  if (!condition) throw refusal{invalid_parameter, message};
}

void planner::shape(tensor const& of, char const* name, extents const& wanted) const {
  if (of.shape == wanted) return;
  auto list = [](extents const& shape) {
    std::string result = "[";
    for (auto extent : shape) result += (result.size() > 1 ? ", " : "") + std::to_string(extent);
    return result + "]";
  };
  throw refusal{invalid_parameter, std::string(name) + " has shape " + list(of.shape) + ", not " + list(wanted)};
}

void planner::format(tensor const& of, char const* name, std::initializer_list<aclFormat> allowed) const {
  require(std::find(allowed.begin(), allowed.end(), of.format) != allowed.end(),
          std::string(name) + " has format " + std::to_string(of.format));
}

void planner::not_on(ascend_double::chip chip) const {
  if (this_chip() == chip)
    throw refusal{no_kernel, std::string("there is no such operator on the ") + aclrtGetSocName()};
}

operands planner::cube(aclDataType type, std::int8_t cube_math_type) const {
  constexpr std::int8_t keep = 0, use_half = 2, use_hf32 = 3;  // 1: whatever is fastest
  require(cube_math_type >= keep && cube_math_type <= use_hf32, "cubeMathType");
  bool on_910 = this_chip() == chip::ascend_910;
  require(!on_910 || cube_math_type != use_hf32, "cubeMathType: no HF32 on the 910");
  if (type != ACL_FLOAT) return operands::kept;
  require(!on_910 || cube_math_type != keep, "cubeMathType: the 910 does not multiply FP32 as FP32");
  if (on_910) return configuration().exact_products ? operands::kept : operands::half;
  if (cube_math_type == use_half) return operands::half;
  return cube_math_type == keep ? operands::kept : operands::hf32;
}

struct plan_access {
  static planner make(char const* operator_name) {
    planner p;
    p.operator_name_ = operator_name;
    p.arguments_ = std::make_shared<executor_arguments>();
    p.arguments_->operator_name = operator_name;
    return p;
  }
  static std::shared_ptr<executor_arguments> finish(planner const& p, std::function<void()> run) {
    p.arguments_->workspace_bytes = p.workspace_bytes_;
    p.arguments_->run = std::move(run);
    return p.arguments_;
  }
};

aclnnStatus plan(char const* operator_name, std::uint64_t* workspace_size, aclOpExecutor** executor,
                 std::function<std::function<void()>(planner&)> const& describe) {
  auto name = std::string(operator_name);
  if (!initialized()) return fail(runtime_failure, name + " before aclInit or after aclFinalize");
  if (!current_context()) return fail(runtime_failure, name + ": no device is set on this thread");
  if (!workspace_size || !executor) return fail(null_parameter, name + ": workspaceSize or executor is null");
  auto p = plan_access::make(operator_name);
  try {
    auto made = plan_access::finish(p, describe(p));
    *workspace_size = made->workspace_bytes;
    *executor = static_cast<aclOpExecutor*>(executors().add(made));
    return ACL_SUCCESS;
  } catch (refusal const& r) {
    return fail(r.status, name + ": " + r.message);
  }
}

aclnnStatus execute(char const* operator_name, void* workspace, std::uint64_t workspace_size, aclOpExecutor* executor,
                    aclrtStream on) {
  auto name = std::string(operator_name);
  if (!executor) return fail(null_parameter, name + ": the executor is null");
  auto planned = executors().find(executor, name);
  if (planned->operator_name != name) violation(name + " with the executor of " + planned->operator_name);
  int status = ACL_SUCCESS;
  auto stream = usable_stream(on, name, status);
  if (!stream) return runtime_failure;
  for (auto const* tensor : planned->tensors) tensors().find(tensor, name);
  if (workspace_size < planned->workspace_bytes)
    return fail(invalid_parameter, name + ": the workspace has " + std::to_string(workspace_size) + " bytes of " +
                                       std::to_string(planned->workspace_bytes));
  auto uses = planned->uses;
  auto& memory = device_memory::instance();
  std::byte* scratch = nullptr;
  auto scratch_bytes = planned->workspace_bytes;
  if (scratch_bytes > 0) {
    if (!workspace) return fail(null_parameter, name + ": the workspace is null");
    if (reinterpret_cast<std::uintptr_t>(workspace) % 32 != 0)
      return fail(invalid_parameter, name + ": the workspace is not aligned to 32 bytes");
    uses.push_back(writes(workspace, scratch_bytes));
    scratch = memory.bytes(workspace);
  }
  for (auto const& touched : uses) memory.require_live(touched, stream->owner().device, name);
  if (!planned->repeatable) executors().take(executor, name);
  stream->enqueue(name, uses, [planned, scratch, scratch_bytes] {
    if (scratch) std::memset(scratch, 0xa5, scratch_bytes);
    planned->run();
    if (scratch) std::memset(scratch, 0x5a, scratch_bytes);
  });
  return ACL_SUCCESS;
}

}  // namespace ascend_double
