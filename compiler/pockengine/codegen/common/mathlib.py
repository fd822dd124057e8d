"""Single-precision functions in C without branches, so that clang vectorises loops that call them.

Infinities, NaN and (for exp and log) subnormals keep their meaning. Largest errors, in units in the last place, against
double precision over the whole range: exp 1.2, log 1.2, tanh 2, sigmoid 2.5, erf 1.6, atan 3, expm1 3, log1p 3,
erfinv 4, lgamma 5 (of positive numbers; near its zeros below, it is the absolute error that is small); sin and cos have
an absolute error of 1.2e-7 for |x| < 8192 and lose precision beyond; pow is computed in double and rounded (0.6)."""

from __future__ import annotations

from collections.abc import Iterable

_FLOAT = """\
static inline float pock_float(int32_t bits)
{
    union { int32_t i; float f; } u = {bits};
    return u.f;
}
"""

_BITS = """\
static inline int32_t pock_bits(float x)
{
    union { float f; int32_t i; } u = {x};
    return u.i;
}
"""

# 2^n is applied in two factors so that results below the normal range are rounded once and overflow gives infinity.
_EXP = """\
static inline float pock_exp(float x)
{
    const float c = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
    const float shifted = c * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low bits hold round(x / ln 2) */
    const float n = shifted - 12582912.0f;
    const int32_t k = pock_bits(shifted) - 0x4B400000;
    const float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const int32_t half = k >> 1;
    return p * pock_float((int32_t)((uint32_t)(half + 127) << 23)) * pock_float((int32_t)((uint32_t)(k - half + 127)
    << 23));
}
"""

_LOG = """\
static inline float pock_log(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const int32_t bits = pock_bits(scaled);
    /* mantissa in [sqrt(1/2), sqrt(2)) */
    const int32_t k = (int32_t)((uint32_t)bits - 0x3F3504F3u) >> 23;
    const float m = pock_float((int32_t)((uint32_t)bits - ((uint32_t)k << 23))) - 1.0f;
    const float e = (float)(tiny ? k - 23 : k);
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float y = m * z * p - e * 2.12194440e-4f - 0.5f * z;
    y = m + y + e * 0.693359375f;
    y = x == __builtin_inff() ? x : y;
    y = x == 0.0f ? -__builtin_inff() : y;
    return ((x < 0.0f) | (x != x)) ? __builtin_nanf("") : y;
}
"""

_TANH = """\
static inline float pock_tanh(float x)
{
    const float a = __builtin_fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = x + x * z * p;
    const float large = 1.0f - 2.0f / (pock_exp(2.0f * (a > 20.0f ? 20.0f : a)) + 1.0f);
    const float y = a < 0.625f ? small : __builtin_copysignf(large, x);
    return x != x ? x : y;
}
"""

_SIGMOID = """\
static inline float pock_sigmoid(float x)
{
    const float e = pock_exp(-__builtin_fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
"""

# Coefficients of N. Juffa's erff: a polynomial in x below 0.93, 1 - exp(polynomial) above.
_ERF = """\
static inline float pock_erf(float x)
{
    const float a = __builtin_fabsf(x), t = a > 4.0f ? 4.0f : a, s = t * t;
    float r = -1.72853470e-5f * t + 3.83197126e-4f;
    const float u = -3.88396438e-3f * t + 2.42546219e-2f;
    r = r * s + u;
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    const float large = __builtin_copysignf(1.0f - pock_exp(r), x);
    float q = -5.96761703e-4f;
    q = q * s + 4.99119423e-3f;
    q = q * s - 2.67681349e-2f;
    q = q * s + 1.12819925e-1f;
    q = q * s - 3.76125336e-1f;
    q = q * s + 1.28379166e-1f;
    const float y = a > 0.927734375f ? large : x + x * q;
    return x != x ? x : y;
}
"""

# pi/2 in three parts (Cody and Waite); the quadrant comes from the low bits of the shifted quotient.
_SINCOS = """\
static inline float pock_sine(float x, int32_t quarter)
{
    const float c = __builtin_fabsf(x) > 2000000.0f ? x - x : x; /* too far out to reduce; NaN for infinities */
    const float shifted = c * 0.636619772f + 12582912.0f, n = shifted - 12582912.0f;
    const int32_t quadrant = pock_bits(shifted) + quarter;
    const float r = ((c - n * 1.5703125f) - n * 4.83751296997e-4f) - n * 7.54978942e-8f, z = r * r;
    const float s = r + r * z * ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f);
    const float k = 1.0f - 0.5f * z
        + z * z * ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f);
    const float y = quadrant & 1 ? k : s;
    return quadrant & 2 ? -y : y;
}
"""

