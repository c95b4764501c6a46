// The paths of the protocol over HTTP, and what answers each.
#pragma once

#include <functional>

#include "penstock/http/router.h"
#include "penstock/metrics/families.h"
#include "penstock/serve/access.h"
#include "penstock/serve/server.h"
#include "penstock/serve/worker.h"

namespace penstock::rest {

/// `figures` adds to those of /metrics. Empty: nothing. `at_home`: for http::refuse_page(), which
/// looks at all but health, and at no request that shows a token where tokens are asked.
/// \pre  the first three, and what `figures` uses, outlive the router
http::Router make_routes(serve::Server& server, const serve::Access& access, serve::Worker& worker,
                         std::function<void(metrics::Families&)> figures, bool at_home);

}  // namespace penstock::rest
