import { describe, expect, it } from "vitest";
import {
  type Choice,
  matches,
  optionOf,
  optionsOf,
  optionText,
  PRESETS,
  type Row,
  RANKS,
  rulesOf,
  type Scheme,
  SHARES,
  withOption,
} from "./scheme";

const layer = (name: string, weight: number[], channels: number | null): Row => ({
  name,
  parameters: [
    { name: `${name}.weight`, shape: weight, channels },
    { name: `${name}.bias`, shape: [weight[0] ?? 1], channels: null },
  ],
});
const norm: Row = {
  name: "norm",
  parameters: [
    { name: "norm.weight", shape: [8], channels: null },
    { name: "norm.bias", shape: [8], channels: null },
  ],
};
const ROWS: Row[] = [
  layer("stem", [8, 3, 3, 3], 3),
  norm,
  layer("blocks.0.conv", [16, 8, 1, 1], 8),
  layer("blocks.0", [16, 16], 16),
  layer("odd[1]", [16, 16], 16),
  layer("head", [10, 16], 16),
  { name: "inputs", parameters: [] },
];

/** What rules of a recipe mean, read as the compiler does: the first that fits decides. */
function meant(rows: readonly Row[], trained: ReturnType<typeof rulesOf>): Map<string, Choice> {
  const found = new Map<string, Choice>();
  for (const { name } of rows.flatMap((row) => row.parameters)) {
    const rule = trained.update?.find(({ params }) => matches(params, name));
    if (rule)
      found.set(name, rule.channels === undefined ? { kind: "all" } : { kind: "channels", share: rule.channels });
    else if (trained.lora?.params.some((pattern) => matches(pattern, name))) {
      const other = trained.lora.ranks?.find(({ params }) => matches(params, name));
      found.set(name, { kind: "rank", rank: other?.rank ?? trained.lora.rank });
    }
  }
  return found;
}

const trainedOf = (scheme: Scheme) => new Map([...scheme].filter(([, choice]) => choice.kind !== "frozen"));

describe("rulesOf", () => {
  it("says of any scheme exactly what it trains", () => {
    let seed = 16;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    const choices: Choice[] = [
      { kind: "frozen" },
      { kind: "all" },
      ...SHARES.map((share): Choice => ({ kind: "channels", share })),
      ...RANKS.map((rank): Choice => ({ kind: "rank", rank })),
    ];
    for (let turn = 0; turn < 400; turn += 1) {
      const few = turn % 3 === 0 ? 2 : choices.length;
      const parameters = ROWS.flatMap((row) => row.parameters);
      const scheme = new Map(parameters.map(({ name }) => [name, choices[random(few)] ?? { kind: "all" as const }]));
      expect(meant(ROWS, rulesOf(ROWS, scheme))).toEqual(trainedOf(scheme));
    }
  });

  it("is short where it can be", () => {
    const everything = withOption(new Map(), ROWS, "all");
    expect(rulesOf(ROWS, everything)).toEqual({ update: [{ params: "*" }] });
    const biases = withOption(new Map(), ROWS, "bias");
    expect(rulesOf(ROWS, biases)).toEqual({ update: [{ params: "*.bias" }] });
    const head = withOption(new Map(), ROWS.slice(5, 6), "all");
    expect(rulesOf(ROWS, head)).toEqual({ update: [{ params: "head.*" }] });
  });

  it("trains nothing where nothing is chosen", () => expect(rulesOf(ROWS, new Map())).toEqual({}));

  it("escapes names that look like patterns", () => {
    const scheme: Scheme = new Map([["odd[1].weight", { kind: "channels", share: 0.5 }]]);
    expect(rulesOf(ROWS, scheme)).toEqual({ update: [{ params: "odd[[]1].weight", channels: 0.5 }] });
  });
});

describe("options of layers", () => {
  it("are what the layer can be", () => {
    expect(optionsOf(norm)).toEqual(["frozen", "bias", "all"]);
    expect(optionsOf(layer("stem", [8, 3, 3, 3], 3))).toEqual([
      "frozen",
      "bias",
      "share-0.125",
      "share-0.25",
      "share-0.5",
      "all",
    ]);
    expect(optionsOf({ name: "inputs", parameters: [] })).toEqual([]);
  });

  it("are found again in a scheme", () => {
    for (const row of ROWS)
      for (const option of optionsOf(row)) {
        expect(optionOf(row, withOption(new Map(), [row], option))).toBe(option);
        expect(optionText(option)).not.toContain("-");
      }
    expect(optionOf(norm, new Map([["norm.weight", { kind: "all" }]]))).toBe("mixed");
  });

  it("leave layers alone that cannot be so", () => {
    const scheme = withOption(withOption(new Map(), [norm], "all"), ROWS, "rank-4");
    expect(optionOf(norm, scheme)).toBe("all");
  });

  it("are what presets consist of", () => {
    for (const { choose } of PRESETS) expect(trainedOf(choose(ROWS)).size).toBeGreaterThan(0);
  });
});
