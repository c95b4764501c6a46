// gzip and deflate, as Content-Encoding and Accept-Encoding name them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/http/message.h"

namespace penstock::http {

/// Whether `encoding` is "gzip", "x-gzip" or "deflate", in whichever letters.
bool is_packing(std::string_view encoding);

/// Unpacks gzip or zlib, whichever it is; never makes more than `most_bytes`.
/// \error kInvalidArgument    not such data, or truncated.
/// \error kResourceExhausted  more than `most_bytes` would come out.
Result<std::string> unpack(std::string_view packed, std::size_t most_bytes);

/// Packs the body of the response, where the client's Accept-Encoding is "gzip" or "deflate" and
/// nothing else, and says so in a header. Libraries offer a list unasked, and to pack tensors takes
/// longer than to send them.
void pack(Response& response, std::string_view accepted);

}  // namespace penstock::http
