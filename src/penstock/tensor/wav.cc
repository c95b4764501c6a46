// Walks the chunks of a RIFF file and converts PCM and float samples to f32 as they are read.
#include "penstock/tensor/wav.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "penstock/base/ending.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kChunkHeader = 8;  ///< Four letters and a size.
constexpr std::uint32_t kUnknownSize = 0xFFFFFFFF;
enum Coding : std::uint16_t { kPcm = 1, kFloat = 3, kExtensible = 0xFFFE };

std::uint64_t little_endian(std::span<const unsigned char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | bytes[i];
  return value;
}

struct Chunk {
  std::string name;
  std::uint64_t start = 0, size = 0;  ///< Of its content, in bytes.
};

struct SoundFormat {
  std::uint16_t coding = 0;
  int channels = 0, bits = 0;
  std::uint32_t rate = 0;
};

Error damaged_wav(std::string_view what) {
  return make_error(Code::kDataLoss, what, "; expected a WAV file: save it again as one");
}

std::vector<unsigned char> read_bytes(std::ifstream& in, std::uint64_t start, std::uint64_t size) {
  std::vector<unsigned char> bytes(size);
  in.clear();
  in.seekg(static_cast<std::streamoff>(start));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return bytes;
}

std::string letters(std::span<const unsigned char> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The chunk at `start`; nothing where the file ends.
std::optional<Chunk> chunk_at(std::ifstream& in, std::uint64_t start) {
  const auto head = read_bytes(in, start, kChunkHeader);
  if (head.size() < kChunkHeader) return std::nullopt;
  const std::span bytes(head);
  return Chunk{letters(bytes.first(4)), start + kChunkHeader, little_endian(bytes.subspan(4))};
}

Result<SoundFormat> format_of(std::span<const unsigned char> bytes) {
  if (bytes.size() < 16) return damaged_wav("is truncated in its format");
  SoundFormat format{static_cast<std::uint16_t>(little_endian(bytes.subspan(0, 2))),
                     static_cast<int>(little_endian(bytes.subspan(2, 2))),
                     static_cast<int>(little_endian(bytes.subspan(14, 2))),
                     static_cast<std::uint32_t>(little_endian(bytes.subspan(4, 4)))};
  if (format.coding == kExtensible && bytes.size() >= 26) {  // A GUID that begins with the coding.
    format.coding = static_cast<std::uint16_t>(little_endian(bytes.subspan(24, 2)));
  }
  const bool pcm =
      format.coding == kPcm && format.bits % 8 == 0 && format.bits >= 8 && format.bits <= 32;
  const bool floats = format.coding == kFloat && (format.bits == 32 || format.bits == 64);
  if (!pcm && !floats) {
    return invalid_argument("holds samples of ", format.bits, " bits in coding ", format.coding,
                            ": expected PCM (1) of 8, 16, 24 or 32 bits or floats (3) of 32 or 64; "
                            "convert it with 'ffmpeg -i FILE -c:a pcm_s16le NEW.wav'");
  }
  if (format.channels < 1) return damaged_wav("has no channels");
  return format;
}

float to_sample(std::span<const unsigned char> bytes, bool is_float) {
  const auto bits = little_endian(bytes);
  if (is_float && bytes.size() == 4) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (is_float) return static_cast<float>(std::bit_cast<double>(bits));
  if (bytes.size() == 1) return (static_cast<float>(bits) - 128) / 128;  // The only unsigned one.
  const auto unused = 8 * (4 - bytes.size());
  const auto wide = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits << unused));
  return static_cast<float>(wide) / 2147483648.0F;
}

}  // namespace

Result<WavFile> WavFile::read_header(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return not_found("no such file");
  if (!fs::is_regular_file(file, error))
    return invalid_argument("expected a WAV file: check the path");
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(Code::kPermissionDenied, "cannot be read");
  const std::uint64_t size = fs::file_size(file, error);
  const auto head = read_bytes(in, 0, 12);
  if (head.size() < 12 || letters(std::span(head).first(4)) != "RIFF" ||
      letters(std::span(head).subspan(8)) != "WAVE") {
    return damaged_wav("does not begin as a WAV file");
  }
  WavFile wav;
  wav.file_ = file;
  std::optional<SoundFormat> format;
  for (std::uint64_t at = head.size();;) {
    const auto chunk = chunk_at(in, at);
    if (!chunk) return damaged_wav(format ? "has no samples" : "has no format");
    if (chunk->name == "fmt ") {
      constexpr std::uint64_t kLongest = 40;
      PENSTOCK_TRY(format,
                   format_of(read_bytes(in, chunk->start, std::min(chunk->size, kLongest))));
    }
    at = chunk->start + chunk->size + chunk->size % 2;  // Chunks begin at even places.
    if (chunk->name != "data") continue;
    if (!format) return damaged_wav("has samples before their format");
    const auto found = size - std::min(size, chunk->start);
    const bool streamed = chunk->size == kUnknownSize;  // By a program that could not go back.
    if (!streamed && chunk->size > found) {
      return make_error(Code::kDataLoss, "is truncated: expected ", chunk->size,
                        " bytes of samples, found ", found);
    }
    wav.channels_ = format->channels;
    wav.rate_ = format->rate;
    wav.sample_bytes_ = format->bits / 8;
    wav.is_float_ = format->coding == kFloat;
    wav.start_ = chunk->start;
    wav.length_ = (streamed ? found : chunk->size) /
                  static_cast<std::uint64_t>(wav.sample_bytes_ * wav.channels_);
    return wav;
  }
}

Result<WavFile> WavFile::open(const fs::path& file) {
  auto wav = read_header(file);
  if (!wav) return std::move(wav).error().within({Where::kSound, file.string()});
  return wav;
}

Result<std::vector<float>> WavFile::read(std::uint64_t first, std::uint64_t count) const {
  const auto channels = static_cast<std::uint64_t>(channels_);
  const auto width = static_cast<std::uint64_t>(sample_bytes_);
  const auto there = first < length_ ? std::min(count, length_ - first) : 0;
  try {
    std::vector<float> samples(count * channels, 0.0F);
    std::ifstream in(file_, std::ios::binary);
    const auto bytes = read_bytes(in, start_ + first * channels * width, there * channels * width);
    if (bytes.size() != there * channels * width) {
      return make_error(Code::kDataLoss, "ends while it is read")
          .within({Where::kSound, file_.string()});
    }
    for (std::uint64_t i = 0; i < there * channels; ++i) {
      samples[i] = to_sample(std::span(bytes).subspan(i * width, width), is_float_);
    }
    return samples;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "needs more memory than there is")
        .within({Where::kSound, file_.string()});
  }
}

bool has_wav_suffix(const fs::path& file) {
  return ending_of(file) == ".wav";
}

}  // namespace penstock
