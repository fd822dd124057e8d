/** Some samples of one tensor: as images, curves, text or numbers. */

import { useEffect, useRef } from "preact/hooks";
import type { Dataset, DatasetPreview, DatasetTensor } from "../../api/types";
import { curl } from "../../commands";
import { Loaded, Section } from "../../components/page";
import { useResource } from "../../data";
import * as format from "../../format";
import { address, setQuery } from "../../router";
import {
  type Curves,
  curvesOf,
  inputsFirst,
  numberText,
  paint,
  type Pixels,
  pixelsOf,
  seriesOf,
  type Showing,
  showingsOf,
  textOf,
  type Values,
} from "./samples";

const SAMPLES = 12;
const MOST_SERIES = 8;
const MOST_NUMBERS = 64;
const NAMES: Readonly<Record<Showing, string>> = {
  images: "Images",
  curves: "Curves",
  text: "Text",
  numbers: "Numbers",
};

/** The tensor that is looked at: of the address, else the first that is not the labels. */
export function chosenTensor(dataset: Dataset): DatasetTensor | undefined {
  const asked = address.value?.query.get("tensor");
  return (
    dataset.tensors.find(({ name }) => name === asked) ??
    dataset.tensors.find(({ name }) => name !== "labels") ??
    dataset.tensors[0]
  );
}

export function Preview({ dataset }: { readonly dataset: Dataset }) {
  const tensor = chosenTensor(dataset);
  const query = address.value?.query;
  const first = Math.min(wholeNumber(query?.get("from")), dataset.samples - 1);
  if (!tensor) return null;
  const showings = showingsOf(tensor);
  const asked = query?.get("as") as Showing | null | undefined;
  const showing = showings.find((one) => one === asked) ?? showings[0] ?? "numbers";
  const path = `/datasets/${dataset.id}/preview?tensor=${encodeURIComponent(tensor.name)}&offset=${first}&count=${SAMPLES}`;
  return (
    <Section title="Samples" command={curl(path)}>
      <div class="preview-tools">
        <label class="field">
          <span>Tensor</span>
          <select
            value={tensor.name}
            onChange={(event) => setQuery({ tensor: event.currentTarget.value, as: null, from: null })}
          >
            {inputsFirst(dataset.tensors).map(({ name, dtype, shape }) => (
              <option key={name} value={name}>
                {name} ({dtype}, {format.shape(shape.slice(1))})
              </option>
            ))}
          </select>
        </label>
        <fieldset class="choice">
          <legend>Shown as</legend>
          {showings.map((one) => (
            <label key={one}>
              <input type="radio" name="as" checked={one === showing} onChange={() => setQuery({ as: one })} />
              {NAMES[one]}
            </label>
          ))}
        </fieldset>
      </div>
      <Samples path={path} dataset={dataset} tensor={tensor} showing={showing} first={first} />
    </Section>
  );
}

interface SamplesProps {
  readonly path: string;
  readonly dataset: Dataset;
  readonly tensor: DatasetTensor;
  readonly showing: Showing;
  readonly first: number;
}

function Samples({ path, dataset, tensor, showing, first }: SamplesProps) {
  const found = useResource<DatasetPreview>(path);
  const labelled =
    tensor.name !== "labels" && dataset.tensors.some(({ name, shape }) => name === "labels" && shape.length === 1);
  const labels = useResource<DatasetPreview>(
    labelled ? `/datasets/${dataset.id}/preview?tensor=labels&offset=${first}&count=${SAMPLES}` : null,
  );
  return (
    <Loaded of={found} what="samples">
      {(preview) => (
        <>
          {preview.samples.some((sample) => sample.length < preview.values) && (
            <p class="note">
              A sample has {format.count(preview.values)} values; the first {format.count(preview.samples[0]?.length)}{" "}
              are shown.
            </p>
          )}
          <ul class={`samples samples-${showing}`}>
            {preview.samples.map((values, index) => (
              <li key={first + index}>
                <Sample showing={showing} values={values} shape={preview.shape} name={`Sample ${first + index}`} />
                <span class="sample-name">
                  {first + index}
                  {labels.data?.samples[index] !== undefined && (
                    <span class="faint"> label {numberText(labels.data.samples[index]?.[0] ?? null)}</span>
                  )}
                </span>
              </li>
            ))}
          </ul>
          <Steps first={first} shown={preview.samples.length} of={dataset.samples} />
        </>
      )}
    </Loaded>
  );
}

