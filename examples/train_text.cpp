// Trains a small language model (120,000 parameters) on the letters of a text, data parallel or tensor parallel on two
// ranks.
//
// run: 2 --epochs 2
// run: 2 --epochs 2 --mesh tensor

#include <tessera/tessera.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

namespace ts = tessera;

namespace {

template <int Size>
struct dp : ts::axis<Size> {};
template <int Size>
struct tp : ts::axis<Size> {};

constexpr int letters = 128;  // ASCII
constexpr int length = 64;    // of a sequence

// [model]
template <class Dp, class Tp>
using language_model =
    ts::parallel<ts::model::gpt<letters, length, 64, 4, 2, Tp>, ts::input<ts::dynamic, length>, ts::data_parallel<Dp>>;
// [model]

struct settings {
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::string mesh = "data";
  std::string log;
  ts::index_t epochs = 20;
  ts::index_t batch = 8;
  double learning_rate = 0.003;
  std::uint64_t seed = 0;
};

std::vector<std::int64_t> read_letters(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ts::error("no text at " + path, "a file of letters", "name one with --text");
  std::vector<std::int64_t> text;
  for (std::istreambuf_iterator<char> i(in), end; i != end; ++i)
    text.push_back(static_cast<unsigned char>(*i) % letters);
  return text;
}

template <int Dp, int Tp>
void train(settings const& s) {
  ts::session<ts::mesh<dp<Dp>, tp<Tp>>> session;
  auto text = read_letters(s.text);
  // The last tenth is for validation.
  const auto kept = static_cast<std::ptrdiff_t>(text.size() - text.size() / 10);
  const std::vector<std::int64_t> unseen(text.begin() + kept, text.end());
  text.resize(static_cast<std::size_t>(kept));

  // [train]
  const ts::token_batches batches{text, length, s.batch, {.seed = s.seed}};
  const ts::index_t steps = s.epochs * (batches.rows() / s.batch);
  auto model = session.template make<language_model<dp<Dp>, tp<Tp>>>(ts::seed{s.seed});
  ts::trainer trainer{
      model, ts::cross_entropy{}, ts::adamw{.learning_rate = s.learning_rate},
      ts::options{.clip_norm = 1,
                  .schedule = ts::warm_up{20, ts::cosine_rate{.rate = s.learning_rate, .steps = steps}}}};
  trainer.fit(batches, ts::epochs{s.epochs}, ts::validate(ts::token_batches{unseen, length, s.batch}),
              ts::progress_bar{false, "sequences"}, ts::csv_log{s.log.empty() ? "/dev/null" : s.log});
  const auto result = trainer.evaluate(ts::token_batches{unseen, length, s.batch});
  // [train]
  if (session.rank() == 0)
    std::printf("unseen text: loss %.3f, %.1f %% of the letters\n", result.loss, 100 * result.accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  tessera::program program(argc, argv);
  const tessera::mpi_comm world;
  settings s;
  CLI::App app{"Trains a small language model on the letters of a text, split over two ranks of mpirun."};
  app.add_option("--text", s.text, "The text")->capture_default_str();
  app.add_option("--mesh", s.mesh, "What the ranks split: data (the batch) or tensor (letters, heads, positions)")
      ->check(CLI::IsMember({"data", "tensor"}))
      ->capture_default_str();
  app.add_option("--epochs", s.epochs, "Passes over the text")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", s.batch, "Sequences a step, over all ranks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", s.learning_rate, "The highest step size of AdamW")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", s.seed, "Seed of initial weights and shuffling")->capture_default_str();
  app.add_option("--log", s.log, "A file for the losses, as comma-separated values");
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    // Help and errors once, not once a rank.
    std::ostream nowhere(nullptr);
    const bool first = world.rank() == 0;
    return app.exit(e, first ? std::cout : nowhere, first ? std::cerr : nowhere);
  }
  if (s.mesh == "data")
    train<2, 1>(s);
  else
    train<1, 2>(s);
}
