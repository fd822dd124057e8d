#include "platform.h"

#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pock.h"

#define LONGEST_NAME 127

int pock_fail(pock_error *error, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return code;
}

/* Levenshtein distance of the names' first LONGEST_NAME bytes. */
static size_t distance(const char *left, const char *right) {
    size_t row[LONGEST_NAME + 1];
    size_t columns = strnlen(right, LONGEST_NAME);
    size_t rows = strnlen(left, LONGEST_NAME);
    for (size_t j = 0; j <= columns; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = diagonal + (left[i - 1] != right[j - 1]);
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[columns];
}

static void list_names(pock_hint *hint, pock_name_at name_at, const void *context, size_t count) {
    size_t used = (size_t)snprintf(hint->text, sizeof hint->text, " (known: ");
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(context, i);
        if (i == 8 || used + strlen(name) + 8 > sizeof hint->text) {
            used += (size_t)snprintf(hint->text + used, sizeof hint->text - used, ", ...");
            break;
        }
        used += (size_t)snprintf(hint->text + used, sizeof hint->text - used, "%s%s", i ? ", " : "", name);
    }
    snprintf(hint->text + used, sizeof hint->text - used, ")");
}

pock_hint pock_nearest(const char *name, pock_name_at name_at, const void *context, size_t count) {
    pock_hint hint = {{0}};
    size_t best = strlen(name) / 2 + 1;
    const char *closest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t away = distance(name, name_at(context, i));
        if (away < best) {
            best = away;
            closest = name_at(context, i);
        }
    }
    if (closest) {
        snprintf(hint.text, sizeof hint.text, " (did you mean '%s'?)", closest);
    } else if (count) {
        list_names(&hint, name_at, context, count);
    }
    return hint;
}

const char *pock_string_at(const void *strings, size_t index) {
    return ((const char *const *)strings)[index];
}

const char *pock_tensor_at(const void *tensors, size_t index) {
    return ((const pock_tensor *)tensors)[index].name;
}
