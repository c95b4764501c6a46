#include "tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "held.h"
#include "penstock/graph/containers.h"
#include "penstock/tensor/reshaping.h"
#include "text.h"

namespace penstock::python {
namespace {

/// A dtype in numpy: as itself, or as the unsigned integers that its bits are.
struct Form {
  DType dtype;
  const char* numpy;
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
  bool native;  ///< numpy has it; else ml_dtypes.
};

using enum nb::dlpack::dtype_code;

constexpr std::array kForms{
    Form{DType::kF32, "float32", Float, 32, true},
    Form{DType::kF64, "float64", Float, 64, true},
    Form{DType::kF16, "float16", Float, 16, true},
    Form{DType::kU8, "uint8", UInt, 8, true},
    Form{DType::kI8, "int8", Int, 8, true},
    Form{DType::kU16, "uint16", UInt, 16, true},
    Form{DType::kI16, "int16", Int, 16, true},
    Form{DType::kU32, "uint32", UInt, 32, true},
    Form{DType::kI32, "int32", Int, 32, true},
    Form{DType::kU64, "uint64", UInt, 64, true},
    Form{DType::kI64, "int64", Int, 64, true},
    Form{DType::kBool, "bool", Bool, 8, true},
    Form{DType::kC64, "complex64", Complex, 64, true},
    Form{DType::kC128, "complex128", Complex, 128, true},
    Form{DType::kBF16, "bfloat16", UInt, 16, false},
    Form{DType::kF8E4M3FN, "float8_e4m3fn", UInt, 8, false},
    Form{DType::kF8E4M3FNUZ, "float8_e4m3fnuz", UInt, 8, false},
    Form{DType::kF8E5M2, "float8_e5m2", UInt, 8, false},
    Form{DType::kF8E5M2FNUZ, "float8_e5m2fnuz", UInt, 8, false},
    Form{DType::kF8E8M0, "float8_e8m0fnu", UInt, 8, false},
};

const Form* form_of(DType dtype) {
  const auto* found = std::ranges::find(kForms, dtype, &Form::dtype);
  return found == kForms.end() ? nullptr : found;
}

std::string name_of_type(nb::handle value) {
  return text_of(nb::handle(value.type()).attr("__name__"));
}

/// The dtype of a native buffer's format, as the struct module spells it.
DType dtype_of(const char* format, Py_ssize_t itemsize) {
  if (format == nullptr) return DType::kU8;
  std::string_view text(format);
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  const auto sized = [&](DType one, DType two, DType four, DType eight) {
    switch (itemsize) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return DType::kUndefined;
    }
  };
  if (text == "Zf") return DType::kC64;
  if (text == "Zd") return DType::kC128;
  if (text == "?") return DType::kBool;
  if (text.size() != 1) return DType::kUndefined;
  if (std::strchr("efd", text[0]) != nullptr) {
    return sized(DType::kUndefined, DType::kF16, DType::kF32, DType::kF64);
  }
  if (std::strchr("bhilqn", text[0]) != nullptr) {
    return sized(DType::kI8, DType::kI16, DType::kI32, DType::kI64);
  }
  if (std::strchr("BHILQN", text[0]) != nullptr) {
    return sized(DType::kU8, DType::kU16, DType::kU32, DType::kU64);
  }
  return DType::kUndefined;
}

/// The inverse of what is lent by DLPack.
DType dtype_of(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (code == Bfloat && type.bits == 16) return DType::kBF16;
  if (type.lanes != 1) return DType::kUndefined;
  for (const auto& form : kForms) {
    if (form.native && form.code == code && form.bits == type.bits) return form.dtype;
  }
  return DType::kUndefined;
}

/// What to do about a tensor that does not fit, which came from an array of numpy or of another
/// library.
std::string advice(const Type& type, const Tensor& found, bool of_numpy) {
  if (type.dtype != found.dtype()) {
    if (is_unprepared_picture(type, found)) {
      return "; penstock.io.prepare(image, pipeline.get_inputs()[0]) makes a picture fit";
    }
    const std::string name = numpy_name(type.dtype);
    if (name.empty()) return "";
    return of_numpy ? "; convert it with .astype('" + name + "')"
                    : "; convert it to " + name + ", as torch does with .to(torch." + name + ")";
  }
  if (!type.ranked || !type.fixed()) return "";
  std::vector<std::int64_t> wanted;
  std::size_t count = 1;
  for (const auto& dim : type.dims) {
    wanted.push_back(dim.size);
    count *= static_cast<std::size_t>(dim.size);
  }
  if (count != found.count())
    return "; resize it, or declare another shape where the pipeline is made";
  return "; " + reshaping(wanted, found.dims());
}

/// What makes an array of what is none.
std::string making_an_array(nb::handle value, const Type& type) {
  const std::string dtype = numpy_name(type.dtype);
  if (nb::hasattr(value, "getbands")) {  // Of Pillow.
    return "; penstock.io.prepare(x, pipeline.get_inputs()[0]) makes one of a picture";
  }
  if (dtype.empty()) return "";
  const bool path = PyUnicode_Check(value.ptr()) != 0 || nb::hasattr(value, "__fspath__");
  if (path && dtype != "object") {
    if (type.dtype == DType::kU8 && type.ranked && type.dims.size() == 1) {
      return "; numpy.fromfile(x, 'uint8') reads the bytes of a file";
    }
    return "; penstock.io.read_image(x) reads a picture, numpy.load(x) a file of numpy's";
  }
  return "; numpy.asarray(x, '" + dtype + "') makes one";
}

Result<Tensor> matching(Tensor tensor, const plan::TensorInfo& input, bool of_numpy = true) {
  if (Status fits = check_matches(input.type, tensor); !fits) {
    return std::move(fits).error().adding(advice(input.type, tensor, of_numpy));
  }
  return tensor;
}

Result<Tensor> from_buffer(std::unique_ptr<Held> held, std::optional<DType> as,
                           const plan::TensorInfo& input) {
  const Py_buffer& buffer = held->buffer;
  const auto rank = static_cast<std::size_t>(buffer.ndim);
  if (PyBuffer_IsContiguous(&buffer, 'C') == 0) {
    return invalid_argument("expected a C-contiguous array, found shape ",
                            in_brackets(std::span(buffer.shape, rank)), " with strides ",
                            in_brackets(std::span(buffer.strides, rank)),
                            " in bytes; pass numpy.ascontiguousarray() of it");
  }
  const DType dtype = as ? *as : dtype_of(buffer.format, buffer.itemsize);
  if (dtype == DType::kUndefined) {
    return invalid_argument("expected ", to_string(input.type), ", found elements of format '",
                            buffer.format, "', which no tensor has",
                            buffer.format[0] == '>' ? " (big-endian)" : "",
                            "; convert it with .astype('", numpy_name(input.type.dtype), "')");
  }
  std::vector<std::int64_t> dims(buffer.shape, buffer.shape + buffer.ndim);
  void* data = buffer.buf;
  return matching(Tensor::view(dtype, std::move(dims), data, share(std::move(held))), input);
}

/// Whether the object's memory is the CPU's, by the DLPack protocol.
Status check_device(nb::handle value) {
  const nb::object device = value.attr("__dlpack_device__")();
  const auto part = [&](int index) { return nb::cast<int>(nb::int_(nb::object(device[index]))); };
  const int kind = part(0), number = part(1);
  constexpr int kCpu = 1, kCuda = 2, kCudaHost = 3;
  if (kind == kCpu || kind == kCudaHost) return {};
  return invalid_argument(
      "expected an array in the CPU's memory, found one on ",
      kind == kCuda ? "cuda:" : concat("a device of DLPack's kind ", kind, ", number "), number,
      "; move it with .cpu()");
}

Result<Tensor> from_dlpack(nb::handle value, const plan::TensorInfo& input) {
  if (nb::hasattr(value, "__dlpack_device__")) {
    PENSTOCK_CHECK_OK(check_device(value));
  }
  auto held = std::make_unique<Held>();
  bool lent = false;
  try {
    lent = nb::try_cast(value, held->array);
  } catch (const std::exception&) {
    lent = false;  // __dlpack__() itself raised.
  }
  if (!lent) {
    PyErr_Clear();
    const std::string dtype = nb::hasattr(value, "dtype") ? text_of(value.attr("dtype")) : "";
    return invalid_argument(
        "expected an array of ", to_string(input.type), ", found ", name_of_type(value),
        " of dtype '", dtype,
        "', which lends no memory by DLPack; convert it, or .detach() a tensor with "
        "gradients");
  }
  const auto& array = held->array;
  std::vector<std::int64_t> dims, strides;
  std::int64_t expected = 1;
  bool contiguous = true;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    contiguous = contiguous && (array.shape(i) == 1 || array.stride(i) == expected);
    expected *= static_cast<std::int64_t>(array.shape(i));
    dims.insert(dims.begin(), static_cast<std::int64_t>(array.shape(i)));
  }
  if (!contiguous && array.size() > 0) {
    return invalid_argument(
        "expected a C-contiguous array, found one with gaps or in another order; "
        "pass .contiguous() of it");
  }
  const DType dtype = dtype_of(array.dtype());
  if (dtype == DType::kUndefined) {
    return invalid_argument("expected ", to_string(input.type), ", found elements of ",
                            static_cast<int>(array.dtype().bits),
                            " bits of a kind that no tensor has");
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): stages only read what a tensor borrows
  void* data = const_cast<void*>(static_cast<const void*>(array.data()));
  return matching(Tensor::view(dtype, std::move(dims), data, share(std::move(held))), input, false);
}

