#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/core/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

namespace detail {

inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// The events of one rank, each followed by a comma and a new line; times in microseconds from `origin`.
inline std::string trace_events(std::vector<trace_span> const& spans, int rank, std::int64_t origin) {
  const auto time = [](std::int64_t nanoseconds) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanoseconds) / 1000);
    return std::string(text);
  };
  const std::string process = std::to_string(rank);
  const auto head = [&](trace_span const& s, char const* kind, std::int64_t when) {
    return "{\"name\":" + json_text(s.name) + ",\"cat\":\"" + to_string(s.kind) + "\",\"ph\":\"" + kind +
           "\",\"pid\":" + process + ",\"tid\":0,\"ts\":" + time(when - origin);
  };
  std::string text = "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" + process +
                     ",\"tid\":0,\"args\":{\"name\":\"rank " + process + "\"}},\n";
  int number = 0;
  for (trace_span const& s : spans) {
    if (!s.beside) {
      text += head(s, "X", s.begin) + ",\"dur\":" + time(s.end - s.begin) + "},\n";
      continue;
    }
    const std::string id = ",\"id2\":{\"local\":\"" + std::to_string(number++) + "\"}},\n";
    text += head(s, "b", s.begin) + id;
    text += head(s, "e", s.end) + id;
  }
  return text;
}

/// A time of this rank that is that of the others: they leave a barrier. On several hosts clocks differ by what the
/// barrier takes.
template <context Context>
std::int64_t common_origin(Context& where) {
  detail::host_group(where, Context::mesh::all).barrier();
  return tracer::now();
}

}  // namespace detail

/// Writes the spans of all ranks to `path` on rank 0, in the trace format of Chrome (JSON), which Perfetto opens: a
/// process a rank, reductions of buckets as asynchronous events, which run beside the others. `origin` is this rank's
/// time 0.
///
/// Collective over the mesh: two all_gathers. Throws on all ranks where rank 0 cannot write the file.
template <context Context>
void write_trace(Context& where, tracer const& spans, std::string const& path, std::int64_t origin) {
  using mesh = typename Context::mesh;
  auto& all = detail::host_group(where, mesh::all);
  const int rank = mesh::group_rank(mesh::all, where.coordinates());
  const std::string own = detail::trace_events(spans.spans(), rank, origin);
  const std::vector<index_t> ones(static_cast<std::size_t>(mesh::devices), 1);
  std::vector<index_t> sizes(ones.size());
  const auto size = static_cast<index_t>(own.size());
  all.all_gather(&size, sizes.data(), ones);
  index_t total = 0;
  for (const index_t s : sizes) total += s;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(total));
  const std::vector<std::uint8_t> sent(own.begin(), own.end());
  all.all_gather(sent.data(), bytes.data(), sizes);
  std::uint8_t good = 1;
  if (rank == 0) {
    std::string text(bytes.begin(), bytes.end());
    text.erase(text.rfind(','));
    std::ofstream file(path);
    file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" << text << "\n]}\n";
    file.close();
    good = file ? 1 : 0;
  }
  all.broadcast(&good, 1, 0);
  if (good == 0)
    throw error("no trace at " + path, "a file that can be written", "name a path in a folder that is there");
}

}  // namespace tessera
