/** Labels as a person types them. */

export interface Typed {
  readonly labels: Readonly<Record<string, string>>;
  /** What is wrong, as a sentence; null where nothing is. */
  readonly problem: string | null;
}

/** "room=attic, rack=3" -> its labels. What may be in a key and a value the service says. */
export function labelsOf(text: string): Typed {
  const labels: Record<string, string> = {};
  for (const part of text.split(",").map((one) => one.trim())) {
    if (part === "") continue;
    const [key = "", value = ""] = part.split(/=(.*)/s).map((one) => one.trim());
    if (key === "" || value === "") return { labels, problem: `Write “${part}” as key=value, such as room=attic.` };
    labels[key] = value;
  }
  return { labels, problem: null };
}
