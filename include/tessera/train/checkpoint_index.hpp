#pragma once

#include <tessera/data/safetensors.hpp>
#include <tessera/train/checkpoint_entry.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

/// A part of a tensor in one of the files of a checkpoint.
struct checkpoint_piece {
  std::string file;
  tensor_part part{};
};

/// A tensor in the index of a checkpoint.
struct checkpoint_tensor {
  safetensors_type type = safetensors_type::f32;
  std::vector<index_t> extents{};
  std::vector<checkpoint_piece> pieces{};
};

/// What `index.json` says: where each tensor lies, and how far training was.
struct checkpoint_index {
  /// The same in all files that were saved together; empty: they say nothing.
  std::string id;
  nlohmann::json state;
  std::map<std::string, checkpoint_tensor> tensors{};
};

inline constexpr std::string_view checkpoint_format = "tessera checkpoint 1";

/// The text of an error without the library's name, to be quoted in another.
inline std::string quoted(std::exception const& fault) {
  const std::string text = fault.what();
  return text.starts_with("tessera: ") ? text.substr(9) : text;
}

[[noreturn]] inline void broken_checkpoint(std::filesystem::path const& folder, std::string const& how) {
  throw error("the checkpoint " + folder.string() + " is broken: " + how, "a whole checkpoint of Tessera",
              "load another one (tessera::newest_checkpoint finds the newest whole one)");
}

inline nlohmann::json to_json(checkpoint_piece const& piece) {
  nlohmann::json begin = nlohmann::json::array();
  nlohmann::json shape = nlohmann::json::array();
  for (interval const& side : piece.part.box) {
    begin.push_back(side.begin);
    shape.push_back(side.size);
  }
  nlohmann::json json{{"file", piece.file}, {"begin", begin}, {"shape", shape}};
  if (piece.part.range) json["range"] = {piece.part.range->begin, piece.part.range->size};
  if (!piece.part.order.empty()) json["order"] = piece.part.order;
  return json;
}

inline checkpoint_piece piece_of(nlohmann::json const& json) {
  checkpoint_piece piece{json.at("file").get<std::string>()};
  const auto begin = json.at("begin").get<std::vector<index_t>>();
  const auto shape = json.at("shape").get<std::vector<index_t>>();
  for (std::size_t d = 0; d < begin.size(); ++d) piece.part.box.push_back({begin[d], shape.at(d)});
  if (json.contains("range")) piece.part.range = interval{json["range"].at(0), json["range"].at(1)};
  if (json.contains("order")) piece.part.order = json["order"].get<std::vector<int>>();
  return piece;
}

/// Says what is wrong with the pieces of a tensor, empty where nothing is.
inline std::string fault_of(checkpoint_tensor const& tensor) {
  index_t size = 1;
  for (const index_t extent : tensor.extents) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) return "extents that make no sense";
  }
  index_t there = 0;
  for (checkpoint_piece const& piece : tensor.pieces) {
    tensor_part const& part = piece.part;
    if (piece.file.find('/') != std::string::npos) return "a piece in another folder";
    if (part.box.size() != tensor.extents.size()) return "a piece of another rank";
    for (std::size_t d = 0; d < part.box.size(); ++d)
      if (part.box[d].begin < 0 || part.box[d].size < 0 || part.box[d].end() > tensor.extents[d])
        return "a piece beyond its extents";
    auto order = part.order;
    std::sort(order.begin(), order.end());
    for (std::size_t d = 0; d < order.size(); ++d)
      if (order.size() != part.box.size() || order[d] != static_cast<int>(d)) return "a piece in no order";
    if (part.range && (part.range->begin < 0 || part.range->size < 0 || part.range->end() > part.box_size()))
      return "a range beyond its box";
    there += part.size();
  }
  if (there != size)
    return "pieces of " + std::to_string(there) + " elements, not " + std::to_string(size) + " together";
  return {};
}

inline nlohmann::json to_json(checkpoint_index const& index) {
  nlohmann::json tensors = nlohmann::json::object();
  for (auto const& [name, tensor] : index.tensors) {
    nlohmann::json pieces = nlohmann::json::array();
    for (checkpoint_piece const& piece : tensor.pieces) pieces.push_back(to_json(piece));
    tensors[name] = {{"dtype", name_of(tensor.type)}, {"shape", tensor.extents}, {"pieces", std::move(pieces)}};
  }
  return {{"format", checkpoint_format}, {"id", index.id}, {"state", index.state}, {"tensors", std::move(tensors)}};
}

