#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(pock_json *json, const char *text, size_t bytes) {
    if (json->failed) {
        return;
    }
    if (json->length + bytes + 1 > json->capacity) {
        size_t capacity = (json->capacity ? json->capacity * 2 : 512) + bytes;
        char *grown = realloc(json->text, capacity);
        if (!grown) {
            json->failed = 1;
            return;
        }
        json->text = grown;
        json->capacity = capacity;
    }
    memcpy(json->text + json->length, text, bytes);
    json->length += bytes;
    json->text[json->length] = 0;
}

static void append_text(pock_json *json, const char *text) {
    append(json, text, strlen(text));
}

static void append_quoted(pock_json *json, const char *value) {
    append_text(json, "\"");
    for (const char *at = value; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        char escape[8];
        if (byte == '"' || byte == '\\') {
            snprintf(escape, sizeof escape, "\\%c", byte);
            append_text(json, escape);
        } else if (byte < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", byte);
            append_text(json, escape);
        } else {
            append(json, at, 1);
        }
    }
    append_text(json, "\"");
}

static void begin_value(pock_json *json, const char *key) {
    if (json->comma) {
        append_text(json, ",");
    }
    json->comma = 1;
    if (key) {
        append_quoted(json, key);
        append_text(json, ":");
    }
}

void pock_json_open(pock_json *json, const char *key, char bracket) {
    begin_value(json, key);
    append(json, &bracket, 1);
    json->comma = 0;
}

void pock_json_close(pock_json *json, char bracket) {
    append(json, &bracket, 1);
    json->comma = 1;
}

void pock_json_string(pock_json *json, const char *key, const char *value) {
    begin_value(json, key);
    append_quoted(json, value);
}

void pock_json_integer(pock_json *json, const char *key, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    begin_value(json, key);
    append_text(json, digits);
}

void pock_json_flag(pock_json *json, const char *key, int value) {
    begin_value(json, key);
    append_text(json, value ? "true" : "false");
}

void pock_json_number(pock_json *json, const char *key, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", value);
    begin_value(json, key);
    append_text(json, isfinite(value) ? digits : "null");
}

void pock_json_shape(pock_json *json, const char *key, const int64_t *shape, size_t rank) {
    pock_json_open(json, key, '[');
    for (size_t axis = 0; axis < rank; axis++) {
        pock_json_integer(json, NULL, (uint64_t)shape[axis]);
    }
    pock_json_close(json, ']');
}

void pock_json_raw(pock_json *json, const char *key, const char *value, size_t bytes) {
    begin_value(json, key);
    append(json, value, bytes);
}

void pock_json_free(pock_json *json) {
    free(json->text);
    memset(json, 0, sizeof *json);
}

static void skip_space(pock_scan *scan) {
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r')) {
        scan->at++;
    }
}

int pock_scan_is(pock_scan *scan, char token) {
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != token) {
        return 0;
    }
    scan->at++;
    return 1;
}

int pock_scan_finished(pock_scan *scan) {
    skip_space(scan);
    return scan->at == scan->end;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int scan_hex(pock_scan *scan, unsigned *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = scan->at < scan->end ? hex_digit(*scan->at++) : -1;
        if (digit < 0) {
            return 0;
        }
        *unit = *unit * 16 + (unsigned)digit;
    }
    return 1;
}

/* After `\u`: one code point, a surrogate pair included, as UTF-8. */
static int scan_code_point(pock_scan *scan, char **out) {
    unsigned code = 0;
    unsigned low = 0;
    if (!scan_hex(scan, &code) || code == 0 || (code >= 0xDC00 && code < 0xE000)) {
        return 0;
    }
    if (code >= 0xD800 && code < 0xDC00) {
        if (scan->end - scan->at < 6 || *scan->at++ != '\\' || *scan->at++ != 'u' || !scan_hex(scan, &low) ||
            low < 0xDC00 || low >= 0xE000) {
            return 0;
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    int tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const unsigned lead[4] = {0x00, 0xC0, 0xE0, 0xF0};
    *(*out)++ = (char)(lead[tail] | (code >> (6 * tail)));
    while (tail-- > 0) {
        *(*out)++ = (char)(0x80 | ((code >> (6 * tail)) & 0x3F));
    }
    return 1;
}

static int scan_escape(pock_scan *scan, char **out) {
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (scan->at == scan->end) {
        return 0;
    }
    char kind = *scan->at++;
    if (kind == 'u') {
        return scan_code_point(scan, out);
    }
    const char *found = kind ? strchr(from, kind) : NULL;
    if (!found) {
        return 0;
    }
    *(*out)++ = to[found - from];
    return 1;
}

int pock_scan_string(pock_scan *scan, char **value) {
    if (!pock_scan_is(scan, '"')) {
        return 0;
    }
    char *out = scan->at;
    *value = out;
    while (scan->at < scan->end) {
        char byte = *scan->at++;
        if (byte == '"') {
            *out = 0;
            return 1;
        }
        if ((unsigned char)byte < 0x20 || (byte == '\\' && !scan_escape(scan, &out))) {
            return 0;
        }
        if (byte != '\\') {
            *out++ = byte;
        }
    }
    return 0;
}

int pock_scan_integer(pock_scan *scan, uint64_t *value) {
    skip_space(scan);
    char *start = scan->at;
    *value = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        if (*value > (UINT64_MAX >> 4)) {
            return 0;
        }
        *value = *value * 10 + (uint64_t)(*scan->at++ - '0');
    }
    return scan->at > start;
}

static int skip_members(pock_scan *scan, int depth, int keyed, char closing) {
    char *key = NULL;
    if (pock_scan_is(scan, closing)) {
        return 1;
    }
    do {
        if (keyed && !(pock_scan_string(scan, &key) && pock_scan_is(scan, ':'))) {
            return 0;
        }
        if (!pock_scan_skip(scan, depth - 1)) {
            return 0;
        }
    } while (pock_scan_is(scan, ','));
    return pock_scan_is(scan, closing);
}

int pock_scan_skip(pock_scan *scan, int depth) {
    char *text = NULL;
    skip_space(scan);
    if (depth == 0 || scan->at == scan->end) {
        return 0;
    }
    if (*scan->at == '"') {
        return pock_scan_string(scan, &text);
    }
    if (pock_scan_is(scan, '{')) {
        return skip_members(scan, depth, 1, '}');
    }
    if (pock_scan_is(scan, '[')) {
        return skip_members(scan, depth, 0, ']');
    }
    char *start = scan->at;
    while (scan->at < scan->end && (strchr("+-.", *scan->at) || (*scan->at >= '0' && *scan->at <= '9') ||
                                    (*scan->at >= 'a' && *scan->at <= 'z') || *scan->at == 'E')) {
        if (!*scan->at) {
            return 0;
        }
        scan->at++;
    }
    return scan->at > start;
}
