#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/train/checkpoint_index.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Checkpoints as files, without the types of models and optimizers: all ranks of a communicator together write and
/// read lists of entries.
namespace tessera::detail {

/// Each rank's bytes on all ranks.
template <communicator Comm>
std::vector<std::string> gather_texts(Comm& comm, std::string const& mine) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<index_t> sizes(ranks);
  const index_t size = static_cast<index_t>(mine.size());
  comm.all_gather(&size, sizes.data(), std::vector<index_t>(ranks, 1));
  index_t total = 0;
  for (const index_t s : sizes) total += s;
  std::string all(static_cast<std::size_t>(total), ' ');
  comm.all_gather(reinterpret_cast<std::uint8_t const*>(mine.data()), reinterpret_cast<std::uint8_t*>(all.data()),
                  sizes);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const index_t s : sizes) {
    texts.push_back(all.substr(at, static_cast<std::size_t>(s)));
    at += static_cast<std::size_t>(s);
  }
  return texts;
}

/// Runs `f` on each rank, then throws on all ranks where it threw on one: the others would wait for it forever.
template <communicator Comm, class F>
void together(Comm& comm, F&& f) {
  std::exception_ptr fault;
  std::string text;
  try {
    f();
  } catch (std::exception const& e) {
    fault = std::current_exception();
    text = quoted(e);
  }
  const int ranks = comm.size();
  std::int64_t first = fault ? ranks - comm.rank() : 0;
  comm.all_reduce(&first, 1, reduction::maximum);
  if (first == 0) return;
  // All say why: programs print what rank 0 says.
  const int rank = ranks - static_cast<int>(first);
  auto length = static_cast<std::int64_t>(text.size());
  comm.broadcast(&length, 1, rank);
  std::string cause = text;
  cause.resize(static_cast<std::size_t>(length));
  comm.broadcast(reinterpret_cast<std::uint8_t*>(cause.data()), length, rank);
  if (fault) std::rethrow_exception(fault);
  throw error("rank " + std::to_string(rank) + " failed (" + cause + ")", "all ranks to succeed",
              "mend the cause on that rank");
}

inline std::string rank_file(int rank) {
  char text[40];
  std::snprintf(text, sizeof text, "rank-%05d.safetensors", rank);
  return text;
}

inline int rank_of_file(std::string const& file) { return std::stoi(file.substr(5)); }

/// What this rank holds, as text.
inline std::string list_parts(std::vector<checkpoint_entry> const& entries) {
  nlohmann::json list = nlohmann::json::array();
  for (checkpoint_entry const& e : entries) {
    list.push_back({{"name", e.name}, {"dtype", name_of(e.type)}, {"shape", e.extents}});
    // Tensors are listed without elements too, so that those that have none anywhere are not forgotten.
    if (e.part.size() > 0) list.back()["piece"] = to_json(checkpoint_piece{{}, in_file(e.part)});
  }
  return list.dump();
}

/// The index of what all ranks hold: of those that hold the same part the first one writes it.
inline checkpoint_index join_parts(std::string id, nlohmann::json state, std::vector<std::string> const& lists) {
  checkpoint_index index{std::move(id), std::move(state)};
  std::map<std::string, std::set<std::string>> seen;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const std::string file = rank_file(static_cast<int>(rank));
    for (auto const& listed : nlohmann::json::parse(lists[rank])) {
      const auto name = listed["name"].get<std::string>();
      const checkpoint_tensor from{*safetensors_type_named(listed["dtype"].get<std::string>()), listed["shape"]};
      checkpoint_tensor& tensor = index.tensors.try_emplace(name, from).first->second;
      if (tensor.extents != from.extents || tensor.type != from.type)
        throw error("two tensors \"" + name + "\"", "one of each name", "rename one of them");
      if (!listed.contains("piece") || !seen[name].insert(listed["piece"].dump()).second) continue;
      checkpoint_piece piece = piece_of(listed["piece"]);
      piece.file = file;
      tensor.pieces.push_back(std::move(piece));
    }
  }
  for (auto const& [name, tensor] : index.tensors)
    if (const std::string fault = fault_of(tensor); !fault.empty())
      throw error("tensor \"" + name + "\" is held as " + fault, "parts that are equal or apart", "mend its entries");
  return index;
}