inline checkpoint_index read_index(std::filesystem::path const& folder) {
  const auto path = folder / "index.json";
  std::ifstream in(path, std::ios::binary);
  if (!in) broken_checkpoint(folder, "it has no index.json that can be read");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != checkpoint_format)
    broken_checkpoint(folder, "its index.json does not say \"format\": \"" + std::string(checkpoint_format) + "\"");
  std::string within = "index.json";
  checkpoint_index index;
  try {
    index.id = json.at("id").get<std::string>();
    index.state = json.at("state");
    for (auto const& [name, value] : json.at("tensors").items()) {
      within = "tensor \"" + name + "\" in index.json";
      checkpoint_tensor& tensor = index.tensors[name];
      const auto type = safetensors_type_named(value.at("dtype").get<std::string>());
      if (!type) broken_checkpoint(folder, "tensor \"" + name + "\" has an unknown dtype");
      tensor.type = *type;
      tensor.extents = value.at("shape").get<std::vector<index_t>>();
      for (auto const& piece : value.at("pieces")) tensor.pieces.push_back(piece_of(piece));
      if (const std::string fault = fault_of(tensor); !fault.empty())
        broken_checkpoint(folder, "tensor \"" + name + "\" has " + fault);
    }
  } catch (nlohmann::json::exception const& fault) {
    broken_checkpoint(folder, within + " (" + fault.what() + ")");
  } catch (std::out_of_range const& fault) {
    broken_checkpoint(folder, within + " (" + fault.what() + ")");
  }
  return index;
}

/// Opens a file of a checkpoint and compares its tensors with those that the index wants of it.
inline safetensors_file open_piece(std::filesystem::path const& folder, checkpoint_index const& index,
                                   std::string const& file, std::vector<std::string> const& names) {
  const std::string first = names.empty() ? "" : "tensor \"" + names.front() + "\": ";
  std::optional<safetensors_file> opened;
  try {
    opened.emplace(folder / file);
  } catch (error const& fault) {
    broken_checkpoint(folder, first + quoted(fault));
  }
  const auto id = opened->metadata().find("id");
  if (!index.id.empty() && (id == opened->metadata().end() || id->second != index.id))
    broken_checkpoint(folder, first + file + " was not saved together with index.json");
  for (std::string const& name : names) {
    checkpoint_tensor const& wanted = index.tensors.at(name);
    auto const* found = opened->find(name);
    for (checkpoint_piece const& piece : wanted.pieces)
      if (piece.file == file &&
          (found == nullptr || found->type != wanted.type || found->extents != file_extents(piece.part)))
        broken_checkpoint(folder,
                          "tensor \"" + name + "\": " + file + " holds " +
                              (found == nullptr ? "none of this name"
                                                : to_string(found->extents) + " " + std::string(name_of(found->type))) +
                              ", not " + to_string(file_extents(piece.part)) + " " + std::string(name_of(wanted.type)));
  }
  return std::move(*opened);
}

/// The names of the tensors that lie in each file.
inline std::map<std::string, std::vector<std::string>> names_by_file(checkpoint_index const& index) {
  std::map<std::string, std::vector<std::string>> names;
  for (auto const& [name, tensor] : index.tensors)
    for (checkpoint_piece const& piece : tensor.pieces) names[piece.file].push_back(name);
  return names;
}

/// Throws where a checkpoint is not whole.
inline void check_checkpoint(std::filesystem::path const& folder) {
  const checkpoint_index index = read_index(folder);
  for (auto const& [file, names] : names_by_file(index)) open_piece(folder, index, file, names);
}

inline std::string checkpoint_name(index_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%08lld", static_cast<long long>(step));
  return text;
}

/// The finished checkpoints of a folder, whole or not, oldest first.
inline std::vector<std::pair<index_t, std::filesystem::path>> checkpoints_in(std::filesystem::path const& directory) {
  std::vector<std::pair<index_t, std::filesystem::path>> found;
  std::error_code none;
  for (auto const& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || name.size() < 13 || name.size() > 23 ||
        name.find_first_not_of("0123456789", 5) != std::string::npos)
      continue;
    found.emplace_back(std::stoll(name.substr(5)), entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace detail

/// The newest whole checkpoint in a folder: unfinished and broken ones are passed over. None where the folder holds no
/// checkpoints, or is not there.
///
/// Throws where there are checkpoints but none is whole, and says what is wrong with the newest. Not collective:
/// call it on one rank, or on all while nobody saves.
inline std::optional<std::filesystem::path> newest_checkpoint(std::filesystem::path const& directory) {
  auto found = detail::checkpoints_in(directory);
  std::optional<error> fault;
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    try {
      detail::check_checkpoint(at->second);
      return at->second;
    } catch (error const& broken) {
      if (!fault) fault = broken;
    }
  }
  if (fault) throw *fault;
  return std::nullopt;
}

}  // namespace tessera