_POW = """\
static inline double pock_double(int64_t bits)
{
    union { int64_t i; double d; } u = {bits};
    return u.d;
}

static inline float pock_pow(float x, float y)
{
    union { double d; int64_t i; } a = {(double)__builtin_fabsf(x)};
    /* log2 |x| = e + log2 m, m in [sqrt(1/2), sqrt(2)), by the series of atanh; every float is a normal double */
    const int64_t e = (a.i - 0x3FE6A09E667F3BCDLL) >> 52;
    const double m = pock_double(a.i - e * (1LL << 52));
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double q = 1.0 / 17.0;
    q = q * z + 1.0 / 15.0;
    q = q * z + 1.0 / 13.0;
    q = q * z + 1.0 / 11.0;
    q = q * z + 1.0 / 9.0;
    q = q * z + 1.0 / 7.0;
    q = q * z + 1.0 / 5.0;
    q = q * z + 1.0 / 3.0;
    q = q * z + 1.0;
    const float ax = __builtin_fabsf(x);
    double t = (double)y * ((double)e + 2.885390081777926815 * s * q);
    t = ax == 1.0f ? 0.0 : t;
    t = ax == 0.0f ? (y < 0.0f ? 2000.0 : -2000.0) : t;
    t = ax == __builtin_inff() ? (y < 0.0f ? -2000.0 : 2000.0) : t;
    t = t < -1000.0 ? -1000.0 : (t > 1000.0 ? 1000.0 : t);
    const double shifted = t + 6755399441055744.0, n = shifted - 6755399441055744.0;
    union { double d; int64_t i; } k = {shifted};
    const double r = (t - n) * 0.693147180559945309417;
    double p = 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const double scaled = p * pock_double((int64_t)((uint64_t)(k.i - 0x4338000000000000LL + 1023) << 52));
    const float whole = __builtin_truncf(y), halved = y * 0.5f;
    const int integral = whole == y, odd = integral & (__builtin_truncf(halved) != halved);
    float f = (float)scaled;
    f = ax == 0.0f ? (y < 0.0f ? __builtin_inff() : 0.0f) : f;
    f = (odd & (__builtin_copysignf(1.0f, x) < 0.0f)) ? -f : f;
    f = ((x < 0.0f) & !integral & (ax != __builtin_inff())) ? __builtin_nanf("") : f;
    f = ((x != x) | (y != y)) ? __builtin_nanf("") : f;
    return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : f;
}
"""

_EXPM1 = """\
static inline float pock_expm1(float x)
{
    float p = 2.7557319e-6f;
    p = p * x + 2.4801587e-5f;
    p = p * x + 1.9841270e-4f;
    p = p * x + 1.3888889e-3f;
    p = p * x + 8.3333333e-3f;
    p = p * x + 4.1666667e-2f;
    p = p * x + 1.6666667e-1f;
    p = p * x + 0.5f;
    return __builtin_fabsf(x) < 0.5f ? x + x * x * p : pock_exp(x) - 1.0f;
}
"""

# W. Kahan: what rounding took from 1 + x is given back by the factor.
_LOG1P = """\
static inline float pock_log1p(float x)
{
    const float u = 1.0f + x, d = u - 1.0f;
    const float y = pock_log(u) * (x / d);
    return d == 0.0f ? x : (u == __builtin_inff() ? u : y);
}
"""

# Cephes: reduced to |z| < tan(pi / 8).
_ATAN = """\
static inline float pock_atan(float x)
{
    const float a = __builtin_fabsf(x);
    const int high = a > 2.414213562f, middle = a > 0.4142135624f;
    const float t = high ? -1.0f / a : (middle ? (a - 1.0f) / (a + 1.0f) : a), z = t * t;
    const float base = high ? 1.570796327f : (middle ? 0.7853981634f : 0.0f);
    float p = 8.05374449538e-2f;
    p = p * z - 1.38776856032e-1f;
    p = p * z + 1.99777106478e-1f;
    p = p * z - 3.33329491539e-1f;
    return __builtin_copysignf(base + (p * z * t + t), x);
}
"""

# lgamma(2 + e) / e by a polynomial for |e| <= 1/2, to which the recurrence leads below 8.5; Stirling's series above.
# Below -1/2 by reflection: gamma(x) gamma(-x) = -pi / (x sin(pi x)).
_LGAMMA = """\
static inline float pock_lgamma(float x)
{
    const float a = __builtin_fabsf(x), y = x > -0.5f ? x : a;
    float z = y, factor = 1.0f;
    for (int k = 0; k < 6; ++k) {
        const float lower = z - 1.0f;
        factor *= z >= 2.5f ? lower : 1.0f;
        z = z >= 2.5f ? lower : z;
    }
    const float e = y < 0.5f ? y : (y < 1.5f ? y - 1.0f : z - 2.0f);
    factor = y < 0.5f ? __builtin_fabsf(y) * (y + 1.0f) : (y < 1.5f ? y : factor);
    float p = 1.150035459e-4f;
    p = p * e - 2.538618573e-4f;
    p = p * e + 5.056574009e-4f;
    p = p * e - 1.185837667e-3f;
    p = p * e + 2.890956122e-3f;
    p = p * e - 7.386177778e-3f;
    p = p * e + 2.058078907e-2f;
    p = p * e - 6.735228002e-2f;
    p = p * e + 3.224670291e-1f;
    p = p * e + 4.227843285e-1f;
    const int far = y >= 8.5f;
    const float t = pock_log(far ? y : factor), q = 1.0f / y, s = q * q;
    const float tail = q * (8.33333333e-2f - s * (2.77777778e-3f - s * 7.93650794e-4f));
    const float stirling = (y - 0.5f) * (t - 1.0f) + (0.418938533f + tail);
    const float positive = far ? stirling : e * p + (y < 1.5f ? -t : t);
    const float r = a - __builtin_rintf(a), sine = __builtin_fabsf(pock_sine(3.14159265f * r, 0));
    const float mirrored = 1.14472989f - pock_log(a * sine) - positive;
    const float whole = ((r == 0.0f) | (a == __builtin_inff())) ? __builtin_inff() : mirrored;
    return x == __builtin_inff() ? x : (x > -0.5f || x != x ? positive : whole);
}
"""

