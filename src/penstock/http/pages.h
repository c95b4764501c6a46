// Requests that a page of a stranger makes the browser of somebody on this machine send.
#pragma once

#include <optional>

#include "penstock/http/message.h"

namespace penstock::http {

/// The answer, 403, to what such a page may have sent; empty: it is no such request.
///
/// Refused is whatever may change something (all but GET and HEAD) with an `Origin` other than the
/// server that it asks, as browsers name the page's. Programs send none. And, `at_home`, a request
/// for a host by a name that is not this machine's own ("localhost", 127.0.0.1, [::1]): a page asks
/// so whose own name was made to lead here. That is for a server that listens on loopback, and asks
/// nobody who they are.
std::optional<Response> refuse_page(const Request& request, bool at_home);

}  // namespace penstock::http
