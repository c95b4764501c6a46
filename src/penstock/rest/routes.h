// The paths of the protocol over HTTP, and what answers each.
#pragma once

#include "penstock/http/router.h"
#include "penstock/serve/access.h"
#include "penstock/serve/server.h"
#include "penstock/serve/worker.h"

namespace penstock::rest {

/// \pre  all three outlive the router
http::Router make_routes(serve::Server& server, const serve::Access& access, serve::Worker& worker);

}  // namespace penstock::rest
