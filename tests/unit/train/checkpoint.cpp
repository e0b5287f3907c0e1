#include "support/checkpoints.hpp"

#include <tessera/train/optimizer.hpp>
#include <tessera/train/weights.hpp>

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <limits>

// Checkpoints of one rank: what killing, truncating and exchanging files does, and what is refused.

namespace {

using namespace checkpoints;
namespace fs = std::filesystem;

using alone = worlds::serial_team<mesh<>>;
using small_model =
    parallel<chain<conv2d<1, 2, window<3, 2, 1>>, batch_norm2d<2>, flatten<>, linear<8, 3>>, input<dynamic, 1, 4, 4>>;

std::string content(fs::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void write(fs::path const& path, std::string const& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  REQUIRE(out.good());
}

/// A model and its trainer.
template <class Optimizer = adam>
struct run {
  explicit run(std::uint64_t start, Optimizer optimizer = {}) : net(team, seed{start}), trains(net, {}, optimizer) {}
  alone team{serial_comm{}};
  network<small_model, alone> net;
  trainer<network<small_model, alone>, cross_entropy, Optimizer> trains;
};

std::vector<std::string> names_in(fs::path const& folder) {
  std::vector<std::string> names;
  for (auto const& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a program that is killed at any step of saving loses at most the unfinished checkpoint") {
  const shared_folder folder;
  run<> a(1);
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path());
  const auto first = held(a.trains);
  a.trains.fit(batches(), epochs{1});
  const auto second = held(a.trains);

  run<> b(2);
  bool finished = false;
  int killed = 0;
  for (int stop = 0; !finished; ++stop) {
    CAPTURE(stop);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int steps = 0;
      detail::before_file_step = [&](fs::path const&) {
        if (steps++ == stop) kill(getpid(), SIGKILL);
      };
      save_checkpoint(a.trains, folder.path(), {}, 1);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    finished = WIFEXITED(status);
    killed += finished ? 0 : 1;
    const auto newest = newest_checkpoint(folder.path());
    REQUIRE(newest);
    load_checkpoint(b.trains, *newest);
    if (newest->filename() == "step-00000008") {
      CHECK(held(b.trains) == second);
      if (!finished) fs::remove_all(*newest);
    } else {
      CHECK(!finished);
      CHECK(held(b.trains) == first);
    }
  }
  CHECK(killed > 20);
  // What was left unfinished is gone, and so is the one before the one that is kept.
  CHECK(names_in(folder.path()) == std::vector<std::string>{"step-00000008"});
}

TEST_CASE("a checkpoint with a file that is cut off anywhere is an error that names the tensor") {
  const shared_folder folder;
  run<> a(1);
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path());
  const auto checkpoint = *newest_checkpoint(folder.path());
  const auto file = checkpoint / "rank-00000.safetensors";
  const std::string whole_file = content(file);
  const auto tensors = safetensors_file(file).tensors();
  run<> b(2);
  const auto before = held(b.trains);
  REQUIRE(whole_file.size() > 20 * 64);
  for (std::size_t size = 0; size < whole_file.size(); size += 64) {
    CAPTURE(size);
    write(file, whole_file.substr(0, size));
    const std::string text = error_of([&] { load_checkpoint(b.trains, checkpoint); });
    says(text, "tensor \"");
    says(text, "rank-00000.safetensors");
    for (auto const& t : tensors)
      if (t.begin <= size && size < t.begin + t.bytes()) says(text, "inside tensor \"" + t.name + "\"");
    CHECK(held(b.trains) == before);
    CHECK(b.trains.steps() == 0);
    says(error_of([&] { newest_checkpoint(folder.path()); }), "is broken");
  }
  write(file, whole_file);
  const std::string index = content(checkpoint / "index.json");
  for (std::size_t size = 0; size < index.size() - 1; size += 64) {
    write(checkpoint / "index.json", index.substr(0, size));
    says(error_of([&] { load_checkpoint(b.trains, checkpoint); }), "index.json");
  }
  write(checkpoint / "index.json", index);
  load_checkpoint(b.trains, checkpoint);
  CHECK(held(b.trains) == held(a.trains));
}

TEST_CASE("a byte that changed in a checkpoint or an export is an error that names the tensor") {
  const shared_folder folder;
  run<> a(1);
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path());
  const auto checkpoint = *newest_checkpoint(folder.path());
  const auto file = checkpoint / "rank-00000.safetensors";
  const std::string whole_file = content(file);
  run<> b(2);
  const auto before = held(b.trains);
  const auto tensors = safetensors_file(file).tensors();
  for (auto const& t : tensors)
    for (const std::uint64_t at : {std::uint64_t{0}, t.bytes() - 1}) {
      std::string damaged = whole_file;
      damaged[static_cast<std::size_t>(t.begin + at)] ^= 1;
      write(file, damaged);
      says(error_of([&] { load_checkpoint(b.trains, checkpoint); }), "tensor \"" + t.name + "\" in " + file.string());
      CHECK(held(b.trains) == before);
      CHECK(b.trains.steps() == 0);
    }
  write(file, whole_file);
  const auto index = checkpoint / "index.json";
  const std::string text = content(index);
  const std::size_t rate = text.find("0.001");  // still JSON, and a learning rate
  REQUIRE(rate != std::string::npos);
  std::string damaged = text;
  damaged[rate] = '7';
  write(index, damaged);
  says(error_of([&] { load_checkpoint(b.trains, checkpoint); }), "it does not have the checksum");
  says(error_of([&] { newest_checkpoint(folder.path()); }), "it does not have the checksum");
  // Checkpoints of before checksums.
  auto old = nlohmann::json::parse(text);
  old.erase("crc32");
  old["state"]["position"].erase("callbacks");
  write(index, old.dump());
  load_checkpoint(b.trains, checkpoint);
  CHECK(held(b.trains) == held(a.trains));