Result<Tensor> strings_from(nb::handle value, const plan::TensorInfo& input) {
  const nb::object array = nb::module_::import_("numpy").attr("asarray")(value, "object");
  auto dims = nb::cast<std::vector<std::int64_t>>(array.attr("shape"));
  std::vector<std::string> values;
  for (const nb::handle item : nb::list(array.attr("ravel")().attr("tolist")())) {
    if (nb::isinstance<nb::bytes>(item)) {
      const auto bytes = nb::borrow<nb::bytes>(item);
      values.emplace_back(bytes.c_str(), bytes.size());
    } else if (nb::isinstance<nb::str>(item)) {
      values.push_back(text_of(item));
    } else {
      return invalid_argument("expected strings, found ", name_of_type(item), " among them");
    }
  }
  return matching(Tensor::strings(std::move(dims), std::move(values)), input);
}

/// A numpy array whose dtype is ml_dtypes', seen as its bits; nothing if it is none.
std::optional<std::pair<nb::object, DType>> bits_of_array(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "view")) return {};
  const auto name = text_of(value.attr("dtype"));
  for (const auto& form : kForms) {
    if (form.native || name != form.numpy) continue;
    return std::pair(nb::object(value.attr("view")(form.bits == 16 ? "uint16" : "uint8")),
                     form.dtype);
  }
  return {};
}