function Steps(props: { readonly first: number; readonly shown: number; readonly of: number }) {
  const { first, shown, of } = props;
  const before = Math.max(0, first - Math.max(1, shown));
  return (
    <div class="actions">
      <button
        type="button"
        class="button"
        disabled={first === 0}
        onClick={() => setQuery({ from: before === 0 ? null : String(before) })}
      >
        Previous
      </button>
      <button
        type="button"
        class="button"
        disabled={first + shown >= of}
        onClick={() => setQuery({ from: String(first + shown) })}
      >
        Next
      </button>
      <span class="faint" role="status">
        {first} to {first + shown - 1} of {format.count(of)}
      </span>
    </div>
  );
}

interface SampleProps {
  readonly showing: Showing;
  readonly values: Values;
  readonly shape: readonly number[];
  readonly name: string;
}

function Sample({ showing, values, shape, name }: SampleProps) {
  const pixels = pixelsOf(shape);
  const curves = curvesOf(shape);
  if (showing === "images" && pixels) return <Picture values={values} pixels={pixels} name={name} />;
  if (showing === "curves" && curves) return <CurvePlot values={values} curves={curves} name={name} />;
  if (showing === "text") return <p class="sample-text">{textOf(values)}</p>;
  return (
    <p class="sample-text mono">
      {values.slice(0, MOST_NUMBERS).map(numberText).join("  ")}
      {values.length > MOST_NUMBERS && " …"}
    </p>
  );
}

function Picture(props: { readonly values: Values; readonly pixels: Pixels; readonly name: string }) {
  const { values, pixels, name } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const image = new ImageData(paint(values, pixels), pixels.width, pixels.height);
    canvas.current?.getContext("2d")?.putImageData(image, 0, 0);
  }, [values, pixels.width, pixels.height]);
  return <canvas ref={canvas} width={pixels.width} height={pixels.height} role="img" aria-label={name} />;
}

const WIDE = 300;
const HIGH = 110;

function CurvePlot(props: { readonly values: Values; readonly curves: Curves; readonly name: string }) {
  const { values, curves, name } = props;
  const series = seriesOf(values, curves, MOST_SERIES);
  const all = series.flat().filter((value) => value !== null);
  const least = all.reduce((a, b) => Math.min(a, b), Infinity);
  const most = all.reduce((a, b) => Math.max(a, b), -Infinity);
  const seriesText = `${series.length < curves.count ? `${series.length} of ` : ""}${curves.count} series`;
  const x = (at: number) => (at * WIDE) / Math.max(1, curves.length - 1);
  const y = (value: number) => (most > least ? HIGH - ((value - least) / (most - least)) * HIGH : HIGH / 2);
  return (
    <figure class="curves">
      <svg viewBox={`-2 -2 ${WIDE + 4} ${HIGH + 4}`} role="img" aria-label={`${name}, ${seriesText}`}>
        {series.map((one, index) => (
          <path key={index} class={`curve curve-${index % MOST_SERIES}`} d={pathOf(one, x, y)} />
        ))}
      </svg>
      <figcaption class="faint">
        {all.length > 0 ? `${numberText(least)} to ${numberText(most)}` : "nothing finite"}, {curves.length} values
        {curves.count > 1 && `, ${seriesText}`}
      </figcaption>
    </figure>
  );
}

/** A line through what is finite, with gaps where it is not. */
function pathOf(values: Values, x: (at: number) => number, y: (value: number) => number): string {
  let pen = "M";
  const parts: string[] = [];
  for (const [at, value] of values.entries()) {
    if (value === null) pen = "M";
    else {
      parts.push(`${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
      pen = "L";
    }
  }
  return parts.join("");
}

function wholeNumber(text: string | null | undefined): number {
  return text && /^\d{1,12}$/.test(text) ? Number(text) : 0;
}