  const auto exported = folder.path() / "weights.safetensors";
  export_weights(a.net, exported);
  std::string weights = content(exported);
  weights.back() ^= 1;
  write(exported, weights);
  run<> c(3);
  const auto start = held(c.trains);
  says(error_of([&] { import_weights(c.net, exported); }),
       "tensor \"" + safetensors_file(exported).tensors().back().name + "\"");
  CHECK(held(c.trains) == start);
}

TEST_CASE("a file of another checkpoint, or of something else, is an error that names the tensor") {
  const shared_folder folder;
  run<> a(1);
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path() / "one");
  save_checkpoint(a.trains, folder.path() / "two");
  const auto one = *newest_checkpoint(folder.path() / "one");
  const auto two = *newest_checkpoint(folder.path() / "two");
  const auto load = [&](fs::path const& from) {
    run<> b(2);
    return error_of([&] { load_checkpoint(b.trains, from); });
  };
  CHECK(load(one) == "no error");
  const std::string own = content(one / "rank-00000.safetensors");
  fs::copy_file(two / "rank-00000.safetensors", one / "rank-00000.safetensors", fs::copy_options::overwrite_existing);
  says(load(one), "tensor \"0.weight\": rank-00000.safetensors was not saved together with index.json");
  write(one / "rank-00000.safetensors", std::string(4096, 'x'));
  says(load(one), "tensor \"0.weight\"");
  fs::remove(one / "rank-00000.safetensors");
  says(load(one), "tensor \"0.weight\": cannot open");
  write(one / "rank-00000.safetensors", own);
  CHECK(load(one) == "no error");

  // Indices that do not fit.
  auto index = nlohmann::json::parse(content(one / "index.json"));
  index.erase("crc32");
  const auto with = [&](auto change) {
    auto changed = index;
    change(changed);
    write(one / "index.json", changed.dump());
    return load(one);
  };
  says(with([](auto& j) { j["format"] = "another"; }), "format");
  says(with([](auto& j) { j["tensors"]["0.weight"]["dtype"] = "F8"; }), "tensor \"0.weight\" has an unknown dtype");
  says(with([](auto& j) { j["tensors"]["0.weight"]["shape"] = "no"; }), "tensor \"0.weight\"");
  says(with([](auto& j) { j["tensors"]["0.weight"]["shape"][0] = 3; }), "pieces of 18 elements, not 27");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["begin"][0] = 1; }), "beyond its extents");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["begin"] = {0}; }), "another rank");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["order"] = {0, 0, 1, 2}; }), "in no order");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["range"] = {0, 19}; }), "beyond its box");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["file"] = "../one"; }), "another folder");
  says(with([](auto& j) {
         auto const pieces = j["tensors"]["0.weight"]["pieces"];
         j["tensors"]["0.weight"] = {{"dtype", "F32"}, {"shape", {3, 6}}, {"pieces", pieces}};
         j["tensors"]["0.weight"]["pieces"][0]["begin"] = {0, 0};
         j["tensors"]["0.weight"]["pieces"][0]["shape"] = {3, 6};
       }),
       "tensor \"0.weight\" of [3, 6] F32, not [2, 1, 3, 3] F32");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["file"] = std::string("a\0b", 3); }), "another folder");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["file"] = ""; }), "a file without a name");
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  says(with([&](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["begin"][0] = last; }), "beyond its extents");
  says(with([&](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["range"] = {last, 18}; }), "beyond its box");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["begin"][0] = 0.5; }), "0.5 is no whole number");
  says(with([](auto& j) { j["tensors"]["0.weight"]["pieces"][0]["order"] = {0, 1, 2, 4294967299}; }), "not there");
  // Pieces of the right number of elements that hold some twice and others not at all.
  const auto twice = [](auto& j, char const* file, index_t second) {
    auto& tensor = j["tensors"]["0.weight"];
    auto piece = tensor["pieces"][0];
    piece["shape"][0] = 1;
    tensor["pieces"][0] = piece;
    piece["file"] = file;
    piece["begin"][0] = second;
    tensor["pieces"].push_back(piece);
  };
  says(with([&](auto& j) { twice(j, "rank-00001.safetensors", 0); }), "pieces that overlap");
  says(with([&](auto& j) { twice(j, "rank-00000.safetensors", 1); }), "two pieces in one file");
  says(with([](auto& j) {
         auto piece = j["tensors"]["0.weight"]["pieces"][0];
         piece["range"] = {0, 9};
         j["tensors"]["0.weight"]["pieces"][0] = piece;
         piece["file"] = "rank-00001.safetensors";
         piece["range"] = {8, 9};
         j["tensors"]["0.weight"]["pieces"].push_back(piece);
       }),
       "pieces that overlap");
  says(with([](auto& j) { j["id"] = ""; }), "an id without a letter");
  says(with([](auto& j) { j["id"] = 3; }), "index.json");
  for (char const* wrong : {"1e300", "-7", "4.75", "18446744073709551615", "\"four\""}) {
    const auto value = nlohmann::json::parse(wrong);
    says(with([&](auto& j) { j["state"]["steps"] = value; }), "no whole number");
    says(with([&](auto& j) { j["state"]["position"]["epoch"] = value; }), "no whole number");
    says(with([&](auto& j) { j["state"]["optimizer"]["steps"] = value; }), "no whole number");
  }
  says(with([](auto& j) { j["state"]["optimizer"]["options"]["learning_rate"] = -1; }), "the learning_rate of -1");
  says(with([](auto& j) { j["state"]["position"]["sampler"]["seed"] = -1; }), "a seed");
  std::string nested = index.dump();
  nested.insert(1, "\"deep\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + ",");
  write(one / "index.json", nested);
  says(load(one), "nested in more than 32 levels");
  std::string doubled = index.dump();
  doubled.insert(1, "\"id\":\"1\",");
  write(one / "index.json", doubled);
  says(load(one), "it has \"id\" twice");
  write(one / "index.json", "\xEF\xBB\xBF" + index.dump());
  says(load(one), "byte order mark");
  says(with([](auto& j) { j["state"].erase("position"); }), "the state in its index.json");
  says(with([](auto& j) { j["tensors"].erase("0.weight"); }), "no tensor \"0.weight\"");
  says(with([](auto& j) { j["tensors"]["9.weight"] = j["tensors"]["0.weight"]; }), "also has tensor \"9.weight\"");
  CHECK(with([](auto&) {}) == "no error");
}

