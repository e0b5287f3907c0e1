#include "meta.hpp"

#include <Eigen/Core>
#include <cstring>
#include <limits>
#include <mutex>

namespace ascend_double {

namespace {

template <class T>
registry<T>& made(char const* kind, std::uintptr_t tag) {
  auto* all = new registry<T>(kind, tag);
  report_at_exit([all] { return std::vector<std::string>(all->all().size(), all->kind()); });
  return *all;
}

}  // namespace

registry<tensor_record>& tensors() {
  static auto& all = made<tensor_record>("an aclTensor", 0x61);
  return all;
}
registry<scalar>& scalars() {
  static auto& all = made<scalar>("an aclScalar", 0x62);
  return all;
}
registry<extents>& integer_arrays() {
  static auto& all = made<extents>("an aclIntArray", 0x63);
  return all;
}
registry<std::vector<bool>>& flag_arrays() {
  static auto& all = made<std::vector<bool>>("an aclBoolArray", 0x64);
  return all;
}
registry<tensor_list>& tensor_lists() {
  static auto& all = made<tensor_list>("an aclTensorList", 0x65);
  return all;
}
registry<executor_arguments>& executors() {
  static auto& all = made<executor_arguments>("an aclOpExecutor", 0x66);
  return all;
}

std::size_t bytes_of(aclDataType type) {
  switch (type) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32: return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64: return 8;
    case ACL_COMPLEX128: return 16;
    default: return 0;
  }
}

namespace {

template <class T>
T* fail_with_null(std::string message) {
  fail(invalid_parameter, std::move(message));
  return nullptr;
}

scalar value_of(void const* address, aclDataType type) {
  auto read = [&]<class T>(T value) {
    std::memcpy(&value, address, sizeof value);
    return value;
  };
  auto real = [&](auto value) {
    auto wide = static_cast<double>(value);
    bool fits = wide > -9.2e18 && wide < 9.2e18;
    return scalar{type, wide, fits ? static_cast<std::int64_t>(wide) : 0};
  };
  auto whole = [&](auto value) { return scalar{type, static_cast<double>(value), static_cast<std::int64_t>(value)}; };
  switch (type) {
    case ACL_FLOAT: return real(read(float{}));
    case ACL_DOUBLE: return real(read(double{}));
    case ACL_FLOAT16: return real(static_cast<float>(read(Eigen::half{})));
    case ACL_BF16: return real(static_cast<float>(read(Eigen::bfloat16{})));
    case ACL_INT8: return whole(read(std::int8_t{}));
    case ACL_UINT8: return whole(read(std::uint8_t{}));
    case ACL_BOOL: return whole(read(std::uint8_t{}) != 0);
    case ACL_INT16: return whole(read(std::int16_t{}));
    case ACL_UINT16: return whole(read(std::uint16_t{}));
    case ACL_INT32: return whole(read(std::int32_t{}));
    case ACL_UINT32: return whole(read(std::uint32_t{}));
    case ACL_INT64: return whole(read(std::int64_t{}));
    case ACL_UINT64: return whole(read(std::uint64_t{}));
    default: return {ACL_DT_UNDEFINED, 0, 0};
  }
}

template <class T>
aclnnStatus destroy(registry<T>& all, void const* handle, std::string const& user) {
  if (!handle) return fail(null_parameter, user + ": null");
  all.take(handle, user);
  return ACL_SUCCESS;
}

}  // namespace

}  // namespace ascend_double

using namespace ascend_double;

size_t aclDataTypeSize(aclDataType type) { return bytes_of(type); }

float aclFloat16ToFloat(aclFloat16 value) {
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(value));
}

