# Whether GPUs are supported: DRAFTSMITH_CUDA, on by default where the CUDA toolkit is found. The runtime is linked
# statically and the driver not at all, so the one program also runs on machines without a GPU. cuBLASLt (540 MB; the
# toolkit may hold no static one) is loaded when the first GPU prepares a product.
find_package(CUDAToolkit 13.0 QUIET)
option(DRAFTSMITH_CUDA "support CUDA devices (needs the CUDA toolkit, 13.0 or newer)" ${CUDAToolkit_FOUND})
if(NOT DRAFTSMITH_CUDA)
  message(STATUS "CUDA devices: not supported (DRAFTSMITH_CUDA=OFF; CUDA toolkit ${CUDAToolkit_VERSION})")
  return()
endif()
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "DRAFTSMITH_CUDA=ON needs the CUDA toolkit, 13.0 or newer; none was found. "
          "Install it, name its folder with -DCUDAToolkit_ROOT, or use -DDRAFTSMITH_CUDA=OFF")
endif()

# CMake before 3.26 does not know that nvcc has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
set(CMAKE_CUDA_ARCHITECTURES OFF)  # DRAFTSMITH_CUDA_TARGETS says it, also where CMake does not know a target
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)

set(DRAFTSMITH_CUDA_TARGETS "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a;arch=compute_90,code=compute_90"
    CACHE STRING "nvcc -gencode values: Ampere and Ada, Hopper with its own instructions, PTX for what comes later")
message(STATUS "CUDA devices: supported (CUDA toolkit ${CUDAToolkit_VERSION})")

add_library(draftsmith_cuda INTERFACE)
target_link_libraries(draftsmith_cuda INTERFACE CUDA::cudart_static)
target_compile_definitions(draftsmith_cuda INTERFACE
  DRAFTSMITH_CUDA_LIBRARY_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
foreach(target ${DRAFTSMITH_CUDA_TARGETS})
  target_compile_options(draftsmith_cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode ${target}>")
endforeach()
# The exchange among several GPUs needs NCCL's header; its library is loaded like cuBLASLt, when it is first needed.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE_DIR)
  target_include_directories(draftsmith_cuda SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
else()
  message(STATUS "several drafters on GPUs: not supported (nccl.h was not found)")
  set(DRAFTSMITH_WITHOUT_CUDA fabric)  # floors that take cuda_absent.cpp all the same
endif()
# 554: a view of const elements never converts to itself, which is as meant.
target_compile_options(draftsmith_cuda INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -diag-suppress=554>)
