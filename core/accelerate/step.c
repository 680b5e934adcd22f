/* Kernels for decoding steps, matrix products, top-k log-probabilities and the training loss.

Axes as in decoder.py: B = N sentences × K hypotheses, D d_model, H heads of size E, M tokens in a
sentence's tree, S source tokens, L layers. Numbers are float32 unless stated otherwise. Weights
[in, out] are packed in panels of PANEL columns, the last one padded with zeros:
[out / PANEL, in, PANEL].
*/

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { PANEL = 2 * LANES };
#if defined(__AVX512F__)
enum { ROWS = 14 }; /* fits into the registers: 2 × ROWS sums and 2 weights */
#else
enum { ROWS = 6 };
#endif
enum { GROUP = 42, LARGE_GROUP = 168 }; /* rows per pass over the panels; multiples of ROWS */
enum { LARGE = 1 << 21 }; /* numbers of a matrix that is read from memory at each pass */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    const float *panels, *bias; /* bias may be NULL */
    int64_t in, out;
} Affine;

typedef struct {
    const float *weight, *bias; /* without a bias, the norm is T5's: by the root mean square */
    double eps;
} Norm;

enum { RELU, SILU, GELU, GELU_TANH };
enum { QKV, OUTPUT, CROSS_QUERY, CROSS_OUTPUT, INNER, OUTER, PRODUCTS };

typedef struct {
    Affine products[PRODUCTS];
    Norm norms[3];
    int64_t norm_first, activation, scaled; /* scaled: by 1 / √E, like the paper's scores */
    int64_t gated; /* INNER writes the inner layer, then its gate */
} Layer;

typedef struct { int64_t N, K, H, E; } Size;

int64_t panel(void) { return PANEL; }

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Select a where the mask's bits are 1, else b. */
static inline vec blend(ivec mask, vec a, vec b) {
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* e^x for x ≤ 0 as 2ⁿ·eʳ with |r| ≤ ln(2)/2; 0 for x < −87, close to the subnormal numbers. */
static inline vec exponential(vec x) {
    const ivec nothing = x < -87.0f;
    x = blend(nothing, (vec){0}, x);
    const ivec n = __builtin_convertvector(x * 1.44269504f - 0.5f, ivec);
    const vec count = __builtin_convertvector(n, vec);
    const vec r = (x - count * 0.693359375f) + count * 2.12194440e-4f;
    vec p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return blend(nothing, (vec){0}, p * (vec)((n + 127) << 23));
}

/* Compute one panel's columns of x W + b for `rows` rows, a compile-time constant. */
static inline __attribute__((always_inline)) void block(
    const int rows, const float *x, const float *panel, const float *bias, int64_t in, float *y,
    int64_t columns) {
    vec sum[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < 2; i++)
            sum[r][i] = bias ? *(const vec *)(bias + i * LANES) : (vec){0};
    for (int64_t k = 0; k < in; k++) {
        const vec low = *(const vec *)(panel + k * PANEL);
        const vec high = *(const vec *)(panel + k * PANEL + LANES);
        for (int i = 0; i < PANEL; i += 16) /* makes a search 1.1 times as fast */
            __builtin_prefetch(panel + (k + 16) * PANEL + i);
        for (int r = 0; r < rows; r++) {
            sum[r][0] += low * x[r * in + k];
            sum[r][1] += high * x[r * in + k];
        }
    }
    for (int r = 0; r < rows; r++, y += columns) {
        *(vec *)y = sum[r][0];
        *(vec *)(y + LANES) = sum[r][1];
    }
}

/* Compute y [B, out] = x W + b for x [B, in]. */
static void product_group(const Affine *a, const float *x, int64_t B, float *y) {
    const int64_t in = a->in, out = a->out;
    float last[(ROWS + 1) * PANEL] = {0}; /* output and bias of a partial last panel */
    for (int64_t c = 0; c < out; c += PANEL) {
        const int64_t width = min64(PANEL, out - c);
        const float *panel = a->panels + c * in, *bias = a->bias ? a->bias + c : 0;
        if (bias && width < PANEL) bias = memcpy(last + ROWS * PANEL, bias, width * sizeof *y);
        int64_t blocks = (B + ROWS - 1) / ROWS;
        for (int64_t b = 0, rows; b < B; b += rows, blocks--) {
            rows = (B - b + blocks - 1) / blocks; /* balance the blocks */
            float *place = y + b * out + c, *to = width < PANEL ? last : place;
            const int64_t columns = width < PANEL ? PANEL : out;
            switch (rows) {
#define ROW(n) case n: block(n, x + b * in, panel, bias, in, to, columns); break;
                ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6)
#if defined(__AVX512F__)
                ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12) ROW(13) ROW(14)
#endif
            }
            if (to == last)
                for (int64_t r = 0; r < rows; r++)
                    memcpy(place + r * out, last + r * PANEL, width * sizeof *y);
        }
    }
}