/// A list or a tuple for a sequence; for an optional its value, or None.
Result<Tensor> contained(nb::handle value, const graph::Container& container) {
  using Kind = graph::Container::Kind;
  const plan::TensorInfo inside{.type = container.inside};
  if (container.kind == Kind::kClosed) {
    return make_error(Code::kUnimplemented,
                      "it is a map or a sparse tensor, of which Python gives no values; found ",
                      name_of_type(value),
                      ": begin the network behind the node that reads it, with what that makes as "
                      "the input");
  }
  if (container.kind == Kind::kOptional)
    return value.is_none() ? Result<Tensor>(Tensor()) : from_python(value, inside);
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) {
    return invalid_argument("expected a list of arrays of ", graph::type_text(container.inside),
                            ", found ", name_of_type(value));
  }
  std::vector<Tensor> items;
  for (const nb::handle item : value) {
    auto made = from_python(item, inside);
    if (!made) return std::move(made).error().within(concat("item ", items.size()));
    items.push_back(*std::move(made));
  }
  return Tensor::sequence(std::move(items));
}

nb::object view_of(const Tensor& tensor, const Form& form, nb::handle owner) {
  const auto& dims = tensor.dims();
  std::array<std::size_t, 32> shape{};
  if (dims.size() > shape.size()) return {};
  std::ranges::transform(dims, shape.begin(),
                         [](std::int64_t dim) { return static_cast<std::size_t>(dim); });
  const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(form.code), form.bits, 1};
  static char nothing = 0;  // numpy wants an address for no elements too.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the caller's own result, to write too
  void* data = tensor.bytes() > 0 ? const_cast<void*>(tensor.data()) : &nothing;
  const nb::ndarray<nb::numpy> array(data, dims.size(), shape.data(), owner, nullptr, dtype);
  return nb::cast(array);
}

