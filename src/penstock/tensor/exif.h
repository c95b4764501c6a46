// EXIF: how a camera was held.
#pragma once

#include <span>

namespace penstock {

/// The tag "orientation" of a JPEG or PNG file, 1 to 8; 1, as it stands, where there is none or it
/// is bad. Source: CIPA DC-008 (Exif 2.32), 4.6.4 A and 4.7.2; PNG, 3rd edition, 11.3.4.5 (eXIf).
int exif_orientation(std::span<const unsigned char> file);

}  // namespace penstock
