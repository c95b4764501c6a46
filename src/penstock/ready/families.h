// Each family of ready-made functions declares its own.
#pragma once

#include <vector>

#include "penstock/ready/ready.h"

namespace penstock::ready {

std::vector<Declaration> decode_functions();
std::vector<Declaration> resize_functions();
std::vector<Declaration> letterbox_functions();
std::vector<Declaration> crop_functions();
std::vector<Declaration> normalise_functions();
std::vector<Declaration> reshape_functions();
std::vector<Declaration> convert_functions();
std::vector<Declaration> colour_functions();
std::vector<Declaration> draw_functions();
std::vector<Declaration> place_points_functions();
std::vector<Declaration> softmax_functions();
std::vector<Declaration> top_k_functions();
std::vector<Declaration> nms_functions();
std::vector<Declaration> window_functions();
std::vector<Declaration> resample_functions();
std::vector<Declaration> mel_functions();

}  // namespace penstock::ready