TEST_CASE("a checkpoint of another optimizer is an error, and its weights load alone") {
  const shared_folder folder;
  run<> a(1);
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path());
  const auto checkpoint = *newest_checkpoint(folder.path());
  run<momentum> b(2, momentum{});
  says(error_of([&] { load_checkpoint(b.trains, checkpoint); }), "saved with the optimizer adam; wanted momentum");
  load_weights(b.net, checkpoint);
  CHECK(whole(b.net) == whole(a.net));
  CHECK(b.trains.steps() == 0);

  alone team{serial_comm{}};
  auto in_double = team.make<small_model, double>(seed{1});
  says(error_of([&] { load_weights(in_double, checkpoint); }), "tensor \"0.weight\" of [2, 1, 3, 3] F32, not");
}

TEST_CASE("options of the optimizer come back, and state that is not there is not asked for") {
  const shared_folder folder;
  // No updates yet; then plain descent, which remembers nothing; then momentum.
  run<momentum> fresh(1, momentum{.learning_rate = 0.1 + 0.2, .momentum = 0.5, .nesterov = true});
  save_checkpoint(fresh.trains, folder.path());
  run<momentum> loaded(2, sgd(1));
  load_checkpoint(loaded.trains, *newest_checkpoint(folder.path()));
  CHECK(loaded.trains.optimizer().learning_rate == 0.1 + 0.2);
  CHECK(loaded.trains.optimizer().momentum == 0.5);
  CHECK(loaded.trains.optimizer().nesterov);
  CHECK(loaded.trains.fit(batches(), epochs{1}) == fresh.trains.fit(batches(), epochs{1}));
  save_checkpoint(fresh.trains, folder.path());

  run<momentum> plain(3, sgd(0.01, 0.1));
  plain.trains.fit(batches(), epochs{2});
  save_checkpoint(plain.trains, folder.path());
  load_checkpoint(loaded.trains, *newest_checkpoint(folder.path()));
  CHECK(loaded.trains.optimizer().momentum == 0);
  CHECK(loaded.trains.fit(batches(), epochs{1}) == plain.trains.fit(batches(), epochs{1}));
}

