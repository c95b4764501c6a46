// EXIF: how a camera was held.
#pragma once

#include <span>

namespace penstock {

/// The tag "orientation" of a JPEG file, 1 to 8; 1, as it stands, where there is none or it is bad.
/// Source: CIPA DC-008 (Exif 2.32), 4.6.4 A and 4.7.2.
int exif_orientation(std::span<const unsigned char> jpeg);

}  // namespace penstock
