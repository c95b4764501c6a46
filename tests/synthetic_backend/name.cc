#include "tests/synthetic_backend/name.h"

namespace penstock::synthetic {

const char* const kName = SYNTHETIC_NAME;

}  // namespace penstock::synthetic
