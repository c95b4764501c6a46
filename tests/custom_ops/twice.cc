// A library of one custom operator for ONNX Runtime, as users bring them: test.penstock::Twice, y =
// 2 x.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace {

struct TwiceKernel {
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context(raw);
    const auto x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    auto y = context.GetOutput(0, info.GetShape());
    const float* from = x.GetTensorData<float>();
    float* to = y.GetTensorMutableData<float>();
    for (std::size_t i = 0; i < info.GetElementCount(); ++i) to[i] = 2 * from[i];
  }
};

struct TwiceOp : Ort::CustomOpBase<TwiceOp, TwiceKernel> {
  void* CreateKernel(const OrtApi& /*api*/, const OrtKernelInfo* /*info*/) const {
    return new TwiceKernel;
  }
  const char* GetName() const { return "Twice"; }
  std::size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(std::size_t /*index*/) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  std::size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(std::size_t /*index*/) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* ORT_API_CALL
RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const TwiceOp op;
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made("test.penstock");
    made.Add(&op);
    return made;
  }();
  return Ort::GetApi().AddCustomOpDomain(options, domain);
}
