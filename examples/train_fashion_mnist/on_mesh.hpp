#pragma once

#include "train.hpp"

#ifdef EXAMPLE_WITH_ONEDNN
#include <tessera/backend/onednn.hpp>
#endif
#include <tessera/model/resnet.hpp>
#include <tessera/train/checkpoint.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <cstdio>

namespace ts = tessera;

// [mesh]
template <int Size>
struct dp : ts::axis<Size> {};
template <int Size>
struct tp : ts::axis<Size> {};

// The model: a serial ResNet whose channels tp splits and whose batch dp splits. On axes of one device nothing is split.
template <class Dp, class Tp>
using resnet = ts::parallel<ts::model::resnet_small<10, Tp>, ts::input<ts::dynamic, 1, 28, 28>, ts::data_parallel<Dp>>;
// [mesh]

/// Trains a model on a mesh with the kernels of a backend and prints the accuracy on the test images.
template <class Model, class Mesh, class Backend>
void train_with(settings const& s) {
  // [train]
  ts::session<Mesh, Backend> session;
  const auto train = ts::load_fashion_mnist(s.data, ts::dataset_part::train);
  const auto test = ts::load_fashion_mnist(s.data, ts::dataset_part::test);

  auto model = session.template make<Model>(ts::seed{s.seed});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = s.learning_rate, .momentum = 0.9}};

  if (session.rank() == 0)
    std::printf("%d x %d ranks, %lld images, %lld steps an epoch\n", Mesh::sizes[0], Mesh::sizes[1],
                static_cast<long long>(train.size()), static_cast<long long>(train.size() / s.batch));

  const ts::image_batches batches{train, s.batch, 0.2860f, 0.3530f, {.seed = s.seed}};
  ts::progress_bar bar{s.bar};
  if (s.checkpoint.empty())
    trainer.fit(batches, ts::epochs{s.epochs}, bar);
  else
    trainer.fit(batches, ts::epochs{s.epochs}, ts::resume{s.resume ? s.checkpoint : ""},
                ts::checkpoint_every{.directory = s.checkpoint, .epochs = 1}, bar);
  const auto result = trainer.evaluate({test, s.batch, 0.2860f, 0.3530f});
  // [train]
  if (session.rank() == 0)
    std::printf("test accuracy %.4f on %lld images\n", result.accuracy, static_cast<long long>(result.rows));
}

// [backends]
/// The same with the kernels that the command line asks for.
template <class Model, class Mesh>
void train_model(settings const& s) {
#ifdef EXAMPLE_WITH_ONEDNN
  if (s.backend == "onednn") return train_with<Model, Mesh, ts::onednn>(s);
#endif
  train_with<Model, Mesh, ts::eigen>(s);
}
// [backends]

/// The same on a mesh of `Dp` x `Tp` ranks, split as they say.
template <int Dp, int Tp>
void train_on_mesh(settings const& s) {
  train_model<resnet<dp<Dp>, tp<Tp>>, ts::mesh<dp<Dp>, tp<Tp>>>(s);
}
