// What numpy has no door to in the OpenBLAS that it brings: its threads (they spin while they wait, so that two of them on one core
// take ten times the time of one) and LAPACK's QR of floats (numpy's own goes through doubles). The library is found among those
// that are loaded, under the names that its builds have.
#include "openblas.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace {

int note(dl_phdr_info* info, size_t, void* found) {
    if (info->dlpi_name && strstr(info->dlpi_name, "openblas")) ((std::vector<std::string>*)found)->push_back(info->dlpi_name);
    return 0;
}

void* symbol(void* library, const char* name, std::initializer_list<const char*> endings) {
    for (const char* before : {"scipy_", ""})
        for (const char* after : endings)
            if (void* found = dlsym(library, (std::string(before) + name + after).c_str())) return found;
    return nullptr;
}

template <class F> void each(const char* name, std::initializer_list<const char*> endings, F f) {
    std::vector<std::string> libraries;
    dl_iterate_phdr(note, &libraries);
    for (const std::string& path : libraries)
        if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
            if (void* found = symbol(library, name, endings)) f(found);
            dlclose(library);
        }
}

// Fortran's functions of whole numbers of 64 bits: the first OpenBLAS that has them
typedef void Geqrf(const long* m, const long* n, float* a, const long* lda, float* tau, float* work, const long* room, long* info);
typedef void Orgqr(
    const long* m, const long* n, const long* k, float* a, const long* lda, const float* tau, float* work, const long* room, long* info
);
template <class F> F* fortran(const char* name) {
    F* first = nullptr;
    each(name, {"_64_"}, [&](void* found) { first = first ? first : (F*)found; });
    return first;
}

} // namespace

bool blas_qr(long m, long n, float* a, float* r) {
    static Geqrf* const geqrf = fortran<Geqrf>("sgeqrf");
    static Orgqr* const orgqr = fortran<Orgqr>("sorgqr");
    if (!geqrf || !orgqr) return false;
    const long k = m < n ? m : n, room = 64 * n;
    std::vector<float> tau(k), work(room);
    long info = 0;
    geqrf(&m, &n, a, &m, tau.data(), work.data(), &room, &info);
    if (info) return false;
    for (long row = 0; row < k; row++)
        for (long column = 0; column < n; column++) r[row * n + column] = column < row ? 0.f : a[column * m + row];
    orgqr(&m, &k, &k, a, &m, tau.data(), work.data(), &room, &info);
    return !info;
}

void blas_set_threads(int count) {
    each("openblas_set_num_threads", {"64_", ""}, [&](void* set) { ((void (*)(int))set)(count); });
}

int blas_threads() {
    int most = 0;
    each("openblas_get_num_threads", {"64_", ""}, [&](void* get) {
        int count = ((int (*)())get)();
        most = count > most ? count : most;
    });
    return most;
}
