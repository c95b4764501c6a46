// Who may look at a pipeline.
#pragma once

#include <memory>
#include <string>

#include "penstock/base/result.h"
#include "penstock/http/router.h"
#include "penstock/serve/access.h"

namespace penstock::watch {

/// Whether plain text may be spoken at the address.
/// \error kInvalidArgument   it is none.
/// \error kPermissionDenied  other machines reach it, and it is not `allowed`.
Status check_exposure(const std::string& address, bool allowed);

/// Lets through who shows a token with the right `admin`, or anybody of this machine where no
/// tokens are asked. A browser shows it as the password of any user. `address` is where the server
/// was told to listen, for http::refuse_page().
http::Gate make_gate(std::shared_ptr<const serve::Access> access, const std::string& address);

/// The token of a header `Authorization`, of the scheme Bearer or Basic; empty: there is none.
std::string token_of(std::string_view authorization);

}  // namespace penstock::watch
