// Products of bfloat16 on tile registers (AMX): 32 rows by 32 columns of sums in four tiles, 32 elements of k a step.
//
// Panels of pairs are what tiles of B look like in memory, so they are shared with gemm_bf16dot.h; K is filled up to whole
// steps with zeros. The shape of the tiles is set by a thread before its first product and for blocks of fewer rows.
// FB_TILES_EMULATED spells the instructions in C++, for machines without them. Included by gemm.h.
#ifndef FB_TILES_H
#define FB_TILES_H

enum { TILE_ROWS = 16, TILE_STEPS = 16 }; // rows of a tile; pairs in a row

struct TileShapes { // as the processor reads it
    u8 palette, start_row, reserved[14];
    u16 row_bytes[16];
    u8 rows[16];
};
enum { SUM_00, SUM_01, SUM_10, SUM_11, LEFT_0, LEFT_1, RIGHT_0, RIGHT_1, TILES };

#ifdef FB_TILES_EMULATED
struct EmulatedTiles {
    TileShapes shapes;
    u32 data[TILES][16][16];
};
static thread_local EmulatedTiles emulated;
static void tile_shapes(const TileShapes* shapes) {
    emulated = {};
    emulated.shapes = *shapes;
}
static void tile_release() { emulated = {}; }
template <int t> static void tile_zero() { __builtin_memset(emulated.data[t], 0, sizeof emulated.data[t]); }
template <int t> static void tile_load(const void* from, long stride) {
    __builtin_memset(emulated.data[t], 0, sizeof emulated.data[t]);
    for (int r = 0; r < emulated.shapes.rows[t]; r++)
        __builtin_memcpy(emulated.data[t][r], (const char*)from + r * stride, emulated.shapes.row_bytes[t]);
}
template <int t> static void tile_store(void* to, long stride) {
    for (int r = 0; r < emulated.shapes.rows[t]; r++)
        __builtin_memcpy((char*)to + r * stride, emulated.data[t][r], emulated.shapes.row_bytes[t]);
}
template <int sum, int left, int right> static void tile_multiply() {
    if (!emulated.shapes.rows[sum] || !emulated.shapes.rows[left]) __builtin_trap(); // as the processor would
    for (int m = 0; m < emulated.shapes.rows[sum]; m++)
        for (int k = 0; k < emulated.shapes.row_bytes[left] / 4; k++)
            for (int n = 0; n < emulated.shapes.row_bytes[sum] / 4; n++) {
                u32 a = emulated.data[left][m][k], b = emulated.data[right][k][n];
                float c = __builtin_bit_cast(float, emulated.data[sum][m][n]);
                c += __builtin_bit_cast(float, a << 16) * __builtin_bit_cast(float, b << 16);
                c += __builtin_bit_cast(float, a & 0xffff0000u) * __builtin_bit_cast(float, b & 0xffff0000u);
                emulated.data[sum][m][n] = __builtin_bit_cast(u32, c);
            }
}
#else
FB_INLINE void tile_shapes(const TileShapes* shapes) { __asm__ volatile("ldtilecfg %0" ::"m"(*shapes)); }
FB_INLINE void tile_release() { __asm__ volatile("tilerelease"); }
template <int t> FB_INLINE void tile_zero() { __asm__ volatile("tilezero %%tmm%c0" ::"i"(t)); }
template <int t> FB_INLINE void tile_load(const void* from, long stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
}
template <int t> FB_INLINE void tile_store(void* to, long stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
}
template <int sum, int left, int right> FB_INLINE void tile_multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right));
}
#endif

// tiles for blocks of so many rows
inline void shape_tiles(int rows) {
    int first = rows < TILE_ROWS ? rows : TILE_ROWS, second = rows - first;
    TileShapes s = {};
    s.palette = 1;
    for (int t = 0; t < TILES; t++) {
        s.rows[t] = t == RIGHT_0 || t == RIGHT_1 ? TILE_ROWS : t == SUM_10 || t == SUM_11 || t == LEFT_1 ? second : first;
        s.row_bytes[t] = s.rows[t] ? 64 : 0;
    }
    tile_shapes(&s);
}
// c[rows, 32] (+)= a * panel over `steps` pairs, whole steps of tiles; rows of a are a_bytes apart, of c ldc floats
template <bool both> inline void multiply_tiles(
    long steps, const Pair* a, long a_bytes, const Pair* panel, float* c, long ldc, bool add) {
    const char* lower = (const char*)a + TILE_ROWS * a_bytes;
    long c_bytes = ldc * 4, row = 2 * TILE_STEPS * sizeof(Pair);
    float* below = c + TILE_ROWS * ldc;
    if (add) {
        tile_load<SUM_00>(c, c_bytes), tile_load<SUM_01>(c + 16, c_bytes);
        if (both) tile_load<SUM_10>(below, c_bytes), tile_load<SUM_11>(below + 16, c_bytes);
    } else {
        tile_zero<SUM_00>(), tile_zero<SUM_01>();
        if (both) tile_zero<SUM_10>(), tile_zero<SUM_11>();
    }
    for (long k = 0; k < steps; k += TILE_STEPS) {
        tile_load<RIGHT_0>(panel + k * 32, row), tile_load<RIGHT_1>(panel + k * 32 + 16, row);
        tile_load<LEFT_0>(a + k, a_bytes);
        tile_multiply<SUM_00, LEFT_0, RIGHT_0>(), tile_multiply<SUM_01, LEFT_0, RIGHT_1>();
        if (both) {
            tile_load<LEFT_1>(lower + k * sizeof(Pair), a_bytes);
            tile_multiply<SUM_10, LEFT_1, RIGHT_0>(), tile_multiply<SUM_11, LEFT_1, RIGHT_1>();
        }
    }
    tile_store<SUM_00>(c, c_bytes), tile_store<SUM_01>(c + 16, c_bytes);
    if (both) tile_store<SUM_10>(below, c_bytes), tile_store<SUM_11>(below + 16, c_bytes);
}
// The block's tiles are those of MR rows, which threads have set; other blocks set their own.
inline void micro_tiles(
    int rows, long steps, const Pair* a, long a_bytes, const Pair* panel, float* c, long ldc, bool add) {
    if (rows < 32) shape_tiles(rows);
    if (rows > TILE_ROWS) multiply_tiles<true>(steps, a, a_bytes, panel, c, ldc, add);
    else multiply_tiles<false>(steps, a, a_bytes, panel, c, ldc, add);
    if (rows < 32) shape_tiles(32);
}
// Rows [0, rows) of a as rows of `steps` pairs with zeros beyond K.
inline void pack_rows(const bf16* from, long along, long across, Pair* to, long rows, long steps, long K) {
    for (long r = 0; r < rows; r++) {
        bf16* row = (bf16*)(to + r * steps);
        const bf16* line = from + r * across;
        if (along == 1) __builtin_memcpy(row, line, K * sizeof(bf16));
        else
            for (long k = 0; k < K; k++) row[k] = line[k * along];
        __builtin_memset(row + K, 0, (2 * steps - K) * sizeof(bf16));
    }
}

#endif
