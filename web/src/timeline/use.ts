/** Lines of shell, Python and C that use an artifact: they train one step on zeros, to be replaced by real samples. */

import { quote } from "../commands";

interface Input {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** May be left out of a batch. */
  readonly optional: boolean;
}

export interface Used {
  readonly name: string;
  readonly inputs: readonly Input[];
  readonly members: readonly string[];
}

const NUMPY: Readonly<Record<string, string>> = {
  f32: "float32",
  f16: "float16",
  i64: "int64",
  i32: "int32",
  u8: "uint8",
};
const C: Readonly<Record<string, string>> = {
  f32: "float",
  f16: "uint16_t",
  i64: "int64_t",
  i32: "int32_t",
  u8: "uint8_t",
};

const file = ({ name }: Used) => `${name}.pock`;
const numpy = (dtype: string) => NUMPY[dtype] ?? dtype;

export function shellLines(used: Used): string {
  return `pock run ${quote(file(used))} train --data train.safetensors --epochs 3 --save trained.safetensors`;
}

export function pythonLines(used: Used): string {
  const arrays = used.inputs
    .filter(({ optional }) => !optional)
    .map(({ name, dtype, shape }) => {
      const dims = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
      return `    ${JSON.stringify(name)}: np.zeros((${dims}), np.${numpy(dtype)}),`;
    });
  return [
    "import numpy as np",
    "import pockengine as pock",
    "",
    `session = pock.Artifact.open(${JSON.stringify(file(used))}).load()`,
    "batch = {",
    ...arrays,
    "}",
    "print(session.step(batch))",
    'session.save("trained.safetensors")',
  ].join("\n");
}

/** The program, and in its first line how it is built and run in the folder where the artifact lies. */
export function cLines(used: Used): string {
  const has = (member: string) => used.members.includes(member);
  const arrays = used.inputs.flatMap(({ dtype, shape, optional }, index) =>
    optional ? [] : [`static ${C[dtype] ?? "float"} input_${index}[${shape.join(" * ") || 1}];`],
  );
  const batch = used.inputs.map(({ optional }, index) => (optional ? "NULL" : `input_${index}`));
  const constants = has("consts.safetensors") ? '"consts.safetensors"' : "NULL";
  return [
    `/* unzip -o ${quote(file(used))} && cc use.c -o use -Wl,-rpath,bin bin/libmodel.so && ./use */`,
    "#include <stdio.h>",
    '#include "bin/model.h"',
    "",
    ...arrays,
    "",
    "int main(void) {",
    "  pock_session *session = NULL;",
    `  const void *batch[] = {${batch.join(", ")}};`,
    "  float loss;",
    `  if (pock_open(&session, "params.safetensors", ${constants}, 0) || pock_step(session, batch, &loss) ||`,
    '      pock_save(session, "trained.safetensors"))',
    '    return fprintf(stderr, "%s\\n", pock_message(session)), 1;',
    '  printf("%g\\n", loss);',
    "  pock_close(session);",
    "  return 0;",
    "}",
  ].join("\n");
}

/** Whether the lines of C can be used: the artifact has a library for Linux. */
export const hasLibrary = ({ members }: Used) => members.includes("bin/libmodel.so");
