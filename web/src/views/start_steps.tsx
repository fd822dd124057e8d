/** The way from an empty service to a first run, step by step; what is done is marked. */

import type { Model, Overview } from "../api/types";
import { Section } from "../components/page";
import { useList } from "../data";
import { type Scope, whyNot } from "../permission";
import { link } from "../router";

interface Step {
  readonly done: boolean;
  readonly title: string;
  readonly why: string;
  readonly action: string;
  /** Null while a step before is missing. */
  readonly href: string | null;
  readonly scope: Scope;
}

/** Shown until something has run. */
export function FirstSteps({ overview }: { readonly overview: Overview }) {
  const { models, datasets, devices, builds, runs } = overview;
  const newest = useList<Model>(models > 0 ? "/models" : null, 0, 1).of.data?.[0];
  const some = (counts: object) => Object.keys(counts).length > 0;
  if (some(runs)) return null;
  const steps: Step[] = [
    {
      done: models > 0,
      title: "Upload a model",
      why: "An ONNX file, or what PyTorch exports. It stays on this service.",
      action: "Upload a model",
      href: "#/models?upload=1",
      scope: "models:write",
    },
    {
      done: datasets > 0,
      title: "Upload data",
      why: "A safetensors file with inputs and labels, to train and to measure with.",
      action: "Upload data",
      href: "#/datasets?upload=1",
      scope: "models:write",
    },
    {
      done: some(devices),
      title: "Enrol a device",
      why: "One command on the board, or a code for the phone.",
      action: "Enrol a device",
      href: "#/fleet?enrol=1",
      scope: "devices:admin",
    },
    {
      done: some(builds),
      title: "Choose what is trained, and start",
      why: "A preset is enough to begin with: only biases, the last layers, or everything.",
      action: "Start from a preset",
      href: newest ? link.model(newest.id) : null,
      scope: "builds:write",
    },
  ];
  const next = steps.findIndex(({ done }) => !done);
  return (
    <Section title="First steps">
      <ol class="first-steps">
        {steps.map((step, place) => (
          <OneStep key={step.title} step={step} number={place + 1} next={place === next} />
        ))}
      </ol>
    </Section>
  );
}

function OneStep({ step, number, next }: { readonly step: Step; readonly number: number; readonly next: boolean }) {
  const refused = whyNot(step.scope);
  return (
    <li class={step.done ? "first-step first-step-done" : "first-step"}>
      <span class="first-step-number" aria-hidden="true">
        {step.done ? "✓" : number}
      </span>
      <h3>
        {step.title}
        {step.done && <span class="faint"> (done)</span>}
      </h3>
      <p>{step.why}</p>
      {refused !== null ? (
        <p class="needs-reason">{refused}</p>
      ) : step.href === null ? (
        <p class="faint">Upload a model first.</p>
      ) : (
        <a class={next ? "button button-primary" : "button"} href={step.href}>
          {step.action}
        </a>
      )}
    </li>
  );
}