/* Compute y = x W + b in groups of at most GROUP rows, so that all cache lines written for one panel
   fit into the cache: 1.35 times as fast for x [320, 128] and W [128, 8000]. For a large W, fewer
   passes are 1.2 times as fast: x [128, 512] and W [512, 58101]. */
void product(const Affine *a, const float *x, int64_t B, float *y) {
    const int64_t most = a->in * a->out > LARGE ? LARGE_GROUP : GROUP;
    for (int64_t groups = (B + most - 1) / most, b = 0, rows; b < B; b += rows, groups--) {
        rows = (B - b + groups - 1) / groups;
        product_group(a, x + b * a->in, rows, y + b * a->out);
    }
}

/* Return GELU, x · Φ(x), with erf by Abramowitz & Stegun 1964, 7.1.26, whose error is below 1.5e-7. */
static inline vec gelu(vec x) {
    const ivec negative = x < 0;
    const vec z = blend(negative, -x, x) * 0.707106781f, t = 1 / (1 + 0.3275911f * z);
    vec p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const vec tail = 0.5f * p * t * exponential(-z * z); /* Φ(−|x|) */
    return x * blend(negative, tail, 1 - tail);
}

/* Return SiLU, x · sigmoid(x), or the approximate GELU: x/2 · (1 + tanh(y/2)) = x · sigmoid(y), with
   y/2 = √(2/π) (x + 0.044715 x³). e^−|y| cannot overflow. */
static inline vec smooth(int64_t activation, vec x) {
    if (activation == GELU) return gelu(x);
    vec y = x;
    if (activation == GELU_TANH) y *= 1.59576912f + 0.0713548163f * x * x;
    const ivec negative = y < 0;
    const vec e = exponential(blend(negative, y, -y));
    return x * blend(negative, e, (vec){0} + 1) / (1 + e);
}

/* Apply the activation to `count` numbers in place. This is a separate pass: inside the product's
   loop, a second kind of activation made a search with ReLU 5 % slower. */
static void activate(int64_t activation, float *x, int64_t count) {
    if (activation == RELU) {
        for (int64_t i = 0; i < count; i++) x[i] = x[i] < 0 ? 0 : x[i]; /* keeps NaN */
        return;
    }
    const int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) *(vec *)(x + i) = smooth(activation, *(vec *)(x + i));
    vec rest = {0};
    memcpy(&rest, x + whole, (count - whole) * sizeof *x);
    rest = smooth(activation, rest);
    memcpy(x + whole, &rest, (count - whole) * sizeof *x);
}

/* Multiply the first half of each row of x [B, 2 F] by the second: y [B, F], which may be x. */
static void gate(const float *x, int64_t B, int64_t F, float *y) {
    for (; B--; x += 2 * F, y += F)
        for (int64_t f = 0; f < F; f++) y[f] = x[f] * x[F + f];
}

/* Layer norm: y [B, D] = (x − mean) / √(variance + eps) · weight + bias; see `Norm`. */
static void layer_norm(const Norm *norm, const float *x, int64_t B, int64_t D, float *y) {
    for (; B--; x += D, y += D) {
        float sum = 0, squares = 0;
        if (norm->bias) {
#pragma omp simd reduction(+ : sum)
            for (int64_t d = 0; d < D; d++) sum += x[d];
        }
        const float mean = sum / D;
#pragma omp simd reduction(+ : squares)
        for (int64_t d = 0; d < D; d++) squares += (x[d] - mean) * (x[d] - mean);
        const float scale = 1 / sqrtf(squares / D + (float)norm->eps);
        if (norm->bias)
            for (int64_t d = 0; d < D; d++)
                y[d] = (x[d] - mean) * scale * norm->weight[d] + norm->bias[d];
        else
            for (int64_t d = 0; d < D; d++) y[d] = x[d] * scale * norm->weight[d];
    }
}

