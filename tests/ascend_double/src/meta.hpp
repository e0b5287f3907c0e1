#pragma once

#include "double.hpp"

// What the opaque handles of aclnn stand for.
namespace ascend_double {

struct tensor_record {
  aclDataType type;
  aclFormat format;
  extents shape;
  extents strides;
  std::int64_t offset;
  extents storage;
  void* address;
};

struct tensor_list {
  std::vector<aclTensor const*> tensors;
};

/// What phase 1 leaves to phase 2.
struct executor_arguments {
  std::string operator_name;
  std::uint64_t workspace_bytes = 0;
  std::vector<use> uses;
  std::vector<aclTensor const*> tensors;  // must still be there in phase 2
  std::function<void()> run;
  bool repeatable = false;
};

registry<tensor_record>& tensors();
registry<scalar>& scalars();
registry<extents>& integer_arrays();
registry<std::vector<bool>>& flag_arrays();
registry<tensor_list>& tensor_lists();
registry<executor_arguments>& executors();

std::size_t bytes_of(aclDataType type);

}  // namespace ascend_double
