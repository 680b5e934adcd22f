/* One step of the decoder: all layers for B rows, each of them one new token of one hypothesis.

And its parts for whole passes, what a search chooses from, and the loss of training.

Axes as in decoding.py: rows B are K hypotheses of each of N sentences; D d_model, H heads of size
E, M tokens of a sentence's tree, S source tokens, L layers. All numbers are float32. Weights
[in, out] lie in panels of PANEL columns, the last one filled with zeros: [out / PANEL, in, PANEL].
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
enum { ROWS = 14 }; /* what fits into registers: ROWS · 2 sums, 2 weights */
#else
enum { ROWS = 6 };
#endif
enum { GROUP = 42 }; /* rows that all panels are done for, whole blocks of either size */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t whole __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    const float *panels, *bias; /* no bias is NULL */
    int64_t in, out;
} Affine;

typedef struct {
    const float *weight, *bias;
    double eps;
} Norm;

enum { QKV, OUTPUT, CROSS_QUERY, CROSS_OUTPUT, INNER, OUTER, PRODUCTS };

typedef struct {
    Affine products[PRODUCTS];
    Norm norms[3];
    int64_t norm_first;
} Layer;

typedef struct { int64_t N, K, H, E; } Size;

int64_t panel(void) { return PANEL; }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where the mask's bits are 1, a; elsewhere b. */
static inline vec chosen(whole mask, vec a, vec b) {
    return (vec)((mask & (whole)a) | (~mask & (whole)b));
}

/* e^x for x ≤ 0: 2ⁿ·eʳ with |r| ≤ ln(2)/2; below the smallest number of full precision, 0. */
static inline vec exponential(vec x) {
    const whole nothing = x < -87.0f;
    x = chosen(nothing, (vec){0}, x);
    const whole n = __builtin_convertvector(x * 1.44269504f - 0.5f, whole);
    const vec count = __builtin_convertvector(n, vec);
    const vec r = (x - count * 0.693359375f) + count * 2.12194440e-4f;
    vec p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return chosen(nothing, (vec){0}, p * (vec)((n + 127) << 23));
}

/* One panel's columns of x W + b for `rows` rows, a constant wherever this is called. */
static inline __attribute__((always_inline)) void block(
    const int rows, const float *x, const float *panel, const float *bias, int64_t in, int relu,
    float *y, int64_t columns) {
    vec sum[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < 2; i++)
            sum[r][i] = bias ? *(const vec *)(bias + i * LANES) : (vec){0};
    for (int64_t k = 0; k < in; k++) {
        const vec low = *(const vec *)(panel + k * PANEL);
        const vec high = *(const vec *)(panel + k * PANEL + LANES);
        for (int i = 0; i < PANEL; i += 16) /* weights come from afar; a search: 1.1 */
            __builtin_prefetch(panel + (k + 16) * PANEL + i);
        for (int r = 0; r < rows; r++) {
            sum[r][0] += low * x[r * in + k];
            sum[r][1] += high * x[r * in + k];
        }
    }
    for (int r = 0; r < rows; r++, y += columns) {
        *(vec *)y = sum[r][0];
        *(vec *)(y + LANES) = sum[r][1];
        if (relu)
            for (int i = 0; i < PANEL; i++) y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays */
    }
}

