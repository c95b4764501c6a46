// One run of the importer over untrusted bytes: what the fuzzer and the seeded test both call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "penstock/graph/import.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"

namespace penstock::fuzz {

/// Imports the bytes clean or as they are (by the first byte's parity); what is accepted must also
/// list, hash and write. Nothing may crash, hang, or take memory out of proportion.
inline void import_once(std::string_view bytes) {
  graph::ImportOptions options;
  options.as_is = !bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 1U) != 0;
  const auto imported = graph::import_onnx_bytes(bytes, {}, options);
  if (!imported) return;
  const auto whole = graph::Subgraph::whole(*imported);
  static_cast<void>(graph::to_text(*imported));
  static_cast<void>(graph::canonical_hash(whole));
  static_cast<void>(graph::to_onnx_bytes(whole));
}

}  // namespace penstock::fuzz