aclFloat16 aclFloatToFloat16(float value) { return Eigen::half_impl::float_to_half_rtne(value).x; }

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  std::string const user = "aclCreateTensor: ";
  if ((!viewDims && viewDimsNum > 0) || (!storageDims && storageDimsNum > 0))
    return fail_with_null<aclTensor>(user + "dimensions are null");
  if (viewDimsNum > 8 || storageDimsNum > 8) return fail_with_null<aclTensor>(user + "more than 8 dimensions");
  if (bytes_of(dataType) == 0) return fail_with_null<aclTensor>(user + "data type");
  if (offset < 0) return fail_with_null<aclTensor>(user + "negative offset");
  if (reinterpret_cast<std::uintptr_t>(tensorData) % 32 != 0)
    return fail_with_null<aclTensor>(user + "tensorData is not aligned to 32 bytes; say where it begins with offset");
  auto made = std::make_shared<tensor_record>();
  made->shape.assign(viewDims, viewDims + viewDimsNum);
  made->storage.assign(storageDims, storageDims + storageDimsNum);
  for (auto const* dims : {&made->shape, &made->storage})
    for (auto extent : *dims)
      if (extent < 0) return fail_with_null<aclTensor>(user + "negative extent");
  if (stride)
    made->strides.assign(stride, stride + viewDimsNum);
  else
    made->strides = contiguous_strides(made->shape);
  std::int64_t last = offset;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < viewDimsNum; ++d) {
    if (made->strides[d] < 0) return fail_with_null<aclTensor>(user + "negative stride");
    last += (made->shape[d] - 1) * made->strides[d];
    count *= made->shape[d];
  }
  std::int64_t stored = 1;
  for (auto extent : made->storage) stored *= extent;
  if (count > 0 && last >= stored) return fail_with_null<aclTensor>(user + "the view goes past storageDims");
  made->type = dataType;
  made->format = format;
  made->offset = offset;
  made->address = tensorData;
  return static_cast<aclTensor*>(tensors().add(std::move(made)));
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  if (!value) return fail_with_null<aclScalar>("aclCreateScalar: null");
  if (device_memory::instance().contains(value)) violation("aclCreateScalar: the value is in device memory");
  auto read = value_of(value, dataType);
  if (read.type == ACL_DT_UNDEFINED) return fail_with_null<aclScalar>("aclCreateScalar: data type");
  return static_cast<aclScalar*>(scalars().add(std::make_shared<scalar>(read)));
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  if (!value && size > 0) return fail_with_null<aclIntArray>("aclCreateIntArray: null");
  return static_cast<aclIntArray*>(integer_arrays().add(std::make_shared<extents>(value, value + size)));
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  if (!value && size > 0) return fail_with_null<aclBoolArray>("aclCreateBoolArray: null");
  return static_cast<aclBoolArray*>(flag_arrays().add(std::make_shared<std::vector<bool>>(value, value + size)));
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  if (!value && size > 0) return fail_with_null<aclTensorList>("aclCreateTensorList: null");
  auto made = std::make_shared<tensor_list>();
  for (std::uint64_t i = 0; i < size; ++i) {
    if (!value[i]) return fail_with_null<aclTensorList>("aclCreateTensorList: a tensor is null");
    tensors().find(value[i], "aclCreateTensorList");
    made->tensors.push_back(value[i]);
  }
  return static_cast<aclTensorList*>(tensor_lists().add(std::move(made)));
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy(tensors(), tensor, "aclDestroyTensor"); }

aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(scalars(), scalar, "aclDestroyScalar"); }

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return destroy(integer_arrays(), array, "aclDestroyIntArray");
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy(flag_arrays(), array, "aclDestroyBoolArray");
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  if (!array) return fail(null_parameter, "aclDestroyTensorList: null");
  auto list = tensor_lists().take(array, "aclDestroyTensorList");
  for (auto const* tensor : list->tensors) tensors().take(tensor, "aclDestroyTensorList");
  return ACL_SUCCESS;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (!executor) return fail(null_parameter, "aclSetAclOpExecutorRepeatable: null");
  executors().find(executor, "aclSetAclOpExecutorRepeatable")->repeatable = true;
  return ACL_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (!executor) return fail(null_parameter, "aclDestroyAclOpExecutor: null");
  executors().take(executor, "aclDestroyAclOpExecutor");
  return ACL_SUCCESS;
}
