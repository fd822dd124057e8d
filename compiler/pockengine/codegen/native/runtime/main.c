/* The executable. */
#include "platform.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include "job.h"

#define PATH_BYTES 4096

/* The folder of this executable, with its final slash; `./` where the system does not tell. */
static void find_folder(char *folder, size_t bytes) {
#if defined(__APPLE__)
    uint32_t room = (uint32_t)bytes - 1;
    int known = _NSGetExecutablePath(folder, &room) == 0;
#else
    ssize_t length = readlink("/proc/self/exe", folder, bytes - 1);
    int known = length > 0;
    folder[known ? length : 0] = 0;
#endif
    char *slash = known ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[1] = 0;
    } else {
        snprintf(folder, bytes, "./");
    }
}

/* The path given, or the file in the artifact's layout (`bin/model` beside `params.safetensors`), or next to the binary. */
static void find_weights(char *path, const char *given, const char *name) {
    char folder[PATH_BYTES];
    if (given) {
        snprintf(path, PATH_BYTES, "%s", given);
        return;
    }
    find_folder(folder, sizeof folder - 64);
    snprintf(path, PATH_BYTES, "%s../%s", folder, name);
    if (access(path, F_OK) != 0) {
        snprintf(path, PATH_BYTES, "%s%s", folder, name);
    }
}

static int open_machine(pock_job *job) {
    const pock_options *options = job->options;
    char params[PATH_BYTES];
    char consts[PATH_BYTES];
    find_weights(params, options->params, "params.safetensors");
    find_weights(consts, options->consts, "consts.safetensors");
    uint32_t threads = options->threads > UINT32_MAX ? UINT32_MAX : (uint32_t)options->threads;
    int code = pock_machine_open(&job->machine, &pock_model_data, params, consts, threads, &job->error);
    return code || !options->load ? code : pock_machine_load(&job->machine, options->load, &job->error);
}

static int run_entry(pock_job *job) {
    switch (job->options->entry) {
    case POCK_TRAIN:
        return pock_train(job);
    case POCK_EVAL:
        return pock_evaluate(job);
    case POCK_PREDICT:
        return pock_predict_all(job);
    case POCK_GENERATE:
        return pock_generate(job);
    default:
        return pock_benchmark(job);
    }
}

static int write_report(pock_job *job, const char *path, const pock_json *report) {
    pock_output output = {0};
    int code = pock_output_open(&output, path, &job->error);
    code = code ? code : pock_output_write(&output, report->text, report->length, 0, &job->error);
    code = code ? code : pock_output_write(&output, "\n", 1, report->length, &job->error);
    code = code ? code : pock_output_commit(&output, &job->error);
    pock_output_abandon(&output);
    return code;
}

static int finish(pock_job *job) {
    pock_json report = {0};
    pock_json line = {0};
    const char *entry = pock_entry_name(job->options->entry);
    pock_report_write(&report, NULL, entry, &job->machine, &job->measured);
    int code = report.failed ? pock_fail(&job->error, POCK_MEMORY, "out of memory writing the report") : POCK_OK;
    if (!code && job->options->report) {
        code = write_report(job, job->options->report, &report);
    }
    if (!code) {
        pock_json_open(&line, NULL, '{');
        pock_json_string(&line, "event", "done");
        pock_json_raw(&line, "report", report.text, report.length);
        pock_json_close(&line, '}');
        code = pock_emit(job, &line);
    }
    pock_json_free(&report);
    return code;
}

static int print_info(pock_job *job) {
    pock_json json = {0};
    pock_info_write(&json, &pock_model_data);
    return pock_emit(job, &json);
}

/* Training sees one part of the dataset and its evaluations the other; eval sees what training would hold out. */
static int hold_out(pock_job *job) {
    const pock_options *options = job->options;
    int trains = options->entry == POCK_TRAIN;
    int code = pock_dataset_split(&job->dataset, options->eval_share, options->eval_seed, &job->split, &job->error);
    if (code) {
        return code;
    }
    job->measured.split = &job->split;
    pock_dataset_take(&job->dataset, &job->split, !trains);
    if (trains) {
        pock_dataset_take(&job->eval_data, &job->split, 1);
    }
    return POCK_OK;
}

static int run_job(pock_job *job) {
    const pock_options *options = job->options;
    if (options->entry == POCK_INFO) {
        return print_info(job);
    }
    int code = options->entry == POCK_TRAIN ? pock_train_check(options, &pock_model_data, &job->error) : POCK_OK;
    if (!code && options->report) {
        code = pock_output_possible(options->report, &job->error);
    }
    if (!code && options->data) {
        int labelled = options->entry != POCK_PREDICT;
        code = pock_dataset_open(&job->dataset, &pock_model_data, options->data, labelled, &job->error);
    }
    if (!code && options->eval_data) {
        code = pock_dataset_open(&job->eval_data, &pock_model_data, options->eval_data, 1, &job->error);
    }
    if (!code && options->eval_share > 0) {
        code = hold_out(job);
    }
    code = code ? code : open_machine(job);
    code = code ? code : run_entry(job);
    return code ? code : finish(job);
}

int main(int count, char **arguments) {
    pock_options options;
    pock_job job = {.options = &options, .measured = {.started = pock_now()}};
    /* A full quota or a closed pipe is then an error of the write, with a sentence, instead of a silent death. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int code = pock_options_parse(&options, count, arguments, &job.error);
    if (!code && options.help) {
        return fputs(pock_usage(), stdout) < 0 || fflush(stdout) != 0 ? POCK_IO : POCK_OK;
    }
    code = code ? code : run_job(&job);
    pock_dataset_close(&job.dataset);
    pock_dataset_close(&job.eval_data);
    pock_split_free(&job.split);
    pock_machine_close(&job.machine);
    pock_measured_free(&job.measured);
    if (code) {
        fprintf(stderr, "%s\n", job.error.text);
    }
    return code;
}
