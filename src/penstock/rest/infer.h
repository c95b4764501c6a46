// Infer over HTTP: from the JSON and the bytes behind it to a Request, and back from a Reply.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/http/message.h"
#include "penstock/serve/model.h"
#include "penstock/serve/request.h"

namespace penstock::rest {

struct InferBody {
  serve::Request request;   ///< Without the model's name and version.
  bool all_binary = false;  ///< Outputs that the request does not list come as bytes.
};

/// Reads a body of `json_bytes` of JSON, and tensors as bytes behind them. What is aligned in the
/// body stays there; the rest is copied.
/// \error kInvalidArgument  not JSON, not such an object, a tensor that is not what it says; names
///                          the input.
Result<InferBody> read_infer(const http::Body& body, std::size_t json_bytes);

/// Reads a body that is the bytes of the model's only input, of one item.
/// \error kInvalidArgument  the model has several inputs, or the bytes do not fill its shape.
Result<InferBody> read_raw_infer(const http::Body& body, const serve::ModelDescription& model);

/// \error kInvalidArgument  an output that JSON cannot hold was not asked for as bytes.
/// \error kResourceExhausted  as ReplyBudget::take(): the reply's charge becomes the bytes that are
///                          sent, and is kept with them.
Result<http::Response> write_reply(const serve::Reply& reply, bool listed, bool all_binary);

}  // namespace penstock::rest
