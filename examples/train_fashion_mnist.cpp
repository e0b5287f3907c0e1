// Trains a small ResNet (121,274 parameters) on Fashion-MNIST, data parallel, tensor parallel, both, or by a plan
// that was found while compiling.
//

#include "train_fashion_mnist/train.hpp"

#include <tessera/comm/mpi.hpp>
#include <tessera/train/session.hpp>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <iostream>

int main(int argc, char** argv) {
  tessera::program program(argc, argv);
  const tessera::mpi_comm world;

  settings s;
  s.ranks = world.size();
  std::string progress = "auto";
  CLI::App app{"Trains a small ResNet on Fashion-MNIST, split over the ranks of mpirun."};
  app.add_option("--mesh", s.mesh,
                 "What the ranks split: data (the batch), tensor (channels and classes), both (2 x N/2), auto (what takes "
                 "a step of 256 images the least time on one host, found while compiling)")
      ->check(CLI::IsMember({"data", "tensor", "both", "auto"}))
      ->capture_default_str();
  app.add_option("--ranks", s.ranks, "Number of ranks: 1, 2, 4 or 8; examples/run starts as many")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->capture_default_str();
#ifdef EXAMPLE_WITH_ONEDNN
  app.add_option("--backend", s.backend, "Whose matrix products and convolutions: eigen or onednn")
      ->check(CLI::IsMember({"eigen", "onednn"}))
      ->capture_default_str();
#else
  app.add_option("--backend", s.backend, "Whose kernels: eigen; examples/run --backend onednn builds the example with both")
      ->check(CLI::IsMember({"eigen"}))
      ->capture_default_str();
#endif
  app.add_option("--epochs", s.epochs, "Passes over the training images")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", s.batch, "Images a step, over all ranks")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--learning-rate", s.learning_rate, "Step size of momentum descent; raise it with the batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", s.seed, "Seed of initial weights and shuffling")->capture_default_str();
  app.add_option("--data", s.data, "Folder of the four IDX files, gzipped or not")->capture_default_str();
  auto* checkpoint = app.add_option("--checkpoint", s.checkpoint, "Folder to save in after each epoch");
  app.add_flag("--resume", s.resume, "Go on from the newest checkpoint of that folder, if it holds any")->needs(checkpoint);
  app.add_option("--progress", progress, "bar, lines, or auto: a bar where output is a terminal")
      ->check(CLI::IsMember({"auto", "bar", "lines"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    // Help and errors once, not once a rank.
    std::ostream nowhere(nullptr);
    const bool first = world.rank() == 0;
    return app.exit(e, first ? std::cout : nowhere, first ? std::cerr : nowhere);
  }
  s.bar = progress == "bar" || (progress == "auto" && isatty(STDOUT_FILENO) != 0);

  if (s.ranks != world.size())
    throw tessera::error("--ranks " + std::to_string(s.ranks) + " in a run of " + std::to_string(world.size()) + " ranks",
                         "equal numbers", "start the program with examples/run --ranks " + std::to_string(s.ranks));
  if (s.mesh == "both" && s.ranks < 4)
    throw tessera::error("--mesh both on " + std::to_string(s.ranks) + " ranks", "4 or 8 ranks",
                         "choose --mesh data or tensor, or --ranks 4");
  switch (s.ranks) {
    case 1: train_on_1_rank(s); break;
    case 2: train_on_2_ranks(s); break;
    case 4: train_on_4_ranks(s); break;
    default: train_on_8_ranks(s); break;
  }
}
