// Responder and Stream, by which handlers answer: both pass their calls to the request's Exchange.
#include <utility>

#include "penstock/http/exchange.h"
#include "penstock/http/router.h"

namespace penstock::http {

Stream::Stream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

bool Stream::write(std::string text) {
  return exchange_->append(std::move(text), kMostWaiting);
}

Responder::Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

void Responder::send(Response response) const {
  exchange_->answer(std::move(response), false);
}

Stream Responder::stream(Response response) const {
  exchange_->answer(std::move(response), true);
  return Stream(exchange_);
}

void Responder::on_gone(std::function<void()> gone) const {
  exchange_->on_gone(std::move(gone));
}

}  // namespace penstock::http
