#pragma once

/// Everything but the optional backends.

#include <tessera/comm/checked.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/core/draw_svg.hpp>
#include <tessera/core/layout_text.hpp>
#include <tessera/layer/activation.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/rms_norm.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/resnet_names.hpp>
#include <tessera/op/batch_matmul.hpp>
#include <tessera/op/broadcast.hpp>
#include <tessera/op/concat.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/op/explicit_loss.hpp>
#include <tessera/op/reduce.hpp>
#include <tessera/op/reshape.hpp>
#include <tessera/op/slice.hpp>
#include <tessera/op/transpose.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/redistribute/halo.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>