/* Round up to whole vectors. */
static inline int64_t round_up(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

/* Softmax in place; NaN if all scores are −∞. `score` has room for `round_up(count)` numbers. */
static inline void softmax(float *score, int64_t count) {
    vec most = (vec){0} - INFINITY, total = {0};
    float largest = -INFINITY, sum = 0;
    for (int64_t i = count; i < round_up(count); i++) score[i] = -INFINITY;
    for (int64_t i = 0; i < count; i += LANES) {
        const vec x = *(vec *)(score + i);
        most = blend(x > most, x, most);
    }
    for (int i = 0; i < LANES; i++) largest = most[i] > largest ? most[i] : largest;
    for (int64_t i = 0; i < count; i += LANES) {
        const vec x = *(vec *)(score + i);
        total += *(vec *)(score + i) = blend(x == -INFINITY, (vec){0}, exponential(x - largest));
    }
    for (int i = 0; i < LANES; i++) sum += total[i];
    for (int64_t i = 0; i < count; i += LANES) *(vec *)(score + i) /= sum;
}

/* Compute softmax(q Kᵀ · scale) V of one query over the listed cells; zeros without cells. The keys
   and values of the next head follow `room` cells later. `bias`, if not NULL, is added to the scores. */
static inline __attribute__((always_inline)) void attend(
    const float *restrict q, const float *restrict keys, const float *restrict values,
    const int32_t *restrict cells, int64_t count, int64_t room, float scale,
    const float *restrict bias, const int64_t E, float *restrict score, float *restrict out) {
    for (int64_t i = 0; i < count; i++) {
        const float *key = keys + cells[i] * E;
        float sum = 0;
        __builtin_prefetch(key + room * E); /* makes a step of many sentences 1.1 times as fast */
        __builtin_prefetch(values + (cells[i] + room) * E);
#pragma omp simd reduction(+ : sum)
        for (int64_t e = 0; e < E; e++) sum += q[e] * key[e];
        score[i] = sum * scale;
    }
    if (bias)
        for (int64_t i = 0; i < count; i++) score[i] += bias[i];
    softmax(score, count);
    if (E % LANES == 0) { /* vectorised by hand: makes a step 1.3 times as fast */
        for (int64_t e = 0; e < E; e += LANES) {
            vec sum = {0};
            for (int64_t i = 0; i < count; i++)
                sum += *(const vec *)(values + cells[i] * E + e) * score[i];
            *(vec *)(out + e) = sum;
        }
        return;
    }
#pragma omp simd
    for (int64_t e = 0; e < E; e++) {
        float sum = 0;
        for (int64_t i = 0; i < count; i++) sum += score[i] * values[cells[i] * E + e];
        out[e] = sum;
    }
}

/* List the unmasked cells of each row of a mask [rows, width], and count them. */
static void list_cells(const uint8_t *mask, int64_t rows, int64_t width, int32_t *cells,
                       int64_t *counts) {
    for (; rows--; mask += width, cells += width, counts++) {
        *counts = 0;
        for (int64_t i = 0; i < width; i++)
            if (mask[i]) cells[(*counts)++] = (int32_t)i;
    }
}

/* Attend with every head of every row: out [B, D]. Queries are in rows of `width`; `kv` is
   [2, N, H, room, E]. Each `share` consecutive rows have the same cells: the first `counts` of a
   row of `cells`, which has room for `most`. `bias` is NULL or [H, T]: every row has T cells. */
static void attention(const float *q, int64_t width, const float *kv, int64_t room, Size s,
                      int64_t scaled, const float *bias, const int32_t *cells, int64_t most,
                      const int64_t *counts, int64_t share, float *out) {
    const float scale = scaled ? 1 / sqrtf((float)s.E) : 1;
    float score[round_up(most) + 1];
    for (int64_t b = 0; b < s.N * s.K; b++)
        for (int64_t h = 0; h < s.H; h++) {
            const float *keys = kv + (b / s.K * s.H + h) * room * s.E;
            const float *values = keys + s.N * s.H * room * s.E;
            const int32_t *open = cells + b / share * most;
            const float *query = q + b * width + h * s.E;
            float *to = out + (b * s.H + h) * s.E;
            const int64_t count = counts[b / share];
            const float *own = bias ? bias + h * count : 0;
            switch (s.E) { /* faster with a constant size */
#define SIZE(E) case E: attend(query, keys, values, open, count, room, scale, own, E, score, to); break;
                SIZE(16) SIZE(32) SIZE(48) SIZE(64)
                default: attend(query, keys, values, open, count, room, scale, own, s.E, score, to);
            }
        }
}

/* Copy the K new tokens' keys and values, which follow the queries in `qkv`, to their cells. */
static void store_keys_values(const float *qkv, float *kv, int64_t room, int64_t M, Size s) {
    for (int64_t b = 0; b < s.N * s.K; b++)
        for (int64_t i = 0; i < 2; i++)
            for (int64_t h = 0; h < s.H; h++)
                memcpy(kv + (((i * s.N + b / s.K) * s.H + h) * room + M - s.K + b % s.K) * s.E,
                       qkv + ((b * 3 + 1 + i) * s.H + h) * s.E, s.E * sizeof *kv);
}

/* Run all layers. Overwrite x [B, D] with the output, and the last K of the tree's M cells with the
   new keys and values. `tree` is [L, 2, N, H, room, E], `memory` [L, 2, N, H, S, E]; the masks are
   bytes, `path` [B, M] and `source` [N, S]. `bias`, NULL or [H, T], is added to the scores of the
   self-attentions: each row has T tokens on its path. Scratch space: `floats` for B rows of 2 D + H E
   plus the widest output, `counts` for B + N, `cells` for one per byte of the masks. */
void decode(const Layer *layers, int64_t L, int64_t N, int64_t K, int64_t H, int64_t E, int64_t D,
            float *x, float *tree, int64_t room, int64_t M, const uint8_t *path,
            const float *memory, int64_t S, const uint8_t *source, const float *bias,
            float *floats, int64_t *counts, int32_t *cells) {
    const Size s = {N, K, H, E};
    const int64_t B = N * K, W = H * E;
    list_cells(path, B, M, cells, counts);
    list_cells(source, N, S, cells + B * M, counts + B);
    float *input = floats, *heads = input + B * D, *output = heads + B * W, *wide = output + B * D;
    for (const Layer *layer = layers; layer < layers + L; layer++) {
        const Affine *by = layer->products;
        for (int part = 0; part < 3; part++) {
            const float *from = layer->norm_first ? input : x;
            if (layer->norm_first) layer_norm(&layer->norms[part], x, B, D, input);
            if (part == 0) {
                product(by + QKV, from, B, wide);
                store_keys_values(wide, tree, room, M, s);
                attention(wide, 3 * W, tree, room, s, layer->scaled, bias, cells, M, counts, 1, heads);
                product(by + OUTPUT, heads, B, output);
            } else if (part == 1) {
                product(by + CROSS_QUERY, from, B, wide);
                attention(wide, W, memory, S, s, layer->scaled, 0, cells + B * M, S, counts + B, K,
                          heads);
                product(by + CROSS_OUTPUT, heads, B, output);
            } else {
                product(by + INNER, from, B, wide);
                const int64_t F = by[OUTER].in;
                if (layer->gated) {
                    for (int64_t r = 0; r < B; r++) activate(layer->activation, wide + 2 * r * F, F);
                    gate(wide, B, F, wide);
                } else
                    activate(layer->activation, wide, B * F);
                product(by + OUTER, wide, B, output);
            }
            for (int64_t i = 0; i < B * D; i++) x[i] += output[i];
            if (!layer->norm_first) layer_norm(&layer->norms[part], x, B, D, x);
        }
        tree += 2 * N * H * room * E;
        memory += 2 * N * H * S * E;
    }
}

/* Sort order: descending, NaN first, like torch.topk. */
static inline int sorts_before(double a, double b) { return a > b || (a != a && b == b); }

/* Return the largest number, ignoring NaN. */
static inline float maximum(const float *x, int64_t count) {
    vec most = (vec){0} - INFINITY;
    float found = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const vec some = *(const vec *)(x + i);
        __builtin_prefetch(x + i + 1024); /* crosses pages, unlike the hardware: 1.25 times as fast */
        most = blend(some > most, some, most);
    }
    for (; i < count; i++) found = x[i] > found ? x[i] : found;
    for (int j = 0; j < LANES; j++) found = most[j] > found ? most[j] : found;
    return found;
}

