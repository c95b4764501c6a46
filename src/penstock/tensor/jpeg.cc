// libjpeg-turbo decodes; what it says by jumps becomes a Status here.
#include "penstock/tensor/jpeg.h"

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

namespace penstock {

// It points into itself, and stays where it is made.
struct Jpeg::Decoder {
  jpeg_error_mgr errors{};
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed{};
  std::array<char, JMSG_LENGTH_MAX> said{};
  std::vector<std::uint8_t> row;  // Where the library's pixels are not those that are wanted.

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

namespace {

// A file of a few bytes could ask for as many passes over the whole picture as it likes. No encoder
// writes more than some dozens.
constexpr int kMostPasses = 500;

[[noreturn]] void fail(j_common_ptr info) {
  auto* decoder = static_cast<Jpeg::Decoder*>(info->client_data);
  info->err->format_message(info, decoder->said.data());
  // NOLINTNEXTLINE(cert-err52-cpp,modernize-avoid-setjmp-longjmp): the way that the library has.
  std::longjmp(decoder->failed, 1);
}

/// Whether pixels are as they should be where the library warns so.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM ||
         warning == JWRN_JFIF_MAJOR || warning == JWRN_TOO_MUCH_DATA;
}

void warned(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) fail(info);
}

void passed(j_common_ptr info) {
  const auto* decoder = static_cast<Jpeg::Decoder*>(info->client_data);
  if (decoder->info.input_scan_number <= kMostPasses) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  fail(info);
}

bool has_inks(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

/// Whether the library's own rows are not what is asked for.
bool is_converted(const jpeg_decompress_struct& info, int channels) {
  return has_inks(info) || channels == 2;
}

/// Of which the pixels wanted are made, if they are not that already.
J_COLOR_SPACE space_of(const jpeg_decompress_struct& info, int channels) {
  if (has_inks(info)) return JCS_CMYK;
  if (channels <= 2) return JCS_GRAYSCALE;
  return channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
}

/// One pixel of inks on white. `stored_inverted`: as Adobe's programs write them, 255 being no ink.
void mix(const std::uint8_t* inks, bool stored_inverted, int channels, std::uint8_t* to) {
  constexpr unsigned kFull = 255;
  const auto light = [&](int ink) { return stored_inverted ? inks[ink] : kFull - inks[ink]; };
  std::array<unsigned, 3> colour{};
  for (int i = 0; i < 3; ++i) colour[static_cast<std::size_t>(i)] = light(i) * light(3) / kFull;
  if (channels <= 2) {  // BT.601, as libjpeg makes grey of colours.
    to[0] = static_cast<std::uint8_t>((299 * colour[0] + 587 * colour[1] + 114 * colour[2]) / 1000);
  } else {
    for (std::size_t i = 0; i < 3; ++i) to[i] = static_cast<std::uint8_t>(colour[i]);
  }
  if (channels % 2 == 0) to[channels - 1] = kFull;
}

/// A row as the library gives it, as the pixels wanted.
void convert(const jpeg_decompress_struct& info, const std::vector<std::uint8_t>& row, int channels,
             std::uint8_t* to) {
  const auto inks = static_cast<std::size_t>(info.output_components);
  for (std::size_t x = 0; x < info.output_width; ++x, to += channels) {
    if (has_inks(info)) {
      mix(&row[x * inks], info.saw_Adobe_marker != 0, channels, to);
    } else {
      to[0] = row[x];
      to[1] = 255;
    }
  }
}

Error not_read(const char* said) {
  return make_error(Code::kDataLoss, "cannot be decoded (", said,
                    "): expected a whole JPEG picture of 8 bits a channel; save it again as one");
}

}  // namespace

bool is_jpeg(std::span<const unsigned char> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

Jpeg::Jpeg(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}
Jpeg::Jpeg(Jpeg&&) noexcept = default;
Jpeg& Jpeg::operator=(Jpeg&&) noexcept = default;
Jpeg::~Jpeg() = default;

Result<Jpeg> Jpeg::open(std::span<const unsigned char> bytes) {
  auto made = std::make_unique<Decoder>();
  Decoder& decoder = *made;  // The jump below passes over no destructor.
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = &fail;
  decoder.errors.emit_message = &warned;
  decoder.progress.progress_monitor = &passed;
  // NOLINTNEXTLINE(cert-err52-cpp,modernize-avoid-setjmp-longjmp): as above.
  if (setjmp(decoder.failed) != 0) {
    return not_read(decoder.said.data());
  }
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  return Jpeg(std::move(made));
}

int Jpeg::height() const {
  return static_cast<int>(decoder_->info.image_height);
}

int Jpeg::width() const {
  return static_cast<int>(decoder_->info.image_width);
}

Status Jpeg::read(int channels, std::span<std::uint8_t> to) {
  Decoder& decoder = *decoder_;
  auto& info = decoder.info;
  info.out_color_space = space_of(info, channels);
  if (is_converted(info, channels))
    decoder.row.resize(static_cast<std::size_t>(info.image_width) * 4);
  const auto stride =
      static_cast<std::size_t>(info.image_width) * static_cast<std::size_t>(channels);
  // NOLINTNEXTLINE(cert-err52-cpp,modernize-avoid-setjmp-longjmp): as above.
  if (setjmp(decoder.failed) != 0) {
    return not_read(decoder.said.data());
  }
  jpeg_start_decompress(&info);
  const bool converted = is_converted(info, channels);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* target = &to[info.output_scanline * stride];
    std::uint8_t* row = converted ? decoder.row.data() : target;
    jpeg_read_scanlines(&info, &row, 1);
    if (converted) convert(info, decoder.row, channels, target);
  }
  jpeg_finish_decompress(&info);
  return {};
}

}  // namespace penstock