/// The piece of an entry that is in this file, or null.
inline checkpoint_piece const* piece_in(checkpoint_index const& index, std::string const& file,
                                        checkpoint_entry const& entry) {
  for (checkpoint_piece const& piece : index.tensors.at(entry.name).pieces)
    if (piece.file == file) return &piece;
  return nullptr;
}

/// Writes this rank's file.
inline void write_pieces(std::filesystem::path const& folder, std::string const& file, checkpoint_index const& index,
                         std::vector<checkpoint_entry> const& entries) {
  std::vector<safetensors_tensor> tensors;
  for (checkpoint_entry const& e : entries)
    if (auto const* piece = piece_in(index, file, e)) tensors.push_back({e.name, e.type, file_extents(piece->part)});
  safetensors_writer out(folder / file, tensors, {{"id", index.id}, {"format", "pt"}});
  std::vector<std::byte> bytes;
  for (checkpoint_entry const& e : entries) {
    auto const* piece = piece_in(index, file, e);
    if (piece == nullptr) continue;
    bytes.resize(static_cast<std::size_t>(piece->part.size()) * bytes_of(e.type));
    copy_shared(e.part, e.data, piece->part, bytes.data(), bytes_of(e.type));
    out.append(bytes);
  }
  out.finish();
}

/// Whether a checkpoint is whole.
inline bool is_whole(std::filesystem::path const& folder) {
  try {
    check_checkpoint(folder);
    return true;
  } catch (error const&) {
    return false;
  }
}

/// What checkpoints that are the best of a run say in their state (train/validation.hpp).
inline constexpr char const* best_key = "best";

/// Throws where a folder holds a whole checkpoint of this step or a later one, which would hide one that is saved now;
/// but for those that a new best one replaces, where it is one.
inline void require_no_later(std::filesystem::path const& directory, index_t step, bool best = false) {
  for (auto const& [other, path] : checkpoints_in(directory)) {
    if (other < step || !is_whole(path)) continue;
    if (best && read_index(path).state.contains(best_key)) continue;
    throw error(directory.string() + " holds a checkpoint of step " + std::to_string(other) + " already, and step " +
                    std::to_string(step) + " is to be saved there",
                "a folder without checkpoints of this step or later ones",
                "resume from it (tessera::resume before tessera::checkpoint_every), or name another folder");
  }
}

/// The folder of a checkpoint that is about to be written.
inline void prepare_directory(std::filesystem::path const& directory, index_t step, std::filesystem::path const& aside,
                              bool best) {
  require_no_later(directory, step, best);
  std::error_code fault;
  std::filesystem::create_directories(directory, fault);
  if (fault) file_fault("create the folder", directory, fault.value());
  // What a program left unfinished.
  std::vector<std::filesystem::path> stale;
  for (auto const& entry : std::filesystem::directory_iterator(directory)) {
    auto const& path = entry.path();
    if (path.extension() == ".tmp" && is_checkpoint_name(path.stem().string()) && entry.is_directory())
      stale.push_back(path);
  }
  for (auto const& path : stale) std::filesystem::remove_all(path);
  file_step(aside);
  std::filesystem::create_directory(aside, fault);
  if (fault) file_fault("create the folder", aside, fault.value());
}

/// Removes checkpoints before the `keep` newest whole ones.
inline void prune_checkpoints(std::filesystem::path const& directory, index_t keep) {
  auto found = checkpoints_in(directory);
  index_t whole = 0;
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    if (whole >= keep) {
      file_step(at->second);
      std::filesystem::remove_all(at->second);
      continue;
    }
    if (is_whole(at->second)) ++whole;  // others are passed over by whoever looks for the newest one
  }
}

/// Gives a finished folder its name. A whole checkpoint of the same step gets a longer name first, under which it is
/// found too and counts as older: at no time is there none.
inline void name_checkpoint(std::filesystem::path const& aside, std::filesystem::path const& done) {
  if (is_whole(done)) {
    const auto older = done.parent_path() / ("step-0" + done.filename().string().substr(5));
    std::filesystem::remove_all(older);
    rename_durably(done, older);
  } else if (std::filesystem::is_directory(done)) {
    std::filesystem::remove_all(done);
  }
  rename_durably(aside, done);
}

