# draftsmith_floor(NAME LINKS ...) makes the library of src/NAME from every source below it.
# Sources below a cuda/ folder are built when DRAFTSMITH_CUDA is on; cuda_absent.cpp stands in when it is off, and for
# the floors of DRAFTSMITH_WITHOUT_CUDA.
# Floors, lowest first: base, device, tensor, {kernels, data, fabric, metrics}, model, generate, train, app.
add_library(draftsmith_options INTERFACE)
target_include_directories(draftsmith_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(draftsmith_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers -fno-math-errno>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 takes the concatenation of short strings for an overlapping copy (its bug 105651, fixed in 13).
  target_compile_options(draftsmith_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_link_libraries(draftsmith_options INTERFACE Threads::Threads)
if(DRAFTSMITH_SANITIZE)
  set(CMAKE_CXX_FLAGS_SANITIZED "-O1")  # fast enough to run, and far quicker to compile than -O2
  target_compile_options(draftsmith_options INTERFACE -fsanitize=${DRAFTSMITH_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(draftsmith_options INTERFACE -fsanitize=${DRAFTSMITH_SANITIZE})
endif()
if(DRAFTSMITH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DRAFTSMITH_FUZZ needs clang's libFuzzer, and the compiler is ${CMAKE_CXX_COMPILER_ID}: cmake --preset fuzz")
  endif()
  target_compile_options(draftsmith_options INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined)
endif()

function(draftsmith_floor name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/${name}/cuda/|/main\\.cpp$|_absent\\.cpp$")
  if(DRAFTSMITH_CUDA AND NOT name IN_LIST DRAFTSMITH_WITHOUT_CUDA)
    file(GLOB_RECURSE backend CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/cuda/*.cpp
         ${CMAKE_CURRENT_SOURCE_DIR}/${name}/cuda/*.cu)
  else()
    file(GLOB_RECURSE backend CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/cuda_absent.cpp)
  endif()
  list(APPEND sources ${backend})
  if(DRAFTSMITH_SANITIZE)  # the sanitizers own operator new
    list(FILTER sources EXCLUDE REGEX "/heap\\.cpp$")
    file(GLOB_RECURSE absent CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/heap_absent.cpp)
    list(APPEND sources ${absent})
  endif()
  if(NOT sources)
    add_library(draftsmith_${name} INTERFACE)
    target_link_libraries(draftsmith_${name} INTERFACE draftsmith_options ${ARGN})
    return()
  endif()
  add_library(draftsmith_${name} STATIC ${sources})
  target_link_libraries(draftsmith_${name} PUBLIC draftsmith_options ${ARGN})
  if(DRAFTSMITH_CUDA AND backend)
    target_link_libraries(draftsmith_${name} PUBLIC draftsmith_cuda)
  endif()
endfunction()
