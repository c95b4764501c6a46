// What a synthetic backend is called: all of them are one program under several names.
#pragma once

namespace penstock::synthetic {

extern const char* const kName;

}  // namespace penstock::synthetic
