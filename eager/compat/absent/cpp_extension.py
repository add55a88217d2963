"""torch.utils.cpp_extension: extensions written against PyTorch's C++ headers cannot be built here."""

from .. import missing

_ADVICE = "there are no C++ headers of PyTorch here; torch.library.custom_op takes Python functions, and ctypes any library"
CUDA_HOME = ROCM_HOME = None
globals().update(
    missing.functions(
        "torch.utils.cpp_extension",
        "CppExtension CUDAExtension SyclExtension load load_inline include_paths library_paths "
        "get_default_build_root check_compiler_ok_for_platform get_compiler_abi_compatibility_and_version "
        "verify_ninja_availability "
        "get_cxx_compiler check_compiler_is_gcc",
        _ADVICE,
    )
)
globals().update(missing.kinds("torch.utils.cpp_extension", "BuildExtension", _ADVICE))


def is_ninja_available():
    return False