/* y [B, out] = x W + b of x [B, in], or of that what is positive. */
static void few(const Affine *a, const float *x, int64_t B, int relu, float *y) {
    const int64_t in = a->in, out = a->out;
    float last[(ROWS + 1) * PANEL] = {0}; /* for a panel that is wider than what is left */
    for (int64_t c = 0; c < out; c += PANEL) {
        const int64_t width = least(PANEL, out - c);
        const float *panel = a->panels + c * in, *bias = a->bias ? a->bias + c : 0;
        if (bias && width < PANEL) bias = memcpy(last + ROWS * PANEL, bias, width * sizeof *y);
        int64_t blocks = (B + ROWS - 1) / ROWS;
        for (int64_t b = 0, rows; b < B; b += rows, blocks--) {
            rows = (B - b + blocks - 1) / blocks; /* as many in each block as can be */
            float *place = y + b * out + c, *to = width < PANEL ? last : place;
            const int64_t columns = width < PANEL ? PANEL : out;
            switch (rows) {
#define ROW(n) case n: block(n, x + b * in, panel, bias, in, relu, to, columns); break;
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

/* The same for many rows, a group at a time: else a panel writes to more places than a cache can
   follow. 320 rows by 128 × 8,000: 1.35 */
void product(const Affine *a, const float *x, int64_t B, int relu, float *y) {
    for (int64_t groups = (B + GROUP - 1) / GROUP, b = 0, rows; b < B; b += rows, groups--) {
        rows = (B - b + groups - 1) / groups;
        few(a, x + b * a->in, rows, relu, y + b * a->out);
    }
}

/* y [B, D] = (x − mean) / √(variance + eps) · weight + bias. */
static void normalise(const Norm *norm, const float *x, int64_t B, int64_t D, float *y) {
    for (; B--; x += D, y += D) {
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < D; d++) sum += x[d];
        const float mean = sum / D;
#pragma omp simd reduction(+ : squares)
        for (int64_t d = 0; d < D; d++) squares += (x[d] - mean) * (x[d] - mean);
        const float scale = 1 / sqrtf(squares / D + (float)norm->eps);
        for (int64_t d = 0; d < D; d++) y[d] = (x[d] - mean) * scale * norm->weight[d] + norm->bias[d];
    }
}

/* So many numbers in whole vectors. */
static inline int64_t rounded(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

/* Scores become weights: e^x over the sum of it, NaN where nothing is above −∞. There is room for
   `rounded(count)` numbers. */
static inline void weigh(float *score, int64_t count) {
    vec most = (vec){0} - INFINITY, total = {0};
    float largest = -INFINITY, sum = 0;
    for (int64_t i = count; i < rounded(count); i++) score[i] = -INFINITY;
    for (int64_t i = 0; i < count; i += LANES) {
        const vec x = *(vec *)(score + i);
        most = chosen(x > most, x, most);
    }
    for (int i = 0; i < LANES; i++) largest = most[i] > largest ? most[i] : largest;
    for (int64_t i = 0; i < count; i += LANES) {
        const vec x = *(vec *)(score + i);
        total += *(vec *)(score + i) = chosen(x == -INFINITY, (vec){0}, exponential(x - largest));
    }
    for (int i = 0; i < LANES; i++) sum += total[i];
    for (int64_t i = 0; i < count; i += LANES) *(vec *)(score + i) /= sum;
}

/* softmax(q Kᵀ / √E) V of one query over the listed cells; zeros where there are none. The next
   head has its keys and values `room` cells further on. */
static inline __attribute__((always_inline)) void attend(
    const float *restrict q, const float *restrict keys, const float *restrict values,
    const int32_t *restrict cells, int64_t count, int64_t room, const int64_t E,
    float *restrict score, float *restrict out) {
    const float scale = 1 / sqrtf((float)E);
    for (int64_t i = 0; i < count; i++) {
        const float *key = keys + cells[i] * E;
        float sum = 0;
        __builtin_prefetch(key + room * E); /* of many sentences, all of a step: 1.1 */
        __builtin_prefetch(values + (cells[i] + room) * E);
#pragma omp simd reduction(+ : sum)
        for (int64_t e = 0; e < E; e++) sum += q[e] * key[e];
        score[i] = sum * scale;
    }
    weigh(score, count);
    if (E % LANES == 0) { /* as vectors, which the compiler does not see: all of a step: 1.3 */
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

/* Which cells of a mask [rows, width] are open: a list each, and how many. */
static void list(const uint8_t *mask, int64_t rows, int64_t width, int32_t *cells, int64_t *counts) {
    for (; rows--; mask += width, cells += width, counts++) {
        *counts = 0;
        for (int64_t i = 0; i < width; i++)
            if (mask[i]) cells[(*counts)++] = (int32_t)i;
    }
}

/* Every row's heads: out [B, D], from queries in rows of `width`; `kv` is [2, N, H, room, E]. */
static void attention(const float *q, int64_t width, const float *kv, int64_t room, Size s,
                      const int32_t *cells, int64_t most, const int64_t *counts, int64_t share,
                      float *out) {
    float score[rounded(most) + 1];
    for (int64_t b = 0; b < s.N * s.K; b++)
        for (int64_t h = 0; h < s.H; h++) {
            const float *keys = kv + (b / s.K * s.H + h) * room * s.E;
            const float *values = keys + s.N * s.H * room * s.E;
            const int32_t *open = cells + b / share * most;
            const float *query = q + b * width + h * s.E;
            float *to = out + (b * s.H + h) * s.E;
            switch (s.E) { /* a constant size is faster */
#define SIZE(E) case E: attend(query, keys, values, open, counts[b / share], room, E, score, to); break;
                SIZE(16) SIZE(32) SIZE(48) SIZE(64)
                default: attend(query, keys, values, open, counts[b / share], room, s.E, score, to);
            }
        }
}

/* The K new tokens' keys and values, which lie behind their queries in `qkv`, to their cells. */
static void keep(const float *qkv, float *kv, int64_t room, int64_t M, Size s) {
    for (int64_t b = 0; b < s.N * s.K; b++)
        for (int64_t i = 0; i < 2; i++)
            for (int64_t h = 0; h < s.H; h++)
                memcpy(kv + (((i * s.N + b / s.K) * s.H + h) * room + M - s.K + b % s.K) * s.E,
                       qkv + ((b * 3 + 1 + i) * s.H + h) * s.E, s.E * sizeof *kv);
}

/* All layers: x [B, D] becomes the last one's output, and the last K of the tree's M cells are
   written. `tree` is [L, 2, N, H, room, E], `memory` [L, 2, N, H, S, E]; the masks are bytes, `path`
   [B, M] and `source` [N, S]. There is room in `floats` for B rows of 3 D and the widest output, in
   `counts` for a number a row and sentence, in `cells` for one a byte of the masks. */
void decode(const Layer *layers, int64_t L, int64_t N, int64_t K, int64_t H, int64_t E, float *x,
            float *tree, int64_t room, int64_t M, const uint8_t *path, const float *memory,
            int64_t S, const uint8_t *source, float *floats, int64_t *counts, int32_t *cells) {
    const Size s = {N, K, H, E};
    const int64_t B = N * K, D = H * E;
    list(path, B, M, cells, counts);
    list(source, N, S, cells + B * M, counts + B);
    float *input = floats, *heads = input + B * D, *output = heads + B * D, *wide = output + B * D;
    for (const Layer *layer = layers; layer < layers + L; layer++) {
        const Affine *by = layer->products;
        for (int part = 0; part < 3; part++) {
            const float *from = layer->norm_first ? input : x;
            if (layer->norm_first) normalise(&layer->norms[part], x, B, D, input);
            if (part == 0) {
                product(by + QKV, from, B, 0, wide);
                keep(wide, tree, room, M, s);
                attention(wide, 3 * D, tree, room, s, cells, M, counts, 1, heads);
                product(by + OUTPUT, heads, B, 0, output);
            } else if (part == 1) {
                product(by + CROSS_QUERY, from, B, 0, wide);
                attention(wide, D, memory, S, s, cells + B * M, S, counts + B, K, heads);
                product(by + CROSS_OUTPUT, heads, B, 0, output);
            } else {
                product(by + INNER, from, B, 1, wide);
                product(by + OUTER, wide, B, 0, output);
            }
            for (int64_t i = 0; i < B * D; i++) x[i] += output[i];
            if (!layer->norm_first) normalise(&layer->norms[part], x, B, D, x);
        }
        tree += 2 * N * H * room * E;
        memory += 2 * N * H * S * E;
    }
}

/* Whether a stands before b: what is larger does, and NaN before all, as torch has it. */
static inline int before(double a, double b) { return a > b || (a != a && b == b); }

/* The largest of so many numbers, NaN left out. */
static inline float largest(const float *x, int64_t count) {
    vec most = (vec){0} - INFINITY;
    float found = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const vec some = *(const vec *)(x + i);
        __builtin_prefetch(x + i + 1024); /* a page ahead, where a processor's own ends: 1.25 */
        most = chosen(some > most, some, most);
    }
    for (; i < count; i++) found = x[i] > found ? x[i] : found;
    for (int j = 0; j < LANES; j++) found = most[j] > found ? most[j] : found;
    return found;
}

/* Of each row of x [B, V]: the k largest log-probabilities x − log Σ eˣ from column `first` on, and
   their columns; the largest first, of equal ones the first first. Where fewer than k are left,
   those before `first` follow with −∞. */
void likeliest(const float *x, int64_t B, int64_t V, int64_t first, int64_t k, float *value,
               int64_t *place) {
    enum { BLOCK = 8 * LANES };
    float most[(V + BLOCK - 1) / BLOCK], bound[k]; /* of each block; the k largest of those */
    for (; B--; x += V, value += k, place += k) {
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < k; j++) bound[j] = -INFINITY;
        for (int64_t c = 0; c < first; c++) top = x[c] > top ? x[c] : top;
        for (int64_t b = 0, i = 0; i < V; b++, i += BLOCK) {
            const int64_t from = i < first ? least(first, i + BLOCK) : i;
            most[b] = largest(x + from, least(i + BLOCK, V) - from);
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
            if (most[b] < bound[k - 1]) continue; /* k others are larger than all of it */
            for (int64_t c = i < first ? first : i; c < least(i + BLOCK, V); c++) {
                if (x[c] < bound[k - 1] || (count == k && !before(x[c], value[k - 1]))) continue;
                int64_t j = count < k ? count++ : k - 1;
                for (; j && before(x[c], value[j - 1]); j--) {
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

/* Of each of N sentences with K hypotheses, whose logits are x [N K, V] and whose sums so far are
   `totals`: the `wanted` largest sums with one more token, the largest first, of equal ones the
   first first; with the hypothesis, 0 to K − 1, and the token. Only each hypothesis's `each`
   likeliest tokens from `first` on are looked at. */
void continuations(const float *x, const double *totals, int64_t N, int64_t K, int64_t V,
                   int64_t first, int64_t each, int64_t wanted, double *sum, int64_t *hypothesis,
                   int64_t *token) {
    float value[each];
    int64_t place[each];
    for (; N--; sum += wanted, hypothesis += wanted, token += wanted) {
        int64_t count = 0;
        for (int64_t k = 0; k < K; k++, x += V) {
            likeliest(x, 1, V, first, each, value, place);
            for (int64_t i = 0; i < each; i++) {
                const double found = totals[k] + value[i];
                if (count == wanted && !before(found, sum[wanted - 1])) break;
                int64_t j = count < wanted ? count++ : wanted - 1;
                for (; j && before(found, sum[j - 1]); j--) {
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

typedef uint16_t halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* LANES numbers from the i-th on; `half` are bfloat16, the upper half of a float32. */
static inline vec loaded(const int half, const void *x, int64_t i) {
    if (!half) return *(const vec *)((const float *)x + i);
    return (vec)(__builtin_convertvector(*(const halves *)((const uint16_t *)x + i), whole) << 16);
}

/* The same way back, to the nearest, of two the even one. */
static inline void stored(const int half, void *y, int64_t i, vec number) {
    if (!half) {
        *(vec *)((float *)y + i) = number;
        return;
    }
    const whole bits = (whole)number, rounded = bits + 0x7fff + (bits >> 16 & 1);
    *(halves *)((uint16_t *)y + i) = __builtin_convertvector(rounded >> 16, halves);
}

/* See `smoothed`; `half` is a constant wherever this is called. */
static inline __attribute__((always_inline)) double losses(
    const int half, const char *x, int64_t B, int64_t V, const int64_t *target, float smoothing,
    float count, float *row, char *gradient) {
    const int64_t size = half ? 2 : 4, left = V % LANES, last = V - left;
    const float scale = 1 / count, spread = smoothing / V * scale;
    double all = 0;
    for (; B--; x += V * size, gradient += V * size, target++) {
        vec most = (vec){0} - INFINITY, logits = {0}, total = {0}, end = most;
        float top = -INFINITY, mean = 0, sum = 0;
        float part[LANES]; /* the last numbers, which are no whole vector */
        for (int64_t i = 0; i < last; i += LANES) {
            const vec some = *(vec *)(row + i) = loaded(half, x, i);
            most = chosen(some > most, some, most);
            logits += some;
        }
        if (left) {
            memcpy(part, x + last * size, left * size);
            const vec some = loaded(half, part, 0);
            for (int j = 0; j < left; j++) {
                end[j] = some[j];
                mean += some[j];
            }
            most = chosen(end > most, end, most);
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
            stored(half, gradient, i, *(vec *)(row + i) * weight - spread);
        if (left) {
            stored(half, part, 0, *(vec *)(row + last) * weight - spread);
            memcpy(gradient + last * size, part, left * size);
        }
        stored(half, part, 0, (vec){0} + (own * weight - spread - (1 - smoothing) * scale));
        memcpy(gradient + *target * size, part, size);
    }
    return all * scale;
}

/* The label-smoothed cross-entropy (paper §5.4) of logits x [B, V] over `count`, summed, and its
   gradient; both are float32 or, `half`, bfloat16. There is room in `row` for `rounded(V)`. */
double smoothed(int half, const char *x, int64_t B, int64_t V, const int64_t *target,
                double smoothing, double count, float *row, char *gradient) {
    if (half) return losses(1, x, B, V, target, smoothing, count, row, gradient);
    return losses(0, x, B, V, target, smoothing, count, row, gradient);
}