TEST_CASE("the newest checkpoints are kept; broken and unfinished ones are passed over") {
  const shared_folder folder;
  CHECK(!newest_checkpoint(folder.path()));
  run<> a(1);
  const auto dir = folder.path();
  const auto names = [&](std::vector<std::string> const& wanted) { CHECK(names_in(dir) == wanted); };
  a.trains.fit(batches(), epochs{1}, checkpoint_every{.directory = dir, .steps = 1, .keep = 2});
  names({"step-00000003", "step-00000004"});
  fs::create_directory(dir / "step-00000009.tmp");
  fs::create_directory(dir / "step-00000009.tmp" / "x");
  CHECK(newest_checkpoint(dir)->filename() == "step-00000004");
  write(dir / "step-00000004" / "index.json", "{}");
  CHECK(newest_checkpoint(dir)->filename() == "step-00000003");

  // A broken one of the same step is replaced, and does not count as one of those that are kept.
  save_checkpoint(a.trains, dir, {}, 2);
  CHECK(newest_checkpoint(dir)->filename() == "step-00000004");
  names({"step-00000003", "step-00000004"});
  fs::remove(dir / "step-00000004" / "rank-00000.safetensors");
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, dir, {}, 2);
  names({"step-00000003", "step-00000004", "step-00000008"});

  // A run that starts anew does not mix with what another left.
  run<> b(1);
  says(error_of([&] { save_checkpoint(b.trains, dir); }),
       "holds a checkpoint of step 3 already, and step 0 is to be saved there");
  says(error_of([&] { save_checkpoint(a.trains, dir); }), "of step 8 already");
  const auto every = checkpoint_every{.directory = dir, .epochs = 1};
  says(error_of([&] { b.trains.fit(batches(), epochs{1}, every); }), "of step 3 already");
  CHECK(b.trains.steps() == 0);
  CHECK(error_of([&] { b.trains.fit(batches(), epochs{1}, resume{dir}, every); }) == "no error");
  CHECK(b.trains.steps() == 12);
  for (auto const& name : names_in(dir)) write(dir / name / "index.json", "[]");
  says(error_of([&] { newest_checkpoint(dir); }), "step-00000012 is broken");
  says(error_of([&] { save_checkpoint(a.trains, dir, {}, 0); }), "keep of 0");
}

