import { expect, test } from "vitest";
import { type Chosen, makePlan, nameOf, type Readers } from "./plan";

const chosen = (path: string, bytes = "x"): Chosen => ({ path, file: new File([bytes], path.split("/").pop() ?? "") });

function readers(external: readonly string[], why: string | null = null): Readers {
  return {
    model: () => Promise.resolve({ external, why }),
    dataset: () => Promise.resolve(why),
  };
}

test("a model takes the files that it names, and says which are missing and which are not its own", async () => {
  const files = [chosen("net.onnx"), chosen("w1.bin"), chosen("notes.txt")];
  const { planned, left } = await makePlan(files, "model", readers(["w1.bin", "w2.bin"]));
  expect(planned).toHaveLength(1);
  expect(planned[0]?.name).toBe("net");
  expect(planned[0]?.external.map(({ name, file }) => [name, file.name])).toEqual([["w1.bin", "w1.bin"]]);
  expect(planned[0]?.missing).toEqual(["w2.bin"]);
  expect(left).toEqual([{ path: "notes.txt", why: "is not named by the model, and is not sent." }]);
});

test("in a folder, data lie where the model names them; chosen one by one, they have no folder", async () => {
  const folder = [chosen("net/net.onnx"), chosen("net/data/w.bin"), chosen("other/data/w.bin")];
  const inFolder = await makePlan(folder, "model", readers(["data/w.bin"]));
  expect(inFolder.planned[0]?.external[0]?.file).toBe(folder[1]?.file);
  expect(inFolder.left.map(({ path }) => path)).toEqual(["other/data/w.bin"]);
  const flat = await makePlan([chosen("net.onnx"), chosen("w.bin")], "model", readers(["data/w.bin"]));
  expect(flat.planned[0]?.external[0]?.name).toBe("data/w.bin");
});

test("an empty file is neither a model nor data of one", async () => {
  const empty = await makePlan([chosen("net.onnx", "")], "model", readers([]));
  expect(empty.planned[0]?.why).toBe("It is empty.");
  const data = await makePlan([chosen("net.onnx"), chosen("w.bin", "")], "model", readers(["w.bin"]));
  expect(data.planned[0]?.missing).toEqual(["w.bin"]);
});

test("what is no dataset is told how to become one", async () => {
  const { planned, left } = await makePlan([chosen("digits.csv"), chosen("net.onnx")], "dataset", readers([]));
  expect(planned).toEqual([]);
  expect(left[0]?.why).toContain("save_file");
  expect(left[1]?.why).toContain("under Models");
  const good = await makePlan(
    [chosen("a.safetensors"), chosen("b.safetensors")],
    "dataset",
    readers([], "It is short."),
  );
  expect(good.planned.map(({ name, why }) => [name, why])).toEqual([
    ["a", "It is short."],
    ["b", "It is short."],
  ]);
});

test("names come from files", () => {
  expect(nameOf("folder/mobilenet.v2.onnx")).toBe("mobilenet.v2");
  expect(nameOf(".onnx")).toBe(".onnx");
});
