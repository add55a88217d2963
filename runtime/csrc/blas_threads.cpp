// The threads of the OpenBLAS that numpy brings: they spin while they wait, so that two of them on one core take ten times the time of
// one. There is no door to them in numpy; the library is found among those that are loaded, under the names that its builds have.
#include "blas_threads.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <string>
#include <vector>

namespace {

int note(dl_phdr_info* info, size_t, void* found) {
    if (info->dlpi_name && strstr(info->dlpi_name, "openblas")) ((std::vector<std::string>*)found)->push_back(info->dlpi_name);
    return 0;
}

void* symbol(void* library, const char* name) {
    for (const char* before : {"scipy_", ""})
        for (const char* after : {"64_", ""})
            if (void* found = dlsym(library, (std::string(before) + name + after).c_str())) return found;
    return nullptr;
}

template <class F> void each(const char* name, F f) {
    std::vector<std::string> libraries;
    dl_iterate_phdr(note, &libraries);
    for (const std::string& path : libraries)
        if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
            if (void* found = symbol(library, name)) f(found);
            dlclose(library);
        }
}

} // namespace

void blas_set_threads(int count) {
    each("openblas_set_num_threads", [&](void* set) { ((void (*)(int))set)(count); });
}

int blas_threads() {
    int most = 0;
    each("openblas_get_num_threads", [&](void* get) {
        int count = ((int (*)())get)();
        most = count > most ? count : most;
    });
    return most;
}