Result<nb::object> numbers_to_python(const Tensor& tensor, nb::handle owner,
                                     const std::string& name) {
  const Form* form = form_of(tensor.dtype());
  nb::object array = form == nullptr ? nb::object() : view_of(tensor, *form, owner);
  if (form == nullptr || !array.is_valid()) {
    return make_error(Code::kUnimplemented, "numpy has no arrays of ", to_string(tensor.type()),
                      "; let the model cast it")
        .within({Where::kOutput, name});
  }
  if (form->native) return array;
  try {
    return nb::object(array.attr("view")(nb::module_::import_("ml_dtypes").attr(form->numpy)));
  } catch (const nb::python_error&) {
    return make_error(Code::kUnimplemented, "output '", name, "' is ", to_string(tensor.type()),
                      ", which numpy has by the package ml_dtypes only; pip install ml_dtypes");
  }
}

nb::object strings_to_python(const Tensor& tensor) {
  nb::list values;
  for (const auto& text : tensor.strings()) {
    values.append(nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                                 "surrogateescape")));
  }
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object array = numpy.attr("empty")(nb::cast(tensor.count()), "object");
  array.attr("__setitem__")(nb::slice(nb::none(), nb::none(), nb::none()), values);
  nb::list dims;
  for (const auto dim : tensor.dims()) dims.append(dim);
  return array.attr("reshape")(nb::tuple(dims));
}

}  // namespace

std::string numpy_name(DType dtype) {
  if (dtype == DType::kString) return "object";
  const Form* form = form_of(dtype);
  return form == nullptr ? "" : form->numpy;
}

bool has_mask(nb::handle value) {
  // Held for ever: numpy is not unloaded.
  static const PyObject* const plain =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return value.type().ptr() != plain && nb::hasattr(value, "mask") && nb::hasattr(value, "filled");
}

Result<Tensor> from_python(nb::handle value, const plan::TensorInfo& input) {
  if (const auto container = graph::container_of(input.type)) return contained(value, *container);
  if (has_mask(value)) {
    return invalid_argument("expected an array without a mask, found a ", name_of_type(value),
                            ", whose mask would be lost; pass .filled(value) of it");
  }
  if (input.type.dtype == DType::kString) return strings_from(value, input);
  if (PyObject_CheckBuffer(value.ptr()) != 0) {
    auto held = std::make_unique<Held>();
    if (PyObject_GetBuffer(value.ptr(), &held->buffer, PyBUF_RECORDS_RO) == 0) {
      return from_buffer(std::move(held), {}, input);
    }
    PyErr_Clear();  // numpy lends no buffers of dtypes that are not its own.
    if (auto bits = bits_of_array(value)) {
      if (PyObject_GetBuffer(bits->first.ptr(), &held->buffer, PyBUF_RECORDS_RO) == 0) {
        return from_buffer(std::move(held), bits->second, input);
      }
      PyErr_Clear();
    }
  }
  if (nb::hasattr(value, "__dlpack__")) return from_dlpack(value, input);
  return invalid_argument("expected an array (numpy, DLPack or a buffer) of ",
                          to_string(input.type), ", found ", name_of_type(value),
                          making_an_array(value, input.type));
}

Result<nb::object> to_python(const Tensor& tensor, nb::handle owner, const std::string& name) {
  switch (tensor.kind()) {
    case Tensor::Kind::kNone:
      return nb::object(nb::none());
    case Tensor::Kind::kDense:
      return numbers_to_python(tensor, owner, name);
    case Tensor::Kind::kStrings:
      return strings_to_python(tensor);
    case Tensor::Kind::kSequence: {
      nb::list elements;
      for (const auto& element : tensor.elements()) {
        PENSTOCK_TRY(nb::object item, to_python(element, owner, name));
        elements.append(item);
      }
      return nb::object(elements);
    }
    case Tensor::Kind::kOpaque:
      break;
  }
  return make_error(Code::kUnimplemented,
                    "a map or sparse tensor has no form in numpy; let the model convert it")
      .within({Where::kOutput, name});
}

nb::object make_owner(std::shared_ptr<const void> value) {
  using Holder = std::shared_ptr<const void>;
  auto held = std::make_unique<Holder>(std::move(value));
  nb::capsule owner(held.get(), [](void* holder) noexcept { delete static_cast<Holder*>(holder); });
  static_cast<void>(held.release());
  return owner;
}

}  // namespace penstock::python