/// Writes a checkpoint; collective over `comm`. Each rank writes a file of its own into a folder aside; rank 0 then
/// adds the index and gives the folder its name. Whoever looks finds the checkpoint whole or not at all. One whose
/// state says that it is the best takes the place of all others.
template <communicator Comm>
void write_checkpoint(Comm& comm, std::filesystem::path const& directory, index_t step, index_t keep,
                      std::vector<checkpoint_entry> const& entries, nlohmann::json const& state) {
  const bool best = state.contains(best_key);
  if (keep < 1) throw error("keep of " + std::to_string(keep), "1 or more checkpoints", "mend the option");
  const auto done = directory / checkpoint_name(step);
  auto aside = done;
  aside += ".tmp";
  std::int64_t id = 0;
  together(comm, [&] {
    if (comm.rank() != 0) return;
    prepare_directory(directory, step, aside, best);
    id = std::chrono::system_clock::now().time_since_epoch().count();
  });
  comm.broadcast(&id, 1, 0);
  const auto lists = gather_texts(comm, list_parts(entries));
  checkpoint_index index;
  together(comm, [&] {
    index = join_parts(std::to_string(id), state, lists);
    write_pieces(aside, rank_file(comm.rank()), index, entries);
  });
  together(comm, [&] {
    if (comm.rank() != 0) return;
    const std::string text = to_json(index).dump();
    durable_file file(aside / "index.json");
    file.append(std::as_bytes(std::span(text)));
    file.finish();
    sync_folder(aside);
    check_checkpoint(aside);  // finds ranks that see another folder under this name
    name_checkpoint(aside, done);
    if (!best) return prune_checkpoints(directory, keep);
    for (auto const& [other, path] : checkpoints_in(directory)) {
      if (path == done) continue;
      file_step(path);
      std::filesystem::remove_all(path);
    }
  });
}

/// A file that is read in ascending order, a window at a time.
class window_reader {
 public:
  window_reader(safetensors_file const& file, safetensors_tensor const& tensor) : file_(file), tensor_(tensor) {}

  /// Bytes of the tensor, valid until the next call.
  std::byte const* read(std::uint64_t first, std::size_t bytes) {
    if (first < begin_ || first + bytes > begin_ + window_.size()) {
      // Whole blocks, which have a checksum.
      begin_ = first / block * block;
      const std::uint64_t end = (first + bytes + block - 1) / block * block;
      window_.resize(static_cast<std::size_t>(std::min(end, tensor_.bytes()) - begin_));
      file_.read(tensor_, begin_, window_);
    }
    return window_.data() + (first - begin_);
  }

 private:
  static constexpr std::uint64_t block = block_checksums::block_bytes;

  safetensors_file const& file_;
  safetensors_tensor const& tensor_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> window_{};
};

/// Calls `f(bytes, place in the entry's part, distance, count)` for runs of elements that a piece in a file holds of an
/// entry; returns how many these are.
template <class F>
index_t read_piece(safetensors_file const& file, checkpoint_piece const& piece, checkpoint_entry const& entry, F f) {
  const std::size_t bytes = bytes_of(entry.type);
  window_reader window(file, file.at(entry.name));
  constexpr index_t most = 1 << 20;  // elements at once
  index_t done = 0;
  for_each_shared_run(piece.part, entry.part, [&](index_t read, index_t write, index_t distance, index_t count) {
    for (index_t first = 0; first < count; first += most) {
      const index_t some = std::min(most, count - first);
      f(window.read(static_cast<std::uint64_t>(read + first) * bytes, static_cast<std::size_t>(some) * bytes),
        write + first * distance, distance, some);
    }
    done += count;
  });
  return done;
}

/// A list for an error: the first few of these.
inline std::string listed(std::vector<std::string> const& all) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) text += (i > 0 ? ", " : "") + all[i];
  if (all.size() > most) text += " and " + std::to_string(all.size() - most) + " more";
  return text;
}

