#pragma once

/// The tests of all kernels, for one backend. A source that includes this says for which:
///
///     #define TESSERA_BACKEND "eigen: "      // what the names of the tests begin with
///     #define TESSERA_ELEMENTS float, double  // what its blocks hold
///     namespace tessera::test {
///     namespace {
///     using suite_kernels = eigen;            // kernels for blocks in host memory: on_host<B> for other backends
///     }
///     }
///     #include "suite.hpp"
///
/// A backend that keeps statistics in float and takes activations from a library has less digits than `eigen` for
/// numbers of extreme size: its source also says
///
///     #define TESSERA_FLOAT_STATISTICS true
///
/// and the tests of those are skipped. What each kernel must give is written once, here: against plain loops in double, in odd and empty blocks, in place
/// where that is allowed, with NaN and infinity.

#ifndef TESSERA_FLOAT_STATISTICS
#define TESSERA_FLOAT_STATISTICS false
#endif

#include "suite/activation.hpp"
#include "suite/attention.hpp"
#include "suite/batch_matmul.hpp"
#include "suite/batch_norm.hpp"
#include "suite/broadcast.hpp"
#include "suite/columns.hpp"
#include "suite/conv2d.hpp"
#include "suite/cross_entropy.hpp"
#include "suite/dropout.hpp"
#include "suite/elementwise.hpp"
#include "suite/embedding.hpp"
#include "suite/group_norm.hpp"
#include "suite/layout.hpp"
#include "suite/matmul.hpp"
#include "suite/maximum.hpp"
#include "suite/optimizer.hpp"
#include "suite/permute.hpp"
#include "suite/pool2d.hpp"
#include "suite/row_norm.hpp"
#include "suite/softmax.hpp"
