// Calls zlib in steps: unpacking ends at a bound of bytes, packing joins the pieces of a body.
#include "penstock/http/unpack.h"

#include <algorithm>
#include <memory>

#include <zlib.h>

namespace penstock::http {
namespace {

constexpr int kGzip = 16;         // Added to the window's bits: gzip's frame instead of zlib's.
constexpr int kEitherFrame = 32;  // Added likewise: the data say which.
constexpr std::size_t kStep = 1U << 18U;

Bytef* bytes_of(const char* text) {
  // zlib's input is not const, and it does not write there.
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text));  // NOLINT(*-const-cast)
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};
struct EndDeflate {
  void operator()(z_stream* stream) const { deflateEnd(stream); }
};

/// All pieces as one, packed. Empty where zlib refuses.
std::string packed(const std::vector<Piece>& body, bool gzip) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + (gzip ? kGzip : 0), 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  const std::unique_ptr<z_stream, EndDeflate> ended(&stream);
  std::string out;
  const auto feed = [&](std::span<const std::byte> bytes, int flush) {
    stream.next_in = bytes_of(reinterpret_cast<const char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    do {
      const std::size_t done = out.size();
      out.resize(done + kStep);
      stream.next_out = bytes_of(out.data() + done);
      stream.avail_out = static_cast<uInt>(kStep);
      deflate(&stream, flush);
      out.resize(out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  for (const auto& piece : body) {
    for (auto rest = piece.content(); !rest.empty();) {
      const auto step = rest.first(std::min(rest.size(), kStep));
      feed(step, Z_NO_FLUSH);
      rest = rest.subspan(step.size());
    }
  }
  feed({}, Z_FINISH);
  return out;
}

}  // namespace

bool is_packing(std::string_view encoding) {
  return same_name(encoding, "gzip") || same_name(encoding, "x-gzip") ||
         same_name(encoding, "deflate");
}

Result<std::string> unpack(std::string_view packed, std::size_t most_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kEitherFrame) != Z_OK) {
    return make_error(Code::kResourceExhausted, "no memory to unpack the body");
  }
  const std::unique_ptr<z_stream, EndInflate> ended(&stream);
  std::string out;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const auto step = packed.substr(0, kStep);
      stream.next_in = bytes_of(step.data());
      stream.avail_in = static_cast<uInt>(step.size());
      packed.remove_prefix(step.size());
    }
    const std::size_t done = out.size();
    // One byte more than may be tells too much from just enough.
    out.resize(std::min(done + kStep, most_bytes + 1));
    stream.next_out = bytes_of(out.data() + done);
    stream.avail_out = static_cast<uInt>(out.size() - done);
    state = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (out.size() > most_bytes) {
      return make_error(Code::kResourceExhausted, "the body unpacks to more than ", most_bytes,
                        " bytes; send less at once");
    }
    if (state == Z_BUF_ERROR && stream.avail_in == 0 && packed.empty()) {
      return invalid_argument("the packed body ends too early");
    }
    if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) {
      return invalid_argument("the body is not gzip or deflate, as its Content-Encoding says");
    }
  }
  if (stream.avail_in != 0 || !packed.empty()) {
    return invalid_argument("bytes follow the end of the packed body");
  }
  return out;
}

void pack(Response& response, std::string_view accepted) {
  const bool gzip = same_name(accepted, "gzip");
  if (!gzip && !same_name(accepted, "deflate")) return;
  auto text = packed(response.body, gzip);
  if (text.empty()) return;
  auto owner = response.body.front().owner;
  response.body.clear();
  response.body.push_back({.text = std::move(text), .owner = std::move(owner)});
  response.headers.push_back({"Content-Encoding", gzip ? "gzip" : "deflate"});
}

}  // namespace penstock::http