TEST_CASE("saving removes no files but those of checkpoints") {
  const shared_folder folder;
  run<> a(1);
  fs::create_directories(folder.path() / "step-notes.tmp");
  write(folder.path() / "step-00000009.tmp", "mine");
  write(folder.path() / "step-00000000", "mine");
  a.trains.fit(batches(), epochs{1});
  save_checkpoint(a.trains, folder.path(), {}, 1);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"step-00000000", "step-00000004", "step-00000009.tmp", "step-notes.tmp"});
}

TEST_CASE("the state of dynamic loss scaling comes back, and one that makes no sense is refused") {
  const shared_folder folder;
  alone team{serial_comm{}};
  auto net = team.make<parallel<chain<flatten<>, linear<16, 3>>, input<dynamic, 1, 4, 4>>>(seed{1});
  trainer a(net, cross_entropy{}, momentum{}, {.loss_scale = dynamic_scale{.initial = 64, .every = 3}});
  a.fit(batches(), epochs{1});
  save_checkpoint(a, folder.path());
  const auto newest = *newest_checkpoint(folder.path());
  auto other = team.make<parallel<chain<flatten<>, linear<16, 3>>, input<dynamic, 1, 4, 4>>>(seed{2});
  trainer b(other, cross_entropy{}, momentum{}, {.loss_scale = dynamic_scale{}});
  load_checkpoint(b, newest);
  CHECK(b.loss_scale().state() == loss_scale_state{128, 1, 0, 0});
  auto index = nlohmann::json::parse(content(newest / "index.json"));
  index.erase("crc32");
  index["state"]["loss_scale"]["factor"] = -1;
  write(newest / "index.json", index.dump());
  says(error_of([&] { load_checkpoint(b, newest); }), "a loss scale that is not positive");
}

TEST_CASE("a run resumes within an epoch with the same data and sampling only") {
  const shared_folder folder;
  run<> a(1);
  auto every = checkpoint_every{.directory = folder.path() / "within", .steps = 3};
  a.trains.fit(batches(), epochs{1}, every);
  image_batches fewer = batches();
  fewer.batch = 8;
  image_batches shuffled = batches();
  shuffled.sampling.seed = 4;
  const auto fit = [&](image_batches const& with, fs::path const& from) {
    run<> b(1);
    return error_of([&] { b.trains.fit(with, epochs{2}, resume{from}); });
  };
  CHECK(fit(batches(), every.directory) == "no error");
  says(fit(fewer, every.directory), "was saved in step 3 of an epoch of 37 rows in batches of 9");
  says(fit(shuffled, every.directory), "was saved in step 3");
  const auto index = *newest_checkpoint(every.directory) / "index.json";
  auto changed = nlohmann::json::parse(content(index));
  changed.erase("crc32");
  changed["state"]["position"]["step"] = 5;
  write(index, changed.dump());
  says(fit(batches(), every.directory), "step 5 of an epoch of 4 steps");

  run<> c(1);
  every = {.directory = folder.path() / "between", .epochs = 1};
  c.trains.fit(batches(), epochs{1}, every);
  CHECK(fit(fewer, every.directory) == "no error");
  CHECK(fit(batches(), folder.path() / "none") == "no error");
  run<> d(1);
  says(error_of([&] { d.trains.fit(batches(), epochs{1}, checkpoint_every{.directory = folder.path()}); }),
       "checkpoint_every with steps 0, epochs 0");
}