/// Throws where tensors that a model wants are not as they should be in what was saved at `from`.
inline void check_wanted(std::filesystem::path const& from, checkpoint_index const& index,
                         std::vector<checkpoint_entry> const& entries) {
  std::vector<std::string> faults;
  for (checkpoint_entry const& e : entries) {
    const auto found = index.tensors.find(e.name);
    const auto kind = [](auto const& t) { return to_string(t.extents) + " " + std::string(name_of(t.type)); };
    if (found == index.tensors.end())
      faults.push_back("no tensor \"" + e.name + "\"");
    else if (found->second.extents != e.extents || found->second.type != e.type)
      faults.push_back("tensor \"" + e.name + "\" of " + kind(found->second) + ", not " + kind(e));
  }
  if (!faults.empty())
    throw error(from.string() + " has " + listed(faults), "the tensors of the model",
                "give what was saved of this model");
}

/// Reads entries from the files of a folder; collective over `comm`. Each rank reads the bytes that it needs; nothing
/// is changed before all that is needed was looked at, once more where it has checksums. Tensors that no rank asks for
/// are an error, but for those whose names begin with `but` where it is not empty. `from` names it all in errors.
template <communicator Comm>
void read_tensors(Comm& comm, std::filesystem::path const& from, std::filesystem::path const& folder,
                  checkpoint_index const& index, std::vector<checkpoint_entry> const& entries,
                  std::string_view but = {}) {
  // What of which file this rank reads.
  std::map<std::string, std::vector<std::pair<checkpoint_entry const*, checkpoint_piece const*>>> plan;
  together(comm, [&] {
    check_wanted(from, index, entries);
    for (checkpoint_entry const& e : entries)
      for (checkpoint_piece const& piece : index.tensors.at(e.name).pieces) {
        bool shared = false;
        for_each_shared_run(piece.part, e.part, [&](index_t, index_t, index_t, index_t) { shared = true; });
        if (shared) plan[piece.file].emplace_back(&e, &piece);
      }
    for (auto const& [file, reads] : plan) {
      std::vector<std::string> names;
      for (auto const& [e, piece] : reads) names.push_back(e->name);
      const safetensors_file opened = open_piece(folder, index, file, names);
      if (!opened.has_checksums()) continue;
      for (auto const& [e, piece] : reads)
        read_piece(opened, *piece, *e, [](std::byte const*, index_t, index_t, index_t) {});
    }
  });
  std::vector<std::int32_t> asked(index.tensors.size());
  for (checkpoint_entry const& e : entries)
    asked[static_cast<std::size_t>(std::distance(index.tensors.begin(), index.tensors.find(e.name)))] = 1;
  comm.all_reduce(asked.data(), static_cast<index_t>(asked.size()), reduction::maximum);
  std::vector<std::string> others;
  std::size_t at = 0;
  for (auto const& [name, tensor] : index.tensors)
    if (asked[at++] == 0 && (but.empty() || !name.starts_with(but))) others.push_back("tensor \"" + name + "\"");
  if (!others.empty())
    throw error(from.string() + " also has " + listed(others), "the tensors of the model and no others",
                "give what was saved of this model");
  together(comm, [&] {
    std::map<checkpoint_entry const*, index_t> done;
    for (auto const& [file, reads] : plan) {
      const safetensors_file opened(folder / file);
      for (auto const& read : reads) {
        checkpoint_entry const& e = *read.first;
        const std::size_t bytes = bytes_of(e.type);
        done[&e] += read_piece(opened, *read.second, e,
                               [&](std::byte const* from, index_t to, index_t distance, index_t count) {
                                 spread(from, static_cast<std::byte*>(e.data) + static_cast<std::size_t>(to) * bytes,
                                        distance, count, bytes);
                               });
      }
    }
    for (checkpoint_entry const& e : entries)
      if (e.part.size() > 0 && done[&e] != e.part.size())
        broken_checkpoint(from, "tensor \"" + e.name + "\" has pieces that overlap");
  });
}

}  // namespace tessera::detail
