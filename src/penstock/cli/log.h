// Messages on stderr beside the command's output.
#pragma once

namespace penstock::cli {

/// Warnings always; what is done with 1, in detail with 2 or more.
void set_up_log(int verbosity);

}  // namespace penstock::cli
