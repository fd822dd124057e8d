/* Small JSON: a writer into a growing buffer, and a scanner for the headers of tensor files. */
#ifndef POCK_JSON_H
#define POCK_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Text being written. `failed` is set when memory ran out; later calls do nothing. Start with all zero; free with
 * pock_json_free. A `key` of NULL writes an element of an array. */
typedef struct {
    char *text;
    size_t length, capacity;
    int comma, failed;
} pock_json;

void pock_json_open(pock_json *json, const char *key, char bracket);
void pock_json_close(pock_json *json, char bracket);
void pock_json_string(pock_json *json, const char *key, const char *value);
void pock_json_integer(pock_json *json, const char *key, uint64_t value);
void pock_json_flag(pock_json *json, const char *key, int value);
/* Nine digits, enough to tell every f32 apart; null when not finite. */
void pock_json_number(pock_json *json, const char *key, double value);
void pock_json_shape(pock_json *json, const char *key, const int64_t *shape, size_t rank);
/* A value that is JSON already. */
void pock_json_raw(pock_json *json, const char *key, const char *value, size_t bytes);
void pock_json_free(pock_json *json);

/* Position in a text that the scanner may overwrite (strings are unescaped in place). Every scan_ function returns 1 when
 * it found what it was asked for and moved on, else 0. */
typedef struct {
    char *at, *end;
} pock_scan;

int pock_scan_is(pock_scan *scan, char token);
int pock_scan_string(pock_scan *scan, char **value);
int pock_scan_integer(pock_scan *scan, uint64_t *value);
/* Skips any value, at most `depth` levels deep. */
int pock_scan_skip(pock_scan *scan, int depth);
/* Only white space is left. */
int pock_scan_finished(pock_scan *scan);

#endif