/* Find the k largest log-probabilities x − log Σ eˣ from column `first` on in each row of x [B, V],
   and their columns, in descending order; ties go to the lower column. If fewer than k are left,
   columns before `first` follow with −∞. */
void top_k_log_probs(const float *x, int64_t B, int64_t V, int64_t first, int64_t k, float *value,
               int64_t *place) {
    enum { BLOCK = 8 * LANES };
    float most[(V + BLOCK - 1) / BLOCK], bound[k]; /* each block's largest; the k largest of these */
    for (; B--; x += V, value += k, place += k) {
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < k; j++) bound[j] = -INFINITY;
        for (int64_t c = 0; c < first; c++) top = x[c] > top ? x[c] : top;
        for (int64_t b = 0, i = 0; i < V; b++, i += BLOCK) {
            const int64_t from = i < first ? min64(first, i + BLOCK) : i;
            most[b] = maximum(x + from, min64(i + BLOCK, V) - from);
            for (int64_t j = k; j-- && most[b] > bound[j]; bound[j] = most[b])
                if (j + 1 < k) bound[j + 1] = bound[j];
        }
        top = bound[0] > top ? bound[0] : top;
        vec total = {0};
        for (int64_t i = 0; i < V; i += LANES) {
            vec some = (vec){0} - INFINITY;
            if (i + LANES <= V) some = *(const vec *)(x + i);
            else memcpy(&some, x + i, (V - i) * sizeof *x);
            total += exponential(some - top);
        }
        for (int j = 0; j < LANES; j++) sum += total[j];
        int64_t count = 0;
        for (int64_t b = 0, i = 0; i < V; b++, i += BLOCK) {
            if (most[b] < bound[k - 1]) continue; /* k others are larger */
            for (int64_t c = i < first ? first : i; c < min64(i + BLOCK, V); c++) {
                if (x[c] < bound[k - 1] || (count == k && !sorts_before(x[c], value[k - 1]))) continue;
                int64_t j = count < k ? count++ : k - 1;
                for (; j && sorts_before(x[c], value[j - 1]); j--) {
                    value[j] = value[j - 1];
                    place[j] = place[j - 1];
                }
                value[j] = x[c];
                place[j] = c;
            }
        }
        const float log_sum = logf(sum);
        for (int64_t j = 0; j < count; j++) value[j] = value[j] - top - log_sum;
        for (int64_t j = count; j < k; j++) value[j] = -INFINITY, place[j] = j - count;
    }
}