# M. Giles, "Approximating the erfinv function" (2010).
_ERFINV = """\
static inline float pock_erfinv(float x)
{
    const float w = -pock_log((1.0f - x) * (1.0f + x));
    const float c = w - 2.5f, t = __builtin_sqrtf(w < 5.0f ? 5.0f : w) - 3.0f;
    float p = 2.81022636e-8f;
    p = p * c + 3.43273939e-7f;
    p = p * c - 3.5233877e-6f;
    p = p * c - 4.39150654e-6f;
    p = p * c + 2.1858087e-4f;
    p = p * c - 1.25372503e-3f;
    p = p * c - 4.17768164e-3f;
    p = p * c + 2.46640727e-1f;
    p = p * c + 1.50140941f;
    float q = -2.00214257e-4f;
    q = q * t + 1.00950558e-4f;
    q = q * t + 1.34934322e-3f;
    q = q * t - 3.67342844e-3f;
    q = q * t + 5.73950773e-3f;
    q = q * t - 7.6224613e-3f;
    q = q * t + 9.43887047e-3f;
    q = q * t + 1.00167406f;
    q = q * t + 2.83297682f;
    const float y = x * (w < 5.0f ? p : q);
    return __builtin_fabsf(x) == 1.0f ? x * __builtin_inff() : (w != w ? w : y);
}
"""

_INTEGER_POW = """\
static inline int64_t pock_ipow(int64_t base, int64_t exponent)
{
    uint64_t result = 1, factor = (uint64_t)base;
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    for (; exponent > 0; exponent >>= 1, factor *= factor)
        result *= exponent & 1 ? factor : 1;
    return (int64_t)result;
}
"""

# Each byte's lowest bit comes to rest in the highest byte, in order, and nothing else of the product does.
_PACK = """\
static inline uint8_t pock_pack(const uint8_t *set)
{
    uint64_t eight;
    __builtin_memcpy(&eight, set, 8);
    return (uint8_t)(eight * UINT64_C(0x0102040810204080) >> 56);
}
"""

_INTEGER_MOD = """\
static inline int64_t pock_imod(int64_t a, int64_t b)
{
    const int64_t r = b == 0 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
"""

_FLOAT_MOD = """\
static inline float pock_mod(float a, float b)
{
    const float r = __builtin_fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
"""

_DOUBLE_MOD = """\
static inline double pock_dmod(double a, double b)
{
    const double r = __builtin_fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
"""

_BF16 = """\
static inline uint16_t pock_bf16(float x)
{
    union { float f; uint32_t i; } u = {x};
    const uint32_t rounded = (u.i + 0x7FFF + (u.i >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? 0x7FC0 : rounded);
}
"""

_FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bits": (_BITS, ()),
    "float": (_FLOAT, ()),
    "exp": (_EXP, ("bits", "float")),
    "log": (_LOG, ("bits", "float")),
    "tanh": (_TANH, ("exp",)),
    "sigmoid": (_SIGMOID, ("exp",)),
    "erf": (_ERF, ("exp",)),
    "sine": (_SINCOS, ("bits",)),
    "pow": (_POW, ()),
    "atan": (_ATAN, ()),
    "expm1": (_EXPM1, ("exp",)),
    "log1p": (_LOG1P, ("log",)),
    "lgamma": (_LGAMMA, ("log", "sine")),
    "erfinv": (_ERFINV, ("log",)),
    "pack": (_PACK, ()),
    "bf16": (_BF16, ()),
    "imod": (_INTEGER_MOD, ()),
    "ipow": (_INTEGER_POW, ()),
    "mod": (_FLOAT_MOD, ()),
    "dmod": (_DOUBLE_MOD, ()),
}


def functions(names: Iterable[str]) -> list[str]:
    """The C text of these functions and of what they call, callees first, each once."""
    ordered: dict[str, str] = {}

    def visit(name: str) -> None:
        text, callees = _FUNCTIONS[name]
        for callee in callees:
            visit(callee)
        ordered.setdefault(name, text)

    for name in sorted(set(names)):
        visit(name)
    return list(ordered.values())
