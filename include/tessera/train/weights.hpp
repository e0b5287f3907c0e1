#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/train/checkpoint_files.hpp>
#include <tessera/train/model_entries.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

namespace detail {

/// Sends the parts of all tensors to rank 0, which writes them, whole, one after the other.
template <communicator Comm>
void write_whole(Comm& comm, std::filesystem::path const& path, checkpoint_index const& index,
                 std::vector<checkpoint_entry> const& entries) {
  constexpr int tag = 0;
  const bool first = comm.rank() == 0;
  const std::string own_file = rank_file(comm.rank());
  std::map<std::string, checkpoint_entry const*> own;
  for (checkpoint_entry const& e : entries) own[e.name] = &e;
  std::optional<safetensors_writer> file;
  together(comm, [&] {
    if (!first) return;
    std::vector<safetensors_tensor> tensors;
    for (auto const& [name, t] : index.tensors) tensors.push_back({name, t.type, t.extents});
    file.emplace(path, tensors, std::map<std::string, std::string>{{"format", "pt"}});
  });
  std::vector<std::byte> whole;
  std::vector<std::byte> part;
  std::exception_ptr fault;  // the others go on sending
  for (auto const& [name, t] : index.tensors) {
    const std::size_t bytes = bytes_of(t.type);
    const tensor_part all = whole_part(t.extents);
    if (first) whole.resize(static_cast<std::size_t>(all.size()) * bytes);
    for (checkpoint_piece const& piece : t.pieces) {
      const bool mine = piece.file == own_file;
      if (!mine && !first) continue;
      part.resize(static_cast<std::size_t>(piece.part.size()) * bytes);
      if (mine) copy_shared(own.at(name)->part, own.at(name)->data, piece.part, part.data(), bytes);
      auto* data = reinterpret_cast<std::uint8_t*>(part.data());
      const auto count = static_cast<index_t>(part.size());
      if (mine && !first) comm.start_send(data, count, 0, tag).wait();
      if (!mine && first) comm.start_receive(data, count, rank_of_file(piece.file), tag).wait();
      if (first) copy_shared(piece.part, part.data(), all, whole.data(), bytes);
    }
    if (!first || fault) continue;
    try {
      file->append(whole);
    } catch (error const&) {
      fault = std::current_exception();
    }
  }
  together(comm, [&] {
    if (fault) std::rethrow_exception(fault);
    if (first) file->finish();
  });
}

}  // namespace detail

/// Writes the parameters and states of a model to one safetensors file, each whole, in row-major order and under its
/// name in the model: what PyTorch's `safetensors.torch.load_file` reads.
///
/// Collective: parts are sent to rank 0, which holds one tensor at a time and writes the file aside, then renames it.
/// Throws on all ranks where it cannot.
template <class Network>
void export_weights(Network const& model, std::filesystem::path const& path) {
  auto& comm = detail::host_group(model.where(), Network::mesh::all);
  auto entries = detail::model_entries(model);
  entries.read();
  const auto index = detail::join_parts({}, {}, detail::gather_texts(comm, detail::list_parts(entries.list())));
  auto aside = path;
  aside += ".tmp";
  detail::write_whole(comm, aside, index, entries.list());
  detail::together(comm, [&] {
    if (comm.rank() == 0) detail::rename_durably(aside, path);
  });
}

/// Reads the parameters and states of a model from a safetensors file of whole tensors that has them under their names,
/// whoever wrote it. Collective; each rank reads the bytes of its own blocks.
///
/// Throws on all ranks, before anything is changed, where the file is broken, lacks a tensor, has others, or others
/// extents or elements, and names these.
template <class Network>
void import_weights(Network& model, std::filesystem::path const& path) {
  auto& comm = detail::host_group(model.where(), Network::mesh::all);
  detail::checkpoint_index index;
  detail::together(comm, [&] {
    const safetensors_file file(path);
    for (safetensors_tensor const& t : file.tensors())
      index.tensors[t.name] = {t.type, t.extents, {{path.filename().string(), detail::whole_part(t.extents)}}};
  });
  auto entries = detail::model_entries(model);
  detail::read_tensors(comm, path, path.parent_path(), index, entries.list());
  entries.write();
  model.parameters_changed();
}

}  // namespace tessera