/* Find the `wanted` best continuations of each of N sentences. x [N K, V] holds the logits of its K
   hypotheses, `totals` [N, K] their float64 log-probabilities so far. Candidates are each
   hypothesis's `each` best tokens from column `first` on. Write, in descending order, the sums, the
   hypotheses (0 to K − 1) and the tokens; ties go to the first candidate. */
void beam_candidates(const float *x, const double *totals, int64_t N, int64_t K, int64_t V,
                     int64_t first, int64_t each, int64_t wanted, double *sum, int64_t *hypothesis,
                     int64_t *token) {
    float value[each];
    int64_t place[each];
    for (; N--; sum += wanted, hypothesis += wanted, token += wanted) {
        int64_t count = 0;
        for (int64_t k = 0; k < K; k++, x += V) {
            top_k_log_probs(x, 1, V, first, each, value, place);
            for (int64_t i = 0; i < each; i++) {
                const double found = totals[k] + value[i];
                if (count == wanted && !sorts_before(found, sum[wanted - 1])) break;
                int64_t j = count < wanted ? count++ : wanted - 1;
                for (; j && sorts_before(found, sum[j - 1]); j--) {
                    sum[j] = sum[j - 1];
                    hypothesis[j] = hypothesis[j - 1];
                    token[j] = token[j - 1];
                }
                sum[j] = found;
                hypothesis[j] = k;
                token[j] = place[i];
            }
        }
        totals += K;
    }
}

