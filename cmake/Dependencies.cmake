# Every third-party library, in one place. All of them are Debian packages: tools/install_packages.sh.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # the thread pool of oneDNN and of the CPU kernels
find_package(dnnl REQUIRED)                   # libdnnl-dev: CPU GEMM
find_package(fmt REQUIRED)                    # libfmt-dev
find_package(nlohmann_json REQUIRED)          # nlohmann-json3-dev
find_package(yaml-cpp REQUIRED)               # libyaml-cpp-dev: run.yaml with line numbers
find_package(CLI11 REQUIRED)                  # libcli11-dev
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)   # libpcre2-dev: pre-tokenizer patterns
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)  # libutf8proc-dev: NFC
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)       # libisal-dev: CRC32C
find_package(GTest REQUIRED)                  # libgtest-dev, libgmock-dev
