/* What single elements of a batch may be. */
#include "platform.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "batch.h"

int pock_is_integer(uint8_t dtype) {
    return dtype == POCK_I8 || dtype == POCK_U8 || dtype >= POCK_I32;
}

int64_t pock_integer_at(const void *data, uint8_t dtype, size_t index) {
    switch (dtype) {
    case POCK_I8:
        return ((const int8_t *)data)[index];
    case POCK_I16:
        return ((const int16_t *)data)[index];
    case POCK_U16:
        return ((const uint16_t *)data)[index];
    case POCK_U32:
        return ((const uint32_t *)data)[index];
    case POCK_U64:
        return (int64_t)((const uint64_t *)data)[index];
    case POCK_I32:
        return ((const int32_t *)data)[index];
    case POCK_I64:
        return ((const int64_t *)data)[index];
    default:
        return ((const uint8_t *)data)[index];
    }
}

/* Index of the first NaN, or count. Looks at bits: the exponent all ones, the fraction not zero. */
static size_t first_nan(const void *data, uint8_t dtype, size_t count) {
    size_t index = 0;
    if (dtype == POCK_F64) {
        const double *values = data;
        while (index < count && !isnan(values[index])) {
            index++;
        }
    } else if (dtype == POCK_F32) {
        const float *values = data;
        while (index < count && !isnan(values[index])) {
            index++;
        }
    } else {
        const uint16_t *values = data;
        uint16_t infinity = dtype == POCK_F16 ? 0x7C00 : 0x7F80;
        while (index < count && (values[index] & 0x7FFF) <= infinity) {
            index++;
        }
    }
    return index;
}

static int has_nan(const void *data, uint8_t dtype, size_t count) {
    if (dtype != POCK_F32) {
        return first_nan(data, dtype, count) < count;
    }
    const float *values = data;
    int found = 0;
    for (size_t i = 0; i < count; i++) { /* no early exit, so that it runs at memory speed */
        found |= values[i] != values[i];
    }
    return found;
}

static int check_limit(const pock_tensor *input, const void *data, size_t count, size_t per_sample, const char *where,
                       uint64_t sample, pock_error *error) {
    for (size_t i = 0; i < count; i++) {
        int64_t value = pock_integer_at(data, input->dtype, i);
        if ((value < 0 || value >= input->limit) && value != input->ignored) {
            char otherwise[64] = "";
            if (input->ignored) {
                snprintf(otherwise, sizeof otherwise, ", or %lld where it does not count", (long long)input->ignored);
            }
            return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds %lld at sample %llu; it must be 0 to %lld%s", input->name,
                             where, (long long)value, (unsigned long long)(sample + i / per_sample),
                             (long long)input->limit - 1, otherwise);
        }
    }
    return POCK_OK;
}

/* Weights are f32, one a sample. */
static int check_weights(const pock_tensor *input, const float *weights, size_t count, const char *where, uint64_t sample,
                         pock_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (weights[i] < 0 || isinf(weights[i])) {
            return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds %g at sample %llu; it must be a finite number of at least 0",
                             input->name, where, (double)weights[i], (unsigned long long)(sample + i));
        }
    }
    return POCK_OK;
}

int pock_check_values(const pock_tensor *input, const void *data, size_t count, size_t per_sample, const char *where,
                      uint64_t sample, pock_error *error) {
    if (pock_is_integer(input->dtype)) {
        return input->limit ? check_limit(input, data, count, per_sample, where, sample, error) : POCK_OK;
    }
    if (!has_nan(data, input->dtype, count)) {
        return input->target == POCK_SAMPLE_WEIGHT ? check_weights(input, data, count, where, sample, error) : POCK_OK;
    }
    size_t found = first_nan(data, input->dtype, count);
    return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds a NaN at sample %llu", input->name, where,
                     (unsigned long long)(sample + found / per_sample));
}

int pock_convertible(uint8_t to_dtype, uint8_t from_dtype) {
    int from_float = from_dtype == POCK_F32 || from_dtype == POCK_F64;
    return (pock_is_integer(to_dtype) && (pock_is_integer(from_dtype) || from_float)) ||
           (to_dtype == POCK_F32 && (pock_is_integer(from_dtype) || from_float));
}

/* Stores the integer where the type can hold it; 0 when it cannot. */
static int store_integer(void *to, uint8_t dtype, size_t index, int64_t value) {
    switch (dtype) {
    case POCK_I8:
        ((int8_t *)to)[index] = (int8_t)value;
        break;
    case POCK_I16:
        ((int16_t *)to)[index] = (int16_t)value;
        break;
    case POCK_U16:
        ((uint16_t *)to)[index] = (uint16_t)value;
        break;
    case POCK_U32:
        ((uint32_t *)to)[index] = (uint32_t)value;
        break;
    case POCK_U64:
        ((uint64_t *)to)[index] = (uint64_t)value;
        return value >= 0;
    case POCK_I32:
        ((int32_t *)to)[index] = (int32_t)value;
        break;
    case POCK_I64:
        ((int64_t *)to)[index] = value;
        break;
    case POCK_BOOL:
        ((uint8_t *)to)[index] = value != 0;
        break;
    default:
        ((uint8_t *)to)[index] = (uint8_t)value;
        break;
    }
    return pock_integer_at(to, dtype, index) == value;
}

static int store_real(void *to, uint8_t dtype, size_t index, double value) {
    if (dtype == POCK_F32) {
        ((float *)to)[index] = (float)value;
        return (double)(float)value == value;
    }
    /* 2^53: beyond it not every integer is a double, so the text that was meant is unknown. */
    return value == floor(value) && fabs(value) <= 9007199254740992.0 && store_integer(to, dtype, index, (int64_t)value);
}

size_t pock_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int kept = 0;
        if (from_dtype == POCK_F32) {
            kept = store_real(to, to_dtype, i, (double)((const float *)from)[i]);
        } else if (from_dtype == POCK_F64) {
            kept = store_real(to, to_dtype, i, ((const double *)from)[i]);
        } else if (from_dtype == POCK_U64 && pock_integer_at(from, from_dtype, i) < 0) {
            kept = 0; /* 2^63 or more, which only u64 holds */
        } else if (to_dtype == POCK_F32) {
            int64_t value = pock_integer_at(from, from_dtype, i);
            kept = value >= -(1 << 24) && value <= (1 << 24) && store_real(to, to_dtype, i, (double)value);
        } else {
            kept = store_integer(to, to_dtype, i, pock_integer_at(from, from_dtype, i));
        }
        if (!kept) {
            return i;
        }
    }
    return count;
}