typedef uint16_t bfloat16s __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Load LANES numbers from index i; with `half` from bfloat16, the upper half of a float32. */
static inline vec load(const int half, const void *x, int64_t i) {
    if (!half) return *(const vec *)((const float *)x + i);
    return (vec)(__builtin_convertvector(*(const bfloat16s *)((const uint16_t *)x + i), ivec) << 16);
}

/* Store LANES numbers; bfloat16 rounds to nearest, ties to even. */
static inline void store(const int half, void *y, int64_t i, vec number) {
    if (!half) {
        *(vec *)((float *)y + i) = number;
        return;
    }
    const ivec bits = (ivec)number, rounded = bits + 0x7fff + (bits >> 16 & 1);
    *(bfloat16s *)((uint16_t *)y + i) = __builtin_convertvector(rounded >> 16, bfloat16s);
}

/* See `smoothed_cross_entropy`; `half` is a compile-time constant. */
static inline __attribute__((always_inline)) double losses(
    const int half, const char *x, int64_t B, int64_t V, const int64_t *target, float smoothing,
    float count, float *row, char *gradient) {
    const int64_t size = half ? 2 : 4, left = V % LANES, last = V - left;
    const float scale = 1 / count, spread = smoothing / V * scale;
    double all = 0;
    for (; B--; x += V * size, gradient += V * size, target++) {
        vec most = (vec){0} - INFINITY, logits = {0}, total = {0}, end = most;
        float top = -INFINITY, mean = 0, sum = 0;
        float part[LANES]; /* the last, partial vector */
        for (int64_t i = 0; i < last; i += LANES) {
            const vec some = *(vec *)(row + i) = load(half, x, i);
            most = blend(some > most, some, most);
            logits += some;
        }
        if (left) {
            memcpy(part, x + last * size, left * size);
            const vec some = load(half, part, 0);
            for (int j = 0; j < left; j++) {
                end[j] = some[j];
                mean += some[j];
            }
            most = blend(end > most, end, most);
            *(vec *)(row + last) = end;
        }
        for (int j = 0; j < LANES; j++) {
            top = most[j] > top ? most[j] : top;
            mean += logits[j];
        }
        const float wanted = row[*target] - top;
        for (int64_t i = 0; i < V; i += LANES)
            total += *(vec *)(row + i) = exponential(*(vec *)(row + i) - top);
        for (int j = 0; j < LANES; j++) sum += total[j];
        all += (double)logf(sum) - (1 - smoothing) * wanted - smoothing * (mean / V - top);
        const float weight = scale / sum, own = row[*target];
        for (int64_t i = 0; i < last; i += LANES)
            store(half, gradient, i, *(vec *)(row + i) * weight - spread);
        if (left) {
            store(half, part, 0, *(vec *)(row + last) * weight - spread);
            memcpy(gradient + last * size, part, left * size);
        }
        store(half, part, 0, (vec){0} + (own * weight - spread - (1 - smoothing) * scale));
        memcpy(gradient + *target * size, part, size);
    }
    return all * scale;
}

/* Return the label-smoothed cross-entropy (paper §5.4) of logits x [B, V], summed and divided by
   `count`, and write its gradient. Both are float32 or, with `half`, bfloat16. `row` has room for
   `round_up(V)` numbers. */
double smoothed_cross_entropy(int half, const char *x, int64_t B, int64_t V, const int64_t *target,
                              double smoothing, double count, float *row, char *gradient) {
    if (half) return losses(1, x, B, V, target, smoothing, count, row, gradient);
    return losses(0, x, B, V, target, smoothing, count, row, gradient);
}
