#pragma once

/// Everything but the optional backends.

#include <tessera/comm/checked.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/op/broadcast.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/op/explicit_loss.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>
