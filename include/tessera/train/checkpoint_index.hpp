#pragma once

#include <tessera/data/checksum.hpp>
#include <tessera/data/json_text.hpp>
#include <tessera/data/safetensors.hpp>
#include <tessera/train/checkpoint_entry.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
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
  /// The same in all files that were saved together; empty: not of files that say so.
  std::string id;
  nlohmann::json state;
  std::map<std::string, checkpoint_tensor> tensors{};
};

inline constexpr std::string_view checkpoint_format = "tessera checkpoint 1";

/// What an index says of the rest of it; those of old checkpoints do not.
inline constexpr char const* index_checksum = "crc32";

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
  const auto begin = whole_numbers(json.at("begin"));
  const auto shape = whole_numbers(json.at("shape"));
  for (std::size_t d = 0; d < begin.size(); ++d) piece.part.box.push_back({begin[d], shape.at(d)});
  if (json.contains("range"))
    piece.part.range = interval{whole_number(json["range"].at(0)), whole_number(json["range"].at(1))};
  if (json.contains("order"))
    for (const index_t d : whole_numbers(json["order"])) {
      if (d >= static_cast<index_t>(begin.size())) throw json_fault("a dimension that is not there in its order");
      piece.part.order.push_back(static_cast<int>(d));
    }
  return piece;
}

/// Whether two pieces hold an element in common. Ranges are told apart within one box in one order: other boxes with
/// ranges have to be apart.
inline bool overlap(tensor_part const& a, tensor_part const& b) {
  if (a.size() == 0 || b.size() == 0) return false;
  if (a.range && b.range && a.box == b.box && a.order == b.order) return intersect(*a.range, *b.range).size > 0;
  for (std::size_t d = 0; d < a.box.size(); ++d)
    if (intersect(a.box[d], b.box[d]).size == 0) return false;
  return true;
}

/// Says what is wrong with the pieces of a tensor, empty where nothing is.
inline std::string fault_of(checkpoint_tensor const& tensor) {
  index_t size = 1;
  index_t strides = 1;  // of any part
  for (const index_t extent : tensor.extents) {
    if (extent < 0 || __builtin_mul_overflow(strides, std::max(extent, index_t{1}), &strides))
      return "extents that make no sense";
    size *= extent;
  }
  index_t there = 0;
  std::set<std::string_view> files;
  for (checkpoint_piece const& piece : tensor.pieces) {
    tensor_part const& part = piece.part;
    if (piece.file.empty() || piece.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      return "a piece in another folder, or in a file without a name";
    if (!files.insert(piece.file).second) return "two pieces in one file";
    if (part.box.size() != tensor.extents.size()) return "a piece of another rank";
    for (std::size_t d = 0; d < part.box.size(); ++d)
      if (part.box[d].begin < 0 || part.box[d].size < 0 || part.box[d].size > tensor.extents[d] - part.box[d].begin)
        return "a piece beyond its extents";
    auto order = part.order;
    std::sort(order.begin(), order.end());
    for (std::size_t d = 0; d < order.size(); ++d)
      if (order.size() != part.box.size() || order[d] != static_cast<int>(d)) return "a piece in no order";
    if (part.range &&
        (part.range->begin < 0 || part.range->size < 0 || part.range->size > part.box_size() - part.range->begin))
      return "a range beyond its box";
    if (__builtin_add_overflow(there, part.size(), &there)) return "more elements than can be counted";
  }
  if (there != size)
    return "pieces of " + std::to_string(there) + " elements, not " + std::to_string(size) + " together";
  for (auto a = tensor.pieces.begin(); a != tensor.pieces.end(); ++a)
    for (auto b = std::next(a); b != tensor.pieces.end(); ++b)
      if (overlap(a->part, b->part)) return "pieces that overlap";
  return {};
}

inline nlohmann::json to_json(checkpoint_index const& index) {
  nlohmann::json tensors = nlohmann::json::object();
  for (auto const& [name, tensor] : index.tensors) {
    nlohmann::json pieces = nlohmann::json::array();
    for (checkpoint_piece const& piece : tensor.pieces) pieces.push_back(to_json(piece));
    tensors[name] = {{"dtype", name_of(tensor.type)}, {"shape", tensor.extents}, {"pieces", std::move(pieces)}};
  }
  nlohmann::json json{
      {"format", checkpoint_format}, {"id", index.id}, {"state", index.state}, {"tensors", std::move(tensors)}};
  json[index_checksum] = checksum_text(checksum(json.dump()));
  return json;
}

inline checkpoint_index read_index(std::filesystem::path const& folder) {
  const auto path = folder / "index.json";
  std::ifstream in(path, std::ios::binary);
  if (!in) broken_checkpoint(folder, "it has no index.json that can be read");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  nlohmann::json json;
  try {
    json = parse_json(text);
  } catch (json_fault const& fault) {
    broken_checkpoint(folder, std::string("its index.json is damaged: ") + fault.what());
  }
  if (!json.is_object() || json.value("format", nlohmann::json()) != checkpoint_format)
    broken_checkpoint(folder, "its index.json does not say \"format\": \"" + std::string(checkpoint_format) + "\"");
  if (const auto sum = json.find(index_checksum); sum != json.end()) {
    const nlohmann::json said = *sum;
    json.erase(sum);
    if (said != checksum_text(checksum(json.dump())))
      broken_checkpoint(folder, "its index.json is damaged: it does not have the checksum that was written with it");
  }
  std::string within = "index.json";
  checkpoint_index index;
  try {
    index.id = json.at("id").get<std::string>();
    if (index.id.empty()) throw json_fault("an id without a letter");
    index.state = json.at("state");
    for (auto const& [name, value] : json.at("tensors").items()) {
      within = "tensor \"" + name + "\" in index.json";
      checkpoint_tensor& tensor = index.tensors[name];
      const auto type = safetensors_type_named(value.at("dtype").get<std::string>());
      if (!type) broken_checkpoint(folder, "tensor \"" + name + "\" has an unknown dtype");
      tensor.type = *type;
      tensor.extents = whole_numbers(value.at("shape"));
      for (auto const& piece : value.at("pieces")) tensor.pieces.push_back(piece_of(piece));
      if (const std::string fault = fault_of(tensor); !fault.empty())
        broken_checkpoint(folder, "tensor \"" + name + "\" has " + fault);
    }
  } catch (nlohmann::json::exception const& fault) {
    broken_checkpoint(folder, within + " (" + fault.what() + ")");
  } catch (json_fault const& fault) {
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

inline bool is_checkpoint_name(std::string_view name) {
  return name.starts_with("step-") && name.size() >= 13 && name.size() <= 23 &&
         name.find_first_not_of("0123456789", 5) == std::string_view::npos;
}

/// The finished checkpoints of a folder, whole or not, oldest first.
inline std::vector<std::pair<index_t, std::filesystem::path>> checkpoints_in(std::filesystem::path const& directory) {
  std::vector<std::pair<index_t, std::filesystem::path>> found;
  std::error_code none;
  for (auto const& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (!is_checkpoint_name(name) || !entry.is_directory(none)) continue;
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
